"""Metrics of models: they appear beside the server's own."""

from __future__ import annotations

import threading
from typing import Any, Dict, List, Optional, Tuple

from nereid_host.errors import TritonModelException
from nereid_host.server_link import get_link

_KINDS = {0: "counter", 1: "gauge", 2: "histogram"}

# Families that this process made: their kind and description must not change.
_families: Dict[str, Tuple[str, str]] = {}
# Values by family and labels; only changes of this process.
_values: Dict[Tuple[str, Tuple[Tuple[str, str], ...]], float] = {}
_lock = threading.Lock()


class MetricFamily:
    """A name, a description and a kind; `Metric` makes the series."""

    COUNTER = 0
    GAUGE = 1
    HISTOGRAM = 2

    def __init__(self, name: str, description: str, kind: int) -> None:
        if kind not in _KINDS:
            raise TritonModelException(
                "MetricFamily '{}': kind must be COUNTER, GAUGE or HISTOGRAM".format(name)
            )
        self.name = str(name)
        self.kind = _KINDS[kind]
        with _lock:
            known = _families.setdefault(self.name, (self.kind, str(description)))
        if known != (self.kind, str(description)):
            raise TritonModelException(
                "MetricFamily '{}' exists as a {} described as '{}'".format(self.name, *known)
            )
        get_link().update_metric(
            {"type": "family", "name": self.name, "help": str(description), "kind": self.kind}
        )

    def Metric(  # noqa: N802 - the name that models use
        self,
        labels: Optional[Dict[str, str]] = None,
        buckets: Optional[List[float]] = None,
    ) -> "Metric":
        return Metric(self, labels or {}, buckets)


class Metric:
    """One series of a family."""

    def __init__(
        self, family: MetricFamily, labels: Dict[str, str], buckets: Optional[List[float]]
    ) -> None:
        if (family.kind == "histogram") != (buckets is not None):
            raise TritonModelException(
                "Metric of '{}': a histogram needs buckets, other kinds have none".format(
                    family.name
                )
            )
        bounds = [float(bound) for bound in buckets or []]
        if any(low >= high for low, high in zip(bounds, bounds[1:])):
            raise TritonModelException(
                "Metric of '{}': buckets must increase, got {}".format(family.name, bounds)
            )
        self._family = family
        self._labels = {str(name): str(value) for name, value in labels.items()}
        self._key = (family.name, tuple(sorted(self._labels.items())))
        get_link().update_metric(
            {
                "type": "series",
                "family": family.name,
                "labels": self._labels,
                "buckets": bounds,
            }
        )

    def increment(self, value: float) -> None:
        if self._family.kind == "histogram":
            raise self._unsupported("increment")
        if self._family.kind == "counter" and value < 0:
            raise TritonModelException(
                "Metric of '{}': a counter cannot be incremented by {}".format(
                    self._family.name, value
                )
            )
        with _lock:
            _values[self._key] = _values.get(self._key, 0.0) + float(value)
        self._update("increment", value)

    def set(self, value: float) -> None:
        if self._family.kind != "gauge":
            raise self._unsupported("set")
        with _lock:
            _values[self._key] = float(value)
        self._update("set", value)

    def observe(self, value: float) -> None:
        if self._family.kind != "histogram":
            raise self._unsupported("observe")
        self._update("observe", value)

    def value(self) -> float:
        """What this instance has made of it."""
        if self._family.kind == "histogram":
            raise self._unsupported("value")
        with _lock:
            return _values.get(self._key, 0.0)

    def _update(self, action: str, value: float) -> None:
        update: Dict[str, Any] = {
            "type": "value",
            "family": self._family.name,
            "labels": self._labels,
            "action": action,
            "value": float(value),
        }
        get_link().update_metric(update)

    def _unsupported(self, action: str) -> TritonModelException:
        return TritonModelException(
            "Metric of '{}': a {} has no {}".format(self._family.name, self._family.kind, action)
        )
