"""Asks a server for its models and calls the two of this example.

    pip install tritonclient[http]
    python examples/scenario/client.py list-of-models --host localhost:8000
    python examples/scenario/client.py call-add-sub-model --host localhost:8000
    python examples/scenario/client.py call-resnet --host https://models.example.com
"""

from __future__ import annotations

import argparse

import numpy as np
import tritonclient.http as triton

CLASSES = 1000


def connect(host: str) -> triton.InferenceServerClient:
    """HOST is `name:port`, or `https://name` where TLS is spoken."""
    scheme, separator, address = host.rpartition("://")
    if separator and scheme not in ("http", "https"):
        raise SystemExit(f"--host: '{scheme}' is neither http nor https")
    return triton.InferenceServerClient(address.rstrip("/"), ssl=scheme == "https")


def tensor(name: str, values: np.ndarray) -> triton.InferInput:
    made = triton.InferInput(name, list(values.shape), "FP32")
    made.set_data_from_numpy(values, binary_data=True)
    return made


def list_models(client: triton.InferenceServerClient) -> None:
    print(client.get_model_repository_index())


def call_add_sub(client: triton.InferenceServerClient) -> None:
    left, right = (np.random.rand(4).astype(np.float32) for _ in range(2))
    result = client.infer(
        model_name="add_sub",
        model_version="1",
        inputs=[tensor("INPUT0", left), tensor("INPUT1", right)],
        outputs=[
            triton.InferRequestedOutput(name, binary_data=True) for name in ("OUTPUT0", "OUTPUT1")
        ],
    )
    print(f"{left} + {right} = {result.as_numpy('OUTPUT0')}")
    print(f"{left} - {right} = {result.as_numpy('OUTPUT1')}")


def call_resnet(client: triton.InferenceServerClient) -> None:
    image = np.random.rand(3, 224, 224).astype(np.float32)
    result = client.infer(
        model_name="resnet",
        model_version="1",
        inputs=[tensor("input__0", image)],
        outputs=[
            triton.InferRequestedOutput("output__0", binary_data=True, class_count=CLASSES)
        ],
    )
    print(result.as_numpy("output__0").tolist())


COMMANDS = {
    "list-of-models": (list_models, "print the repository index"),
    "call-add-sub-model": (call_add_sub, "add and subtract four random numbers"),
    "call-resnet": (call_resnet, "classify a random picture, best class first"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, what) in COMMANDS.items():
        command = commands.add_parser(name, help=what)
        command.add_argument("--host", default="localhost:8000", help="default: %(default)s")
    arguments = parser.parse_args()
    run, _ = COMMANDS[arguments.command]
    run(connect(arguments.host))


if __name__ == "__main__":
    main()
