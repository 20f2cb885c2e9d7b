"""Whether float32 products ran as TF32: the shapes do not say, the run or the kernels may."""

from __future__ import annotations

import re

import numpy as np

from gpuperf_analyzers.flop_formulas.counting import CountedOps, OpKind
from gpuperf_analyzers.live_block import parse_live_block
from gpuperf_analyzers.trace.model import I64, Trace

FP32_OR_TF32 = "fp32 or tf32"
_TF32_KERNEL = re.compile(r"tf32|xf32|s1688", re.IGNORECASE)
_FP32_KERNEL = re.compile(r"sgemm|f32f32_f32f32|ffma|simt_s", re.IGNORECASE)


def float32_types(trace: Trace, kernels: I64, kernel_call: I64, counted: CountedOps) -> list[str]:
    """For each counted call ``tf32``, ``fp32``, or "" where nothing tells.

    The run itself knows of its matmuls (live block), where torch sets convolutions apart; else a
    kernel's name tells. ``kernel_call[i]`` is the call that launched the event in ``kernels[i]``.
    """
    says = np.array(
        [2 if _TF32_KERNEL.search(s) else 1 if _FP32_KERNEL.search(s) else 0 for s in trace.strings]
    )
    best = np.zeros(len(counted.rows), dtype=np.int64)
    if len(kernels):
        np.maximum.at(best, kernel_call, says[trace.events.name[kernels]])
    live = _live_tf32(trace)
    if live is not None:
        convolves = np.array(["conv" in k.call.name for k in counted.kinds], dtype=np.bool_)
        best = np.where(convolves[counted.kind], best, 2 if live else 1)
    return [("", "fp32", "tf32")[b] for b in best.tolist()]


def type_of(kind: OpKind, float32: str) -> str:
    """Our name of the type that a call ran in; `float32` is what a float32 call is known to be."""
    if kind.dtype != "fp32":
        return kind.dtype or "unknown"
    return float32 or FP32_OR_TF32


def _live_tf32(trace: Trace) -> bool | None:
    try:
        return parse_live_block(trace.metadata.get("gpuperf")).tf32
    except ValueError:
        return None
