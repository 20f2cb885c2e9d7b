"""Whole layers that torch runs as one op when no gradient is needed.

A live count sees the op and nothing inside it; a trace shows the products inside, and those
count there. Both come to the same number.
"""

from __future__ import annotations

from gpuperf_analyzers.flop_formulas.arguments import Shape, shape
from gpuperf_analyzers.hookspecs import FlopFormula, OpCall

ATTENTION_LAYER = "4·B·(Sq + Sk)·E² + 4·B·Sq·Sk·E"
ENCODER_LAYER = "8·B·S·E² + 4·B·S²·E + 4·B·S·E·F"


def _attention(query: Shape | None, key: Shape | None, packed: Shape | None) -> int | None:
    """Projections of query, key, value and output, and the attention between them.

    `packed` is the weight of the three input projections, ``[3·E, E]``.
    """
    if query is None or key is None or packed is None:
        return None
    batch, rows, width = query
    if key[0] != batch or key[2] != width or packed != (3 * width, width):
        return None
    columns = key[1]
    return 4 * batch * (rows + columns) * width**2 + 4 * batch * rows * columns * width


def _attention_layer(call: OpCall) -> int | None:
    """Of ``aten::_native_multi_head_attention``."""
    return _attention(shape(call, 0, 3), shape(call, 1, 3), shape(call, 5, 2))


def _encoder_layer(call: OpCall) -> int | None:
    """Of ``aten::_transformer_encoder_layer_fwd``: self-attention and the two linear layers."""
    x, first = shape(call, 0, 3), shape(call, 14, 2)
    attention = _attention(x, x, shape(call, 3, 2))
    if x is None or first is None or attention is None or first[1] != x[2]:
        return None
    return attention + 4 * x[0] * x[1] * x[2] * first[0]


FUSED_LAYERS: tuple[FlopFormula, ...] = (
    FlopFormula("aten::_native_multi_head_attention", _attention_layer, ATTENTION_LAYER),
    FlopFormula("aten::_transformer_encoder_layer_fwd", _encoder_layer, ENCODER_LAYER),
)
