"""Recorded argument shapes and types: as short text, and as numbers of elements."""

from __future__ import annotations

import json
from math import prod

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


def argument_elements(trace: Trace, row: int) -> list[tuple[int, str]]:
    """Elements and type name of each tensor argument of the event in `row`, in order.

    A list of tensors counts as one argument: the sum of its elements, under the type that was
    recorded for the list. Arguments without a shape are left out.
    """
    e = trace.events
    dims, types = _parsed(trace, int(e.dims[row])), _parsed(trace, int(e.dtypes[row]))
    padded = [*types, *[""] * (len(dims) - len(types))]
    return [(_elements(d), str(t)) for d, t in zip(dims, padded, strict=False) if d]


def _parsed(trace: Trace, index: int) -> list[object]:
    if index < 0:
        return []
    try:
        value = json.loads(trace.strings[index])
    except ValueError:
        return []
    return value if isinstance(value, list) else []


def _elements(dims: object) -> int:
    if not isinstance(dims, list):
        return 0
    if any(isinstance(d, list) for d in dims):
        return sum(_elements(d) for d in dims)
    return prod(d for d in dims if isinstance(d, int))
