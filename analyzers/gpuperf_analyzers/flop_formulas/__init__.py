"""FLOPs of ops from their shapes: matrix products, convolutions, attention, recurrent layers."""

from __future__ import annotations

from gpuperf_analyzers.flop_formulas.attention import ATTENTION
from gpuperf_analyzers.flop_formulas.convolution import CONVOLUTION
from gpuperf_analyzers.flop_formulas.fused_layers import FUSED_LAYERS
from gpuperf_analyzers.flop_formulas.gemm import GEMM
from gpuperf_analyzers.flop_formulas.recurrent import RECURRENT
from gpuperf_analyzers.hookspecs import FlopFormula

FORMULAS: tuple[FlopFormula, ...] = (
    *GEMM,
    *CONVOLUTION,
    *ATTENTION,
    *RECURRENT,
    *FUSED_LAYERS,
)
"""Every built-in formula."""
