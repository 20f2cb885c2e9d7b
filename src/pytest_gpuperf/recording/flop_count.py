"""FLOP of one step, counted by torch in one untimed call, by dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.flop_formulas.arguments import is_complex
from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.recording.op_calls import find_op, op_call, op_name
from pytest_gpuperf.recording.tf32 import Tf32

if TYPE_CHECKING:
    import torch

    from gpuperf_analyzers.config import Config
    from gpuperf_analyzers.hookspecs import FlopFormula

# fmt: off
_DTYPE_NAMES = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "float8_e4m3fnuz": "fp8",
    "float8_e5m2fnuz": "fp8", "float4_e2m1fn_x2": "fp4", "int8": "int8", "uint8": "int8",
}
# fmt: on

_NO_TF32 = Tf32()
_BY_VALUES = " (by values)"
"""Marks what torch counted from the values of arguments, which no trace has."""


@dataclass(frozen=True, slots=True)
class FlopCount:
    """FLOP of one call, a multiply-add being 2; None where none were counted, never 0."""

    flops: int | None
    by_dtype: Mapping[str, int] = field(default_factory=dict)
    source: str = "flop_counter"
    by_op: Mapping[str, int] = field(default_factory=dict)
    """By op (``aten::mm``), to hold against what the trace's shapes give; sums to ``flops``."""


def dtype_name(dtype: torch.dtype, *, tf32: bool = False) -> str:
    """The name that peaks are declared by: ``fp32``, ``tf32``, ``bf16``."""
    name = str(dtype).removeprefix("torch.")
    short = _DTYPE_NAMES.get(name, name)
    return "tf32" if tf32 and short == "fp32" else short


def count_flops(
    call: Callable[[], object], *, tf32: Tf32 = _NO_TF32, config: Config | None = None
) -> FlopCount:
    """Count the FLOP of one `call`, as ``torch.utils.flop_counter`` comes by its ops.

    The formulas are those that traces are read by, so that both give the same number; torch's
    own where we have none, or where ours cannot tell from the shapes alone.

    Parameters
    ----------
    call
        The workload; called once.
    tf32
        Which float32 ops run as TF32.
    config
        Its formulas, those of plugins for custom ops among them; None takes the built-in ones.
    """
    torch = import_torch()
    from torch.utils.flop_counter import FlopCounterMode, flop_registry

    tally = _Tally(torch, tf32)
    mapping = {op: tally.counting(op, None, theirs) for op, theirs in flop_registry.items()}
    for op, ours in _our_formulas(torch, config).items():
        mapping[op] = tally.counting(op, ours, flop_registry.get(op))
    mode = FlopCounterMode(display=False, custom_mapping=mapping)
    with _compiling_nothing(torch), mode:
        call()
    total = int(mode.get_total_flops())
    if not total:
        return FlopCount(None, source="not counted: no op that has a FLOP formula was seen")
    if sum(tally.by_dtype.values()) != total:
        # A conditional counts its dearer branch, but both were seen.
        return FlopCount(total)
    return FlopCount(total, tally.by_dtype, by_op=tally.by_op)


def _compiling_nothing(torch: Any) -> AbstractContextManager[object]:
    """Compiled functions run op by op within the block, and compiled again after it.

    Called under a mode such as the counter's, torch would drop what it had compiled for good: all
    that is timed afterwards would be the function as it was never meant to run.
    """
    set_stance = getattr(torch.compiler, "set_stance", None)  # torch 2.6
    return nullcontext() if set_stance is None else set_stance("force_eager")


class _Tally:
    """FLOP of the ops seen, by dtype and by op."""

    def __init__(self, torch: Any, tf32: Tf32) -> None:
        self.by_dtype: dict[str, int] = {}
        self.by_op: dict[str, int] = {}
        self._torch = torch
        self._tf32 = tf32

    def counting(
        self, op: Any, ours: FlopFormula | None, theirs: Callable[..., Any] | None
    ) -> Callable[..., int]:
        """What torch's counter is to call for `op`: our formula, and torch's where it cannot."""
        name = op_name(op)
        as_tf32 = self._tf32.convolution if "conv" in name else self._tf32.matmul

        def counted(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
            flops, label = None, name
            if ours is not None:
                call = op_call(self._torch, op, args, kwargs)
                if is_complex(call):
                    return 0  # a multiply-add of complex numbers is not 2 FLOP
                flops = ours.count(call)
                label += _BY_VALUES if flops is None else ""
            if flops is None and theirs is not None:
                flops = theirs(*args, out_val=out_val, **kwargs)
            if not flops:
                return 0
            dtype = _first_dtype(self._torch, args, as_tf32)
            self.by_dtype[dtype] = self.by_dtype.get(dtype, 0) + int(flops)
            self.by_op[label] = self.by_op.get(label, 0) + int(flops)
            return int(flops)

        # Asks the counter to hand over tensors, which know their dtype, and not shapes only.
        counted._get_raw = True  # type: ignore[attr-defined] # noqa: SLF001
        return counted


def _our_formulas(torch: Any, config: Config | None) -> dict[Any, FlopFormula]:
    """The formulas of `config` by op, as far as this torch and what is loaded have the op."""
    from gpuperf_analyzers.flop_formulas import FORMULAS

    formulas = {f.op: f for f in FORMULAS} if config is None else config.flop_formulas
    found = ((find_op(torch, name), formula) for name, formula in formulas.items())
    return {op: formula for op, formula in found if op is not None}


def _first_dtype(torch: Any, args: tuple[Any, ...], tf32: bool) -> str:
    """Name of the dtype of the first tensor among `args`."""
    for arg in args:
        if isinstance(arg, torch.Tensor):
            return dtype_name(arg.dtype, tf32=tf32)
    return "unknown"
