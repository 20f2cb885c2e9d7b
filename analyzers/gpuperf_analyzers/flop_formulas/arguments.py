"""Reading an op call's recorded arguments: shapes, scalars and element sizes.

The profiler records every argument of an op's schema in order, defaults included. Whatever is
missing or does not fit gives None, and a formula that needs it gives no number.
"""

from __future__ import annotations

import json
from typing import Any

from gpuperf_analyzers.hookspecs import OpCall

Shape = tuple[int, ...]

_TYPES = {
    "float": ("fp32", 4),
    "double": ("fp64", 8),
    "c10::Half": ("fp16", 2),
    "struct c10::Half": ("fp16", 2),
    "c10::BFloat16": ("bf16", 2),
    "struct c10::BFloat16": ("bf16", 2),
    "signed char": ("int8", 1),
    "unsigned char": ("int8", 1),
    "c10::Float8_e4m3fn": ("fp8", 1),
    "c10::Float8_e5m2": ("fp8", 1),
    "c10::Float8_e4m3fnuz": ("fp8", 1),
    "c10::Float8_e5m2fnuz": ("fp8", 1),
    # Two values packed in a byte; shapes count bytes.
    "c10::Float4_e2m1fn_x2": ("fp4", 1),
}
"""The profiler's type name: our dtype, bytes of an element."""


def dtype_of(call: OpCall) -> str | None:
    """Our name of the dtype of the call's first tensor (``bf16``), None where it has none."""
    for name in call.dtypes:
        if name in _TYPES:
            return _TYPES[name][0]
    return None


def is_complex(call: OpCall) -> bool:
    """Whether a tensor of the call is complex: a multiply-add is then not 2 FLOP."""
    return any("complex" in name for name in call.dtypes)


def element_size(call: OpCall, index: int) -> int | None:
    """Bytes of an element of argument `index`, None where its type is not known."""
    if index >= len(call.dtypes):
        return None
    known = _TYPES.get(call.dtypes[index])
    return None if known is None else known[1]


def shape(call: OpCall, index: int, *ranks: int) -> Shape | None:
    """Shape of argument `index` where it is one tensor, of one of `ranks` dimensions if given."""
    if index >= len(call.dims):
        return None
    dims = call.dims[index]
    if not isinstance(dims, tuple) or not all(isinstance(d, int) for d in dims) or not dims:
        return None
    return dims if not ranks or len(dims) in ranks else None


def scalar(call: OpCall, index: int) -> Any:
    """Scalar or list argument `index` as a Python value, None where it was not recorded."""
    if index >= len(call.concrete):
        return None
    text = call.concrete[index].strip().replace("(", "[").replace(")", "]")
    if text in {"True", "False"}:
        return text == "True"
    try:
        return json.loads(text.replace("True", "true").replace("False", "false"))
    except ValueError:
        return None


def integers(call: OpCall, index: int, length: int) -> Shape | None:
    """List argument `index` as `length` integers; a list of one stands for all of them."""
    value = scalar(call, index)
    if isinstance(value, int) and not isinstance(value, bool):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(v, int) for v in value):
        return None
    if len(value) == 1:
        value = value * length
    return tuple(value) if len(value) == length else None
