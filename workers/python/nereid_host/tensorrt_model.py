"""TensorRT engines: `1/model.plan`, with tensors in GPU memory through torch."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List

import numpy as np

from nereid_host import framework
from nereid_host.errors import TritonModelException
from nereid_host.model_source import ModelSource
from nereid_host.request import InferenceRequest
from nereid_host.response import InferenceResponse
from nereid_host.tensor import Tensor

trt = framework.import_framework("tensorrt", "tensorrt")
# Engines read and write GPU memory; torch allocates it and copies to and from it.
torch = framework.import_framework("torch", "tensorrt")


class TritonPythonModel:
    """One execution context; inputs and outputs go by the engine's tensor names."""

    def bind_source(self, source: ModelSource, default_threads: int) -> None:
        self._source = source

    def initialize(self, args: Dict[str, str]) -> None:
        if not torch.cuda.is_available():
            raise TritonModelException("TensorRT engines need a GPU, and this machine shows none")
        config = json.loads(args["model_config"])
        path = os.path.join(self._source.version_directory, self._source.filename)
        if not os.path.isfile(path):
            raise TritonModelException("model file '{}' is missing".format(path))
        self._device = torch.device("cuda", max(int(args["model_instance_device_id"]), 0))
        torch.cuda.set_device(self._device)
        self._runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        with open(path, "rb") as file:
            self._engine = self._runtime.deserialize_cuda_engine(file.read())
        if self._engine is None:
            raise TritonModelException(
                "'{}' is no engine for TensorRT {} on this GPU".format(path, trt.__version__)
            )
        self._context = self._engine.create_execution_context()
        self._stream = torch.cuda.Stream(self._device)
        names = [self._engine.get_tensor_name(i) for i in range(self._engine.num_io_tensors)]
        for entry in [*config["input"], *config["output"]]:
            if entry["name"] not in names:
                raise TritonModelException(
                    "the engine has no tensor '{}', only {}".format(
                        entry["name"], ", ".join(names)
                    )
                )
        self._output_names: List[str] = [
            name
            for name in names
            if self._engine.get_tensor_mode(name) == trt.TensorIOMode.OUTPUT
        ]
        self._runner = framework.BatchRunner(self._run, config["max_batch_size"] > 0)

    def execute(self, requests: List[InferenceRequest]) -> List[InferenceResponse]:
        return self._runner.execute(requests)

    def _run(self, inputs: Dict[str, Tensor]) -> framework.RunOutputs:
        context = self._context
        # Kept until the engine has run.
        held: List[Any] = []
        for name, tensor in inputs.items():
            on_device = torch.from_numpy(np.ascontiguousarray(tensor.as_numpy())).to(self._device)
            held.append(on_device)
            if not context.set_input_shape(name, tuple(on_device.shape)):
                raise TritonModelException(
                    "the engine takes no shape {} for input '{}'".format(
                        list(on_device.shape), name
                    )
                )
            context.set_tensor_address(name, on_device.data_ptr())
        outputs: Dict[str, Any] = {}
        for name in self._output_names:
            numpy_type = np.dtype(trt.nptype(self._engine.get_tensor_dtype(name)))
            outputs[name] = torch.empty(
                tuple(context.get_tensor_shape(name)),
                dtype=torch.from_numpy(np.empty(0, numpy_type)).dtype,
                device=self._device,
            )
            context.set_tensor_address(name, outputs[name].data_ptr())
        # Inputs were copied on the default stream.
        torch.cuda.synchronize(self._device)
        if not context.execute_async_v3(self._stream.cuda_stream):
            raise TritonModelException("the engine failed to run")
        self._stream.synchronize()
        return {name: Tensor(name, output.cpu().numpy()) for name, output in outputs.items()}
