"""Recurrent layers that a library runs whole: their inner products leave no ops of their own.

Every step of the sequence multiplies by each weight matrix once, so a forward pass makes
2·T·B·Σ|weight| FLOP whatever the kind of cell, and backward as much again for the gradients of
the data and for those of the weights. Biases and the cells' pointwise work are not counted.
"""

from __future__ import annotations

from math import prod

from gpuperf_analyzers.flop_formulas.arguments import Shape, scalar, shape
from gpuperf_analyzers.hookspecs import FlopFormula, OpCall

FORWARD = "2·T·B·Σ|weight|"
BACKWARD = "2·T·B·Σ|weight| a gradient"
_CUDNN_MASK = 21


def _steps(call: OpCall) -> int | None:
    """Rows of the input: T·B, or the sum of the lengths of a packed batch."""
    x = shape(call, 0, 2, 3)
    return None if x is None else prod(x[:-1])


def _one_layer(call: OpCall, passes: int) -> int | None:
    """Of oneDNN's ops: one layer in one direction, its matrices being arguments 1 and 2."""
    rows, of_input, of_hidden = _steps(call), shape(call, 1, 2), shape(call, 2, 2)
    if rows is None or of_input is None or of_hidden is None:
        return None
    return 2 * passes * rows * (prod(of_input) + prod(of_hidden))


def _matrices(call: OpCall) -> list[Shape] | None:
    """Shapes of the matrices in the list of weights, argument 1, all layers and directions."""
    weights = call.dims[1] if len(call.dims) > 1 else ()
    found: list[Shape] = [w for w in weights if isinstance(w, tuple) and len(w) == 2]
    return found or None


def _whole(call: OpCall, passes: int) -> int | None:
    """Of cuDNN's and MIOpen's ops: all layers and directions."""
    rows, matrices = _steps(call), _matrices(call)
    if rows is None or matrices is None:
        return None
    return 2 * passes * rows * sum(prod(w) for w in matrices)


def _cudnn_backward(call: OpCall) -> int | None:
    """Of ``aten::_cudnn_rnn_backward``: the data's gradients, and the weights' if asked for."""
    mask = scalar(call, _CUDNN_MASK)
    if not isinstance(mask, list) or len(mask) != 4:
        return None
    return _whole(call, 1 + bool(mask[3]))


RECURRENT: tuple[FlopFormula, ...] = (
    FlopFormula("aten::mkldnn_rnn_layer", lambda call: _one_layer(call, 1), FORWARD),
    FlopFormula("aten::mkldnn_rnn_layer_backward", lambda call: _one_layer(call, 2), BACKWARD),
    FlopFormula("aten::_cudnn_rnn", lambda call: _whole(call, 1), FORWARD),
    FlopFormula("aten::_cudnn_rnn_backward", _cudnn_backward, BACKWARD),
    FlopFormula("aten::miopen_rnn", lambda call: _whole(call, 1), FORWARD),
)
