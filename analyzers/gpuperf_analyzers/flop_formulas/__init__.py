"""FLOPs of ops from their recorded shapes: matrix products, convolutions, attention."""

from __future__ import annotations

from gpuperf_analyzers.flop_formulas.attention import ATTENTION
from gpuperf_analyzers.flop_formulas.convolution import CONVOLUTION
from gpuperf_analyzers.flop_formulas.gemm import GEMM
from gpuperf_analyzers.hookspecs import FlopFormula

FORMULAS: tuple[FlopFormula, ...] = (*GEMM, *CONVOLUTION, *ATTENTION)
"""Every built-in formula."""
