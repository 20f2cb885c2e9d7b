"""Time, count and profile one workload on this process's device.

Names are imported on first use (PEP 562): importing this package imports neither torch, numpy
nor NVML.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "SOLO": "coordination",
    "Coordinator": "coordination",
    "Options": "options",
    "Recorded": "recorder",
    "RecordingError": "errors",
    "TorchMissingError": "errors",
    "environment": "host_environment",
    "fit_memory": "batch_memory",
    "measured_cpu_peak": "cpu_peak",
    "record": "recorder",
    "region": "regions",
    "resolve_device": "devices",
}

__all__ = [
    "SOLO",
    "Coordinator",
    "Options",
    "Recorded",
    "RecordingError",
    "TorchMissingError",
    "environment",
    "fit_memory",
    "measured_cpu_peak",
    "record",
    "region",
    "resolve_device",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
