"""What NVML tells of a GPU while the workload runs: sampled, summarized, and as trace tracks.

Names are imported on first use (PEP 562): importing this package imports no NVML.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "Telemetry": "summary",
    "TelemetrySampler": "sampler",
    "device_uuids": "identity",
    "driver_version": "binding",
    "telemetry_of": "summary",
    "track_events": "tracks",
}

__all__ = [
    "Telemetry",
    "TelemetrySampler",
    "device_uuids",
    "driver_version",
    "telemetry_of",
    "track_events",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
