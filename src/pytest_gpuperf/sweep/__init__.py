"""A user's step over a grid of settings: each point in processes of its own, noted as it is done.

Names are imported on first use (PEP 562): importing this package imports neither torch nor numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "Grid": "grid",
    "GridError": "grid",
    "Outcome": "result",
    "Settings": "points",
    "SweepError": "run",
    "make_grid": "grid",
    "parse_axis": "grid",
    "plot_sweep": "plot",
    "read_axes": "grid",
    "sweep": "run",
    "to_json": "result",
}

__all__ = [
    "Grid",
    "GridError",
    "Outcome",
    "Settings",
    "SweepError",
    "make_grid",
    "parse_axis",
    "plot_sweep",
    "read_axes",
    "sweep",
    "to_json",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
