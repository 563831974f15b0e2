"""Prints what is in JPEG files.

    pip install tritonclient[http]
    python examples/imagenet/classify.py cat.jpg --host localhost:8000
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import tritonclient.http as triton


def classify(
    client: triton.InferenceServerClient, jpegs: list[bytes], count: int
) -> list[list[tuple[float, str]]]:
    """The `count` likeliest classes of each picture, best first, with their probabilities."""
    pictures = triton.InferInput("JPEG", [len(jpegs), 1], "BYTES")
    pictures.set_data_from_numpy(np.array([[jpeg] for jpeg in jpegs], np.object_))
    wanted = triton.InferRequestedOutput("probabilities", class_count=count)
    rows = client.infer("imagenet", [pictures], outputs=[wanted]).as_numpy("probabilities")
    return [[read_class(text.decode()) for text in row] for row in rows]


def read_class(text: str) -> tuple[float, str]:
    """`0.391270:285:Egyptian cat` is a probability, an index and a name."""
    probability, _, name = text.split(":", 2)
    return float(probability), name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--host", default="localhost:8000", help="default: %(default)s")
    arguments = parser.parse_args()
    client = triton.InferenceServerClient(arguments.host)
    for file in arguments.files:
        [classes] = classify(client, [file.read_bytes()], 3)
        print(f"{file}: " + ", ".join(f"{name} {share:.0%}" for share, name in classes))


if __name__ == "__main__":
    main()
