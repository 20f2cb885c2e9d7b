"""Columnar traces: the model, the reader, and what is shared by every question.

Names are imported on first use (PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuperf_analyzers.trace.model import Category, Finding, Trace, TraceError, TraceSet
    from gpuperf_analyzers.trace.reader import read_trace
    from gpuperf_analyzers.trace.sets import read_traces

_HOME = {
    "Category": "model",
    "Finding": "model",
    "Trace": "model",
    "TraceError": "model",
    "TraceSet": "model",
    "read_trace": "reader",
    "read_traces": "sets",
}

__all__ = [
    "Category",
    "Finding",
    "Trace",
    "TraceError",
    "TraceSet",
    "read_trace",
    "read_traces",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
