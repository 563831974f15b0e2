"""FastAPI with onnxruntime, in two forms.

PEER_MODELS is a JSON list of models: {"name", "file", "threads"}.
    POST /NAME        {"x": [[...], ...]}  ->  {"y": [[...], ...]}   for speed: orjson and numpy
    POST /typed/NAME  the same, as its tutorial has it: FastAPI checks and writes the numbers
"""

from __future__ import annotations

import json
import os

import numpy as np
import onnxruntime as ort
import orjson
from fastapi import FastAPI, HTTPException, Request, Response

app = FastAPI()


def load(model: dict) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = model["threads"]
    return ort.InferenceSession(model["file"], options)


sessions = {model["name"]: load(model) for model in json.loads(os.environ["PEER_MODELS"])}


@app.get("/ready")
async def ready() -> Response:
    return Response()


def run(name: str, body: dict[str, list]) -> dict[str, np.ndarray]:
    session = sessions.get(name)
    if session is None:
        raise HTTPException(404)
    feeds = {key: np.asarray(value, dtype=np.float32) for key, value in body.items()}
    answers = session.run(None, feeds)
    return {output.name: array for output, array in zip(session.get_outputs(), answers)}


@app.post("/typed/{name}")
async def infer_typed(name: str, body: dict[str, list[list[float]]]) -> dict[str, list]:
    return {key: array.tolist() for key, array in run(name, body).items()}


@app.post("/{name}")
async def infer(name: str, request: Request) -> Response:
    outputs = run(name, orjson.loads(await request.body()))
    return Response(
        orjson.dumps(outputs, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json"
    )
