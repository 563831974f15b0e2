"""Finds the class of a model: its own `model.py`, or ours for a framework's model file."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from typing import Any, Dict

# Modules with a class TritonPythonModel over another kind of model file.
_FRAMEWORK_MODULES: Dict[str, str] = {
    "pytorch": "nereid_host.torchscript_model",
    "tensorflow": "nereid_host.tensorflow_model",
    "tensorrt": "nereid_host.tensorrt_model",
}


class ModelSource:
    """Where a model's files are."""

    def __init__(self, description: Dict[str, Any]) -> None:
        self.kind = str(description["kind"])
        self.model_directory = str(description["modelDirectory"])
        self.version_directory = str(description["versionDirectory"])
        self.version = str(description["modelVersion"])
        self.filename = str(description["filename"])

    def model_class(self) -> Any:
        if self.kind == "python":
            module = self._import_model_file()
        else:
            module = importlib.import_module(_FRAMEWORK_MODULES[self.kind])
        return module.TritonPythonModel

    def _import_model_file(self) -> types.ModuleType:
        path = os.path.join(self.version_directory, self.filename)
        if not os.path.isfile(path):
            raise FileNotFoundError("model file '{}' is missing".format(path))
        # So that a model finds modules beside it; after ours and the standard library's.
        sys.path += [self.version_directory, self.model_directory]
        # `1.model`, as models that pickle or use relative imports expect: the version folder is
        # the package.
        package = types.ModuleType(self.version)
        package.__path__ = [self.version_directory]
        sys.modules.setdefault(self.version, package)
        stem = os.path.splitext(self.filename)[0].replace(os.sep, ".")
        name = "{}.{}".format(self.version, stem)
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError("'{}' is not a Python file".format(path))
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
