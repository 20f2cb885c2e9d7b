"""The maximum achievable matmul FLOPS of a device: searched over shapes, timed, kept.

:mod:`.search` is the algorithm alone, :mod:`.timing` its clock, :mod:`.run` one search from options
to outcome. Names are imported on first use (PEP 562): importing this package imports neither torch
nor numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "Effort": "search",
    "Grid": "ranges",
    "Options": "run",
    "Outcome": "result",
    "Search": "search",
    "find_maximum": "run",
    "make_grid": "ranges",
    "preset": "ranges",
    "to_json": "result",
    "to_text": "result",
    "values": "ranges",
}

__all__ = [
    "Effort",
    "Grid",
    "Options",
    "Outcome",
    "Search",
    "find_maximum",
    "make_grid",
    "preset",
    "to_json",
    "to_text",
    "values",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
