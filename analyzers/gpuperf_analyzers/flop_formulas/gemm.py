"""Matrix products: 2·M·N·K for each, a multiply-add being 2 FLOP."""

from __future__ import annotations

from math import prod

from gpuperf_analyzers.flop_formulas.arguments import (
    Shape,
    dtype_of,
    element_size,
    scalar,
    shape,
)
from gpuperf_analyzers.hookspecs import FlopFormula, OpCall


def matrix_product(
    op: str, first: int = 0, *, out_type: int | None = None, out_bytes: int | None = None
) -> FlopFormula:
    """``[M, K] @ [K, N]``, the operands being arguments `first` and `first` + 1.

    The result is of the type that argument `out_type` names, where one is recorded; else its
    elements take `out_bytes`, or as many as the first operand's.
    """

    def operands(call: OpCall) -> tuple[Shape, Shape] | None:
        a, b = shape(call, first, 2), shape(call, first + 1, 2)
        return (a, b) if a and b and a[1] == b[0] else None

    def count(call: OpCall) -> int | None:
        found = operands(call)
        if found is None:
            return None
        (m, k), (_, n) = found
        return 2 * m * n * k * _packing(call)

    def moved(call: OpCall) -> int | None:
        found = operands(call)
        if found is None:
            return None
        (m, k), (_, n) = found
        size = _named_size(call, out_type) or out_bytes
        return _traffic(call, first, m * k, k * n, m * n, size)

    return FlopFormula(op, count, "2·M·N·K", moved)


def batched_product(op: str, first: int = 0) -> FlopFormula:
    """``[B, M, K] @ [B, K, N]``."""

    def operands(call: OpCall) -> tuple[Shape, Shape] | None:
        a, b = shape(call, first, 3), shape(call, first + 1, 3)
        return (a, b) if a and b and a[0] == b[0] and a[2] == b[1] else None

    def count(call: OpCall) -> int | None:
        found = operands(call)
        if found is None:
            return None
        (batch, m, k), (_, _, n) = found
        return 2 * batch * m * n * k

    def moved(call: OpCall) -> int | None:
        found = operands(call)
        if found is None:
            return None
        (batch, m, k), (_, _, n) = found
        return _traffic(call, first, batch * m * k, batch * k * n, batch * m * n)

    return FlopFormula(op, count, "2·B·M·N·K", moved)


def linear_layer(op: str) -> FlopFormula:
    """``x[…, K] @ weight[N, K]ᵀ``; a bias is not counted."""

    def operands(call: OpCall) -> tuple[Shape, Shape] | None:
        x, weight = shape(call, 0), shape(call, 1, 2)
        return (x, weight) if x and weight and x[-1] == weight[1] else None

    def count(call: OpCall) -> int | None:
        found = operands(call)
        return None if found is None else 2 * prod(found[0]) * found[1][0]

    def moved(call: OpCall) -> int | None:
        found = operands(call)
        if found is None:
            return None
        x, (n, k) = found
        return _traffic(call, 0, prod(x), n * k, prod(x[:-1]) * n)

    return FlopFormula(op, count, "2·M·N·K", moved)


def grouped_product(op: str, *, offsets: int, out_type: int) -> FlopFormula:
    """Products of groups, as in a mixture of experts; offsets say where each group ends.

    ``[M, K] @ [G, K, N]`` splits the rows among the groups, ``[G, M, K] @ [K, N]`` the columns,
    ``[M, K] @ [K, N]`` the inner dimension: 2·M·N·K whatever the split, all of it used.
    ``[G, M, K] @ [G, K, N]`` is a batched product. `offsets` and `out_type` are the arguments
    that hold the groups' ends and the result's type.
    """

    def operands(call: OpCall) -> tuple[Shape, Shape] | None:
        a, b = shape(call, 0, 2, 3), shape(call, 1, 2, 3)
        if a is None or b is None or a[-1] != b[-2]:
            return None
        return None if len(a) == len(b) == 3 and a[0] != b[0] else (a, b)

    def count(call: OpCall) -> int | None:
        found = operands(call)
        if found is None:
            return None
        a, b = found
        groups = a[0] if len(a) == len(b) == 3 else 1
        return 2 * groups * a[-2] * a[-1] * b[-1] * _packing(call)

    def moved(call: OpCall) -> int | None:
        found = operands(call)
        if found is None:
            return None
        a, b = found
        results = a[0] if len(a) == len(b) == 3 else 1
        if len(a) == len(b) == 2:  # each group's share of the inner dimension is a whole result
            ends = shape(call, offsets, 1)
            if ends is None:
                return None
            results = ends[0]
        out = results * a[-2] * b[-1]
        return _traffic(call, 0, prod(a), prod(b), out, _named_size(call, out_type))

    return FlopFormula(op, count, "2·M·N·K over all groups", moved)


def _packing(call: OpCall) -> int:
    """Values that one element of the inner dimension holds."""
    return 2 if dtype_of(call) == "fp4" else 1


def _traffic(
    call: OpCall, first: int, a: int, b: int, out: int, out_size: int | None = None
) -> int | None:
    """Bytes of each operand read once and of the result written once.

    Elements of the result take `out_size` bytes, else as many as the first operand's; None for
    types of a byte or less without `out_size`: their result has another type.
    """
    size_a, size_b = element_size(call, first), element_size(call, first + 1)
    if size_a is None or size_b is None or (out_size is None and size_a < 2):
        return None
    return size_a * a + size_b * b + (out_size or size_a) * out


_SIZES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 2, 6: 4, 7: 8, 15: 2, 23: 1, 24: 1, 25: 1, 26: 1}
"""Bytes of an element by the number of its c10::ScalarType, as arguments hold it."""


def _named_size(call: OpCall, index: int | None) -> int | None:
    """Bytes of the type that argument `index` names, None where it names none."""
    value = None if index is None else scalar(call, index)
    return _SIZES.get(value) if isinstance(value, int) else None


GEMM: tuple[FlopFormula, ...] = (
    matrix_product("aten::mm"),
    matrix_product("aten::_int_mm", out_bytes=4),
    matrix_product("aten::_scaled_mm", out_type=6),
    matrix_product("aten::_scaled_mm_v2", out_type=9),
    matrix_product("aten::addmm", 1),
    matrix_product("aten::addmm_", 1),
    matrix_product("aten::_addmm_activation", 1),
    batched_product("aten::bmm"),
    batched_product("aten::baddbmm", 1),
    batched_product("aten::baddbmm_", 1),
    linear_layer("aten::linear"),
    linear_layer("aten::mkldnn_linear"),
    linear_layer("vllm::rocm_unquantized_gemm"),
    grouped_product("aten::_grouped_mm", offsets=2, out_type=4),
    grouped_product("aten::_scaled_grouped_mm", offsets=4, out_type=7),
    grouped_product("aten::_scaled_grouped_mm_v2", offsets=8, out_type=10),
)
