"""An MLServer runtime for ONNX files: it has none of its own."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class OnnxModel(MLModel):
    async def load(self) -> bool:
        options = ort.SessionOptions()
        options.intra_op_num_threads = self.settings.parameters.extra["threads"]
        self.session = ort.InferenceSession(self.settings.parameters.uri, options)
        self.output_names = [output.name for output in self.session.get_outputs()]
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        feeds = {
            tensor.name: NumpyCodec.decode_input(tensor).astype(np.float32, copy=False)
            for tensor in payload.inputs
        }
        answers = self.session.run(None, feeds)
        outputs = [
            NumpyCodec.encode_output(name, array) for name, array in zip(self.output_names, answers)
        ]
        return InferenceResponse(model_name=self.name, outputs=outputs)
