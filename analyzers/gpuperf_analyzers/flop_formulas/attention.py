"""Attention. The convention: a causal mask is counted in full, as if nothing were masked.

Forward is two products, Q·Kᵀ and P·V: 2·B·H·S_q·S_k·(D_qk + D_v). Backward is five, the scores
being computed again: 2·B·H·S_q·S_k·(3·D_qk + 2·D_v). Grouped queries count by the query's heads.
The full count is what ``torch.utils.flop_counter`` and published MFU figures use; a kernel that
skips the masked half can thus read up to twice its executed FLOPS.
"""

from __future__ import annotations

from math import prod
from typing import Literal

from gpuperf_analyzers.flop_formulas.arguments import Shape, element_size, shape
from gpuperf_analyzers.hookspecs import FlopFormula, OpCall

Layout = Literal["heads-first", "sequence-first"]
"""``[B, H, S, D]`` or ``[B, S, H, D]``."""

FORWARD = "2·B·H·Sq·Sk·(Dqk + Dv), a causal mask counted in full"
BACKWARD = "2·B·H·Sq·Sk·(3·Dqk + 2·Dv), a causal mask counted in full"


def attention(
    op: str,
    layout: Layout = "heads-first",
    *,
    query: int = 0,
    backward: bool = False,
    ragged: tuple[int, ...] = (),
) -> FlopFormula:
    """Formula of an attention op whose query, key and value are arguments `query` onwards.

    `ragged` are the arguments that hold cumulative lengths: where one is given, the lengths of
    the sequences are not in the shapes, and there is no number.
    """

    def operands(call: OpCall) -> tuple[Shape, Shape, Shape] | None:
        if any(_is_given(shape(call, index)) for index in ragged):
            return None
        found = [_heads_first(shape(call, query + i), layout) for i in range(3)]
        q, k, v = found
        if q is None or k is None or v is None:
            return None
        fits = q[0] == k[0] == v[0] and k[1:3] == v[1:3] and q[3] == k[3] and q[1] % k[1] == 0
        return (q, k, v) if fits else None

    def count(call: OpCall) -> int | None:
        found = operands(call)
        if found is None:
            return None
        (batch, heads, rows, d_qk), (_, _, columns, _), (_, _, _, d_v) = found
        width = 3 * d_qk + 2 * d_v if backward else d_qk + d_v
        return 2 * batch * heads * rows * columns * width

    def moved(call: OpCall) -> int | None:
        found, size = operands(call), element_size(call, query)
        if found is None or size is None or size < 2:
            return None
        q, k, v = found
        inputs, output = prod(q) + prod(k) + prod(v), prod(q[:3]) * v[3]
        # Backward reads the output and its gradient too, and writes three gradients.
        return size * (2 * inputs + 2 * output if backward else inputs + output)

    return FlopFormula(op, count, BACKWARD if backward else FORWARD, moved)


def _is_given(lengths: Shape | None) -> bool:
    """Whether cumulative lengths were passed; an empty tensor stands for none."""
    return lengths is not None and 0 not in lengths


def _heads_first(dims: Shape | None, layout: Layout) -> Shape | None:
    """`dims` as (batch, heads, sequence, width); leading dimensions of more than four multiply."""
    if dims is None or len(dims) < 3 or 0 in dims:
        return None
    *batch, a, b, width = dims
    return (prod(batch), a, b, width) if layout == "heads-first" else (prod(batch), b, a, width)


ATTENTION: tuple[FlopFormula, ...] = (
    attention("aten::scaled_dot_product_attention"),
    attention("aten::_scaled_dot_product_flash_attention"),
    attention("aten::_scaled_dot_product_efficient_attention"),
    attention("aten::_scaled_dot_product_cudnn_attention"),
    attention("aten::_scaled_dot_product_flash_attention_for_cpu"),
    attention("aten::_scaled_dot_product_fused_attention_overrideable"),
    attention("aten::_flash_attention_forward", "sequence-first", ragged=(3, 4)),
    attention("aten::_efficient_attention_forward", "sequence-first", ragged=(4, 5)),
    attention("aten::_cudnn_attention_forward", ragged=(4, 5)),
    attention("flash_attn::_flash_attn_forward", "sequence-first"),
    attention(
        "aten::_scaled_dot_product_flash_attention_backward",
        query=1, backward=True, ragged=(6, 7),
    ),
    attention("aten::_scaled_dot_product_efficient_attention_backward", query=1, backward=True),
    attention(
        "aten::_scaled_dot_product_cudnn_attention_backward",
        query=1, backward=True, ragged=(9, 10),
    ),
    attention(
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward", query=1, backward=True
    ),
    attention(
        "aten::_scaled_dot_product_fused_attention_overrideable_backward", query=1, backward=True
    ),
    attention(
        "aten::_flash_attention_backward", "sequence-first",
        query=1, backward=True, ragged=(6, 7),
    ),
    attention(
        "aten::_efficient_attention_backward", "sequence-first",
        query=1, backward=True, ragged=(6, 7),
    ),
    attention("flash_attn::_flash_attn_backward", "sequence-first", query=1, backward=True),
)  # fmt: skip
