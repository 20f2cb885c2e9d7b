"""Measurements over several ranks outside a test: a step, a sweep of buckets, collectives.

Names are imported on first use (PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "BucketSweep": "bucket_sweep",
    "CollectiveTable": "collective_table",
    "measure_collectives": "collective_run",
    "measure_step": "step",
    "plot_buckets": "bucket_plot",
    "sweep_buckets": "bucket_sweep",
}

__all__ = [
    "BucketSweep",
    "CollectiveTable",
    "measure_collectives",
    "measure_step",
    "plot_buckets",
    "sweep_buckets",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
