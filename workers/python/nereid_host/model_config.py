"""ModelConfig: what `auto_complete_config` completes."""

from __future__ import annotations

import copy
from typing import Any, Dict, List, Sequence

from nereid_host.datatypes import from_config_name

_REQUIRED = ("name", "data_type", "dims")
_INPUT_KEYS = _REQUIRED + ("optional", "allow_ragged_batch")


class ModelConfig:
    """A model configuration under completion; what the author wrote in it stays."""

    def __init__(self, config: Dict[str, Any]) -> None:
        self._config = config

    def as_dict(self) -> Dict[str, Any]:
        """A copy: changing it changes nothing."""
        return copy.deepcopy(self._config)

    def set_max_batch_size(self, max_batch_size: int) -> None:
        """Sets it where the configuration has none, else checks that it allows as much."""
        given = int(self._config.get("max_batch_size", 0))
        if given == 0:
            self._config["max_batch_size"] = max_batch_size
        elif given > max_batch_size:
            raise ValueError(
                "model '{}': config.pbtxt has max_batch_size {}, which is more than the {} that "
                "auto_complete_config allows".format(self._name(), given, max_batch_size)
            )

    def set_dynamic_batching(self) -> None:
        """Turns the dynamic batcher on, unless a scheduler is chosen already."""
        for scheduler in ("sequence_batching", "ensemble_scheduling"):
            if scheduler in self._config:
                raise ValueError(
                    "model '{}': auto_complete_config asks for dynamic_batching, but config.pbtxt "
                    "has {}".format(self._name(), scheduler)
                )
        self._config.setdefault("dynamic_batching", {})

    def set_model_transaction_policy(self, policy: Dict[str, Any]) -> None:
        """`{"decoupled": bool}`; must agree with a policy that the configuration has."""
        for key in policy:
            if key != "decoupled":
                raise ValueError(
                    "model transaction policy of model '{}': the only property is 'decoupled', "
                    "got '{}'".format(self._name(), key)
                )
        if not isinstance(policy.get("decoupled"), bool):
            raise ValueError(
                "model transaction policy of model '{}' needs 'decoupled', true or false".format(
                    self._name()
                )
            )
        given = self._config.get("model_transaction_policy")
        if given is not None and bool(given.get("decoupled")) != policy["decoupled"]:
            raise ValueError(
                "model '{}': config.pbtxt says decoupled {}, auto_complete_config says {}".format(
                    self._name(), bool(given.get("decoupled")), policy["decoupled"]
                )
            )
        self._config["model_transaction_policy"] = {"decoupled": policy["decoupled"]}

    def add_input(self, properties: Dict[str, Any]) -> None:
        """Adds an input, or checks one of that name against `properties`."""
        self._add("input", properties, _INPUT_KEYS)

    def add_output(self, properties: Dict[str, Any]) -> None:
        """Adds an output, or checks one of that name against `properties`."""
        self._add("output", properties, _REQUIRED)

    def _name(self) -> str:
        return str(self._config.get("name", ""))

    def _add(self, kind: str, properties: Dict[str, Any], allowed: Sequence[str]) -> None:
        where = "model '{}': {} '{}' of auto_complete_config".format(
            self._name(), kind, properties.get("name", "")
        )
        for key in properties:
            if key not in allowed:
                raise ValueError(
                    "{} has unknown property '{}'; known are {}".format(
                        where, key, ", ".join(allowed)
                    )
                )
        for key in _REQUIRED:
            if key not in properties:
                raise ValueError("{} lacks property '{}'".format(where, key))
        data_type = properties["data_type"]
        if not isinstance(data_type, str) or from_config_name(data_type) is None:
            raise ValueError("{} has invalid data_type {!r}".format(where, data_type))
        entry: Dict[str, Any] = dict(properties, dims=[int(dim) for dim in properties["dims"]])
        entries: List[Dict[str, Any]] = self._config.setdefault(kind, [])
        for given in entries:
            if given.get("name") == entry["name"]:
                _check_same(where, given, entry)
                return
        entries.append(entry)


def _check_same(where: str, given: Dict[str, Any], entry: Dict[str, Any]) -> None:
    """The configuration's own entry stays; one that contradicts the model is an error."""
    for key in entry:
        default: Any = False if key in ("optional", "allow_ragged_batch") else None
        if given.get(key, default) != entry[key] and not (
            key == "data_type" and given.get(key) == "TYPE_INVALID"
        ):
            raise ValueError(
                "{} has {} {}, but config.pbtxt has {}".format(
                    where, key, entry[key], given.get(key, default)
                )
            )
