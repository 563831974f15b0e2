"""Writes the TorchScript files that the tests serve: `python3 build_torch_models.py FOLDER`."""

from __future__ import annotations

import os
import sys
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn


class AddSub(nn.Module):
    def forward(self, left: Tensor, right: Tensor) -> Tuple[Tensor, Tensor]:
        return left + right, left - right


class AddSubByKey(nn.Module):
    def forward(self, left: Tensor, right: Tensor) -> Dict[str, Tensor]:
        return {"difference": left - right, "sum": left + right}


class AddSubList(nn.Module):
    def forward(self, left: Tensor, right: Tensor) -> List[Tensor]:
        return [left + right, left - right]


class Double(nn.Module):
    def forward(self, values: Tensor, addend: Optional[Tensor] = None) -> Tensor:
        doubled = values * 2
        return doubled if addend is None else doubled + addend


class Refuse(nn.Module):
    def forward(self, values: Tensor) -> Tensor:
        if bool((values < 0).any()):
            raise ValueError("negative values")
        return values


class Shout(nn.Module):
    def forward(self, texts: List[str]) -> List[str]:
        return [text.upper() for text in texts]


class Mode(nn.Module):
    """1 in inference mode, else 0."""

    def forward(self, values: Tensor) -> Tensor:
        return torch.tensor([1 if values.mul(2).is_inference() else 0])


class Residual(nn.Module):
    def __init__(self, channels: int, out_channels: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(channels, out_channels, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
            nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
        )
        self.shortcut = nn.Conv2d(channels, out_channels, 1, stride=2, bias=False)

    def forward(self, image: Tensor) -> Tensor:
        return torch.relu(self.path(image) + self.shortcut(image))


class Classifier(nn.Module):
    """A small residual network: 3x224x224 images, 1000 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 7, stride=4, padding=3)
        self.blocks = nn.Sequential(Residual(16, 32), Residual(32, 64), Residual(64, 128))
        self.head = nn.Linear(128, 1000)

    def forward(self, image: Tensor) -> Tensor:
        features = self.blocks(torch.relu(self.stem(image))).mean([2, 3])
        return self.head(features)


def main(folder: str) -> None:
    torch.manual_seed(7)
    modules: Dict[str, nn.Module] = {
        "add_sub": AddSub(),
        "add_sub_by_key": AddSubByKey(),
        "add_sub_list": AddSubList(),
        "double": Double(),
        "refuse": Refuse(),
        "shout": Shout(),
        "mode": Mode(),
        "classifier": Classifier(),
    }
    for name, module in modules.items():
        torch.jit.script(module.eval()).save(os.path.join(folder, name + ".pt"))


if __name__ == "__main__":
    main(sys.argv[1])
