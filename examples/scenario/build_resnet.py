"""Writes a small residual network as TorchScript, the file of the model `resnet`.

    apt-get install python3-torch
    /usr/bin/python3 examples/scenario/build_resnet.py examples/scenario/models/resnet/1/model.pt

It has the inputs and outputs of a ResNet for ImageNet, but weights from a seed: it shows how such a
model is served, not what is in a picture.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

SEED = 18
CLASSES = 1000
STEM_CHANNELS = 16
STAGE_CHANNELS = (16, 32, 64, 128)


class ResidualBlock(nn.Module):
    def __init__(self, channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(channels, out_channels, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
            nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
        )
        self.shortcut = nn.Conv2d(channels, out_channels, 1, stride=stride, bias=False)

    def forward(self, image: Tensor) -> Tensor:
        return torch.relu(self.path(image) + self.shortcut(image))


class ResNet(nn.Module):
    """[n, 3, 224, 224] to the scores of 1000 classes, [n, 1000]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, STEM_CHANNELS, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(STEM_CHANNELS),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        blocks = []
        channels = STEM_CHANNELS
        for out_channels in STAGE_CHANNELS:
            stride = 1 if out_channels == STEM_CHANNELS else 2
            blocks.append(ResidualBlock(channels, out_channels, stride))
            channels = out_channels
        self.stages = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.stages(self.stem(image)).mean([2, 3]))


def main(path: str) -> None:
    torch.manual_seed(SEED)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    torch.jit.script(ResNet().eval()).save(path)


if __name__ == "__main__":
    main(sys.argv[1])
