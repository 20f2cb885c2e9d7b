"""FLOP of one step, counted by torch in one untimed call, by dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.recording.tf32 import Tf32

if TYPE_CHECKING:
    import torch

    from gpuperf_analyzers.config import Config

# fmt: off
_DTYPE_NAMES = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "float8_e4m3fnuz": "fp8",
    "float8_e5m2fnuz": "fp8", "float4_e2m1fn_x2": "fp4", "int8": "int8", "uint8": "int8",
}
# fmt: on

_NO_TF32 = Tf32()


@dataclass(frozen=True, slots=True)
class FlopCount:
    """FLOP of one call, a multiply-add being 2; None where none were counted, never 0."""

    flops: int | None
    by_dtype: Mapping[str, int] = field(default_factory=dict)
    source: str = "flop_counter"
    by_op: Mapping[str, int] = field(default_factory=dict)
    """By op (``aten::mm``), to hold against what the trace's shapes give."""


def dtype_name(dtype: torch.dtype, *, tf32: bool = False) -> str:
    """The name that peaks are declared by: ``fp32``, ``tf32``, ``bf16``."""
    name = str(dtype).removeprefix("torch.")
    short = _DTYPE_NAMES.get(name, name)
    return "tf32" if tf32 and short == "fp32" else short


def count_flops(
    call: Callable[[], object], *, tf32: Tf32 = _NO_TF32, config: Config | None = None
) -> FlopCount:
    """Count the FLOP of one `call` with ``torch.utils.flop_counter``.

    Parameters
    ----------
    call
        The workload; called once.
    tf32
        Which float32 ops run as TF32.
    config
        Its formulas of custom ops (outside ``aten``) are counted too.
    """
    torch = import_torch()
    from torch.utils.flop_counter import FlopCounterMode, flop_registry

    by_dtype: dict[str, int] = {}
    by_op: dict[str, int] = {}

    def tally(op: object, formula: Callable[..., Any]) -> Callable[..., Any]:
        op_name = str(op).replace(".", "::", 1)
        as_tf32 = tf32.convolution if "convolution" in str(op) else tf32.matmul

        def counted(*args: Any, **kwargs: Any) -> Any:
            flops = formula(*args, **kwargs)
            name = _first_dtype(torch, args, as_tf32)
            by_dtype[name] = by_dtype.get(name, 0) + int(flops)
            by_op[op_name] = by_op.get(op_name, 0) + int(flops)
            return flops

        # Asks the counter to hand over tensors, which know their dtype, and not shapes only.
        counted._get_raw = True  # type: ignore[attr-defined] # noqa: SLF001
        return counted

    formulas = dict(flop_registry)
    formulas.update(_custom_formulas(torch, config))
    mode = FlopCounterMode(
        display=False, custom_mapping={op: tally(op, formula) for op, formula in formulas.items()}
    )
    with mode:
        call()
    total = int(mode.get_total_flops())
    if not total:
        return FlopCount(None, source="not counted: no op that has a FLOP formula was seen")
    if sum(by_dtype.values()) != total:
        # A conditional counts its dearer branch, but both were seen.
        by_dtype, by_op = {}, {}
    return FlopCount(total, by_dtype, by_op=by_op)


def _first_dtype(torch: Any, args: tuple[Any, ...], tf32: bool) -> str:
    """Name of the dtype of the first tensor among `args`."""
    for arg in args:
        if isinstance(arg, torch.Tensor):
            return dtype_name(arg.dtype, tf32=tf32)
    return "unknown"


def _custom_formulas(torch: Any, config: Config | None) -> dict[Any, Callable[..., int]]:
    """Formulas of loaded ops outside ``aten``, as functions of the op's own arguments."""
    from gpuperf_analyzers.hookspecs import FlopFormula, OpCall

    def adapt(formula: FlopFormula) -> Callable[..., int]:
        def count(*args: Any, out_val: Any = None, **_: Any) -> int:  # noqa: ARG001
            call = OpCall(
                formula.op,
                dims=tuple(_dims(torch, a) for a in args),
                dtypes=tuple(str(getattr(a, "dtype", "")).removeprefix("torch.") for a in args),
                concrete=tuple("" if isinstance(a, torch.Tensor) else str(a) for a in args),
            )
            return formula.count(call) or 0

        return count

    found: dict[Any, Callable[..., int]] = {}
    for op, formula in (config.flop_formulas if config is not None else {}).items():
        namespace, _, name = op.partition("::")
        if namespace != "aten" and hasattr(getattr(torch.ops, namespace), name):
            found[getattr(getattr(torch.ops, namespace), name)] = adapt(formula)
    return found


def _dims(torch: Any, arg: object) -> tuple[Any, ...]:
    """Shape of a tensor, shapes of a list of them, () for anything else."""
    if isinstance(arg, torch.Tensor):
        return tuple(arg.shape)
    if isinstance(arg, (list, tuple)):
        return tuple(_dims(torch, item) for item in arg if isinstance(item, torch.Tensor))
    return ()
