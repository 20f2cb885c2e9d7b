"""Recorded argument shapes and types as short text."""

from __future__ import annotations

import json

from gpuperf_analyzers.trace.model import Trace


def shapes_label(trace: Trace, index: int) -> str:
    """Shapes of the tensor arguments as ``32x64 64x128``, "" where not recorded."""
    if index < 0:
        return ""
    try:
        dims = json.loads(trace.strings[index])
    except ValueError:
        return trace.strings[index]
    return " ".join(_shape(d) for d in dims if d)


def _shape(dims: object) -> str:
    if isinstance(dims, list) and any(isinstance(d, list) for d in dims):
        return "[" + " ".join(_shape(d) for d in dims) + "]"
    return "x".join(map(str, dims)) if isinstance(dims, list) else str(dims)


def types_label(trace: Trace, index: int) -> str:
    """Types of the tensor arguments, "" where not recorded."""
    if index < 0:
        return ""
    try:
        types = json.loads(trace.strings[index])
    except ValueError:
        return trace.strings[index]
    return " ".join(str(t) for t in types if t and t not in {"Scalar", "ScalarList"})
