"""A call of a torch op as the profiler would record it, so that one formula counts both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuperf_analyzers.hookspecs import OpCall

# fmt: off
_PROFILER_TYPES = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "int8": "signed char", "uint8": "unsigned char", "int16": "short int", "int32": "int",
    "int64": "long int", "complex32": "c10::complex<c10::Half>",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
    "float8_e4m3fn": "c10::Float8_e4m3fn", "float8_e5m2": "c10::Float8_e5m2",
    "float8_e4m3fnuz": "c10::Float8_e4m3fnuz", "float8_e5m2fnuz": "c10::Float8_e5m2fnuz",
    "float4_e2m1fn_x2": "c10::Float4_e2m1fn_x2",
}
# fmt: on


def op_name(op: Any) -> str:
    """``aten::mm`` for ``torch.ops.aten.mm``."""
    return str(op).replace(".", "::", 1)


def find_op(torch: Any, name: str) -> Any:
    """The op of that name (``aten::mm``), None where this torch or process has none."""
    namespace, _, op = name.partition("::")
    return getattr(getattr(torch.ops, namespace), op, None) if op else None


def op_call(torch: Any, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> OpCall:
    """The call of `op` with every argument of its schema in order, defaults included.

    The dispatcher leaves trailing defaults out and names what is keyword-only; the profiler
    records all of them by position.
    """
    overload = getattr(op, "default", None) or getattr(op, op.overloads()[0])
    declared = overload._schema.arguments  # noqa: SLF001 - torch has no public name for it
    values = list(args)
    values += [kwargs.get(a.name, a.default_value) for a in declared[len(args) :]]
    return OpCall(
        op_name(op),
        dims=tuple(_dims(torch, value) for value in values),
        dtypes=tuple(_type(torch, value) for value in values),
        concrete=tuple(_concrete(torch, value) for value in values),
    )


def _dims(torch: Any, value: object) -> tuple[Any, ...]:
    """Shape of a tensor, shapes of a list of them, () for anything else.

    A nested tensor has no one shape, as in a trace.
    """
    if isinstance(value, torch.Tensor):
        return () if value.is_nested else tuple(value.shape)
    if isinstance(value, (list, tuple)):
        return tuple(_dims(torch, item) for item in value if isinstance(item, torch.Tensor))
    return ()


def _type(torch: Any, value: object) -> str:
    if not isinstance(value, torch.Tensor):
        return ""
    name = str(value.dtype).removeprefix("torch.")
    return _PROFILER_TYPES.get(name, name)


def _concrete(torch: Any, value: object) -> str:
    """A scalar or a list of scalars as text, "" for anything else."""
    if value is None or isinstance(value, torch.Tensor):
        return ""
    if isinstance(value, (list, tuple)):
        if any(isinstance(item, torch.Tensor) for item in value):
            return ""
        return str(list(value))
    return str(value)
