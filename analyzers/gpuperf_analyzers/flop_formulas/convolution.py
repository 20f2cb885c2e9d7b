"""Convolutions in one to three dimensions: forward, transposed, grouped and backward.

A forward pass makes 2·N·|weight|·|out| FLOP (spatial sizes of the output; of the input where it
is transposed), and each of the two gradients costs as much again. The weight's shape holds
``C_in / groups`` already, so groups need no factor of their own. A bias is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from gpuperf_analyzers.flop_formulas.arguments import (
    Shape,
    element_size,
    integers,
    scalar,
    shape,
)
from gpuperf_analyzers.hookspecs import FlopFormula, OpCall


@dataclass(frozen=True, slots=True)
class _Signature:
    """Where an op keeps its arguments. ``transposed`` is an index, or what it always is."""

    stride: int = 3
    padding: int = 4
    dilation: int | None = 5
    transposed: int | bool = False


_FORWARD = {
    "aten::conv1d": _Signature(),
    "aten::conv2d": _Signature(),
    "aten::conv3d": _Signature(),
    "aten::conv_transpose1d": _Signature(transposed=True),
    "aten::conv_transpose2d": _Signature(transposed=True),
    "aten::conv_transpose3d": _Signature(transposed=True),
    "aten::convolution": _Signature(transposed=6),
    "aten::_convolution": _Signature(transposed=6),
    "aten::convolution_overrideable": _Signature(transposed=6),
    "aten::cudnn_convolution": _Signature(stride=3, padding=2, dilation=4),
    "aten::cudnn_convolution_transpose": _Signature(transposed=True),
    "aten::cudnn_convolution_relu": _Signature(),
    "aten::miopen_convolution": _Signature(stride=4, padding=3),
    "aten::miopen_depthwise_convolution": _Signature(stride=4, padding=3),
    "aten::miopen_convolution_transpose": _Signature(transposed=True),
    "aten::mkldnn_convolution": _Signature(stride=4, padding=3),
    "aten::_conv_depthwise2d": _Signature(stride=4, padding=5, dilation=6),
    "aten::conv_depthwise3d": _Signature(stride=4, padding=5, dilation=6),
    "aten::_slow_conv2d_forward": _Signature(stride=4, padding=5, dilation=None),
    "aten::thnn_conv2d": _Signature(stride=4, padding=5, dilation=None),
    "aten::slow_conv3d_forward": _Signature(stride=4, padding=5, dilation=None),
}


def forward(op: str, signature: _Signature) -> FlopFormula:
    """2·N·|weight|·|out|, the output's size from stride, padding and dilation."""

    def parts(call: OpCall) -> tuple[int, Shape, int, Shape] | None:
        x, weight = shape(call, 0, 2, 3, 4, 5), shape(call, 1, 3, 4, 5)
        if x is None or weight is None or len(x) not in {len(weight), len(weight) - 1}:
            return None
        batch = x[0] if len(x) == len(weight) else 1
        inside = x[len(x) - len(weight) + 2 :]
        transposed = signature.transposed
        if not isinstance(transposed, bool):
            transposed = scalar(call, transposed)
            if not isinstance(transposed, bool):
                return None
        points = inside if transposed else _output(call, signature, inside, weight[2:])
        return None if points is None else (batch, weight, prod(points), x)

    def count(call: OpCall) -> int | None:
        found = parts(call)
        return None if found is None else 2 * found[0] * prod(found[1]) * found[2]

    def moved(call: OpCall) -> int | None:
        found, size = parts(call), element_size(call, 0)
        if found is None or size is None or signature.transposed is not False:
            return None
        batch, weight, points, x = found
        return size * (prod(x) + prod(weight) + batch * weight[0] * points)

    return FlopFormula(op, count, "2·N·|weight|·|out|", moved)


def _output(call: OpCall, signature: _Signature, inside: Shape, kernel: Shape) -> Shape | None:
    """Spatial size of the output; None where an argument is missing."""
    n = len(kernel)
    stride = integers(call, signature.stride, n)
    padding = integers(call, signature.padding, n)
    dilation = (1,) * n
    if signature.dilation is not None:
        recorded = integers(call, signature.dilation, n)
        if recorded is None:
            return None
        dilation = recorded
    if stride is None or padding is None:
        return None
    return tuple(
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip(inside, kernel, stride, padding, dilation, strict=True)
    )


def _backward(call: OpCall) -> int | None:
    """Of ``aten::convolution_backward``: a forward pass for each gradient asked for."""
    grad, x, weight = (shape(call, i, 3, 4, 5) for i in range(3))
    transposed, mask = scalar(call, 7), scalar(call, 10)
    if grad is None or x is None or weight is None or not len(grad) == len(x) == len(weight):
        return None
    if not isinstance(transposed, bool) or not isinstance(mask, list) or len(mask) < 2:
        return None
    points = (x if transposed else grad)[2:]
    return 2 * grad[0] * prod(weight) * prod(points) * (bool(mask[0]) + bool(mask[1]))


def _backward_traffic(call: OpCall) -> int | None:
    """The output's gradient, and for each gradient asked for what it reads and writes, once."""
    grad, x, weight = (shape(call, i, 3, 4, 5) for i in range(3))
    mask, size = scalar(call, 10), element_size(call, 0)
    if grad is None or x is None or weight is None or size is None:
        return None
    if not isinstance(mask, list) or len(mask) < 2:
        return None
    # The input's gradient reads the weight and is as large as the input; the weight's gradient
    # reads the input and is as large as the weight.
    each = prod(x) + prod(weight)
    return size * (prod(grad) + each * (bool(mask[0]) + bool(mask[1])))


def _input_gradient(call: OpCall) -> int | None:
    """Of ``aten::cudnn_convolution_backward_input``: no scalar is needed."""
    grad, weight = shape(call, 1, 3, 4, 5), shape(call, 2, 3, 4, 5)
    if grad is None or weight is None or len(grad) != len(weight):
        return None
    return 2 * grad[0] * prod(weight) * prod(grad[2:])


CONVOLUTION: tuple[FlopFormula, ...] = (
    *(forward(op, signature) for op, signature in _FORWARD.items()),
    FlopFormula(
        "aten::convolution_backward", _backward, "2·N·|weight|·|out| a gradient", _backward_traffic
    ),
    FlopFormula(
        "aten::cudnn_convolution_backward_input", _input_gradient, "2·N·|weight|·|out| a gradient"
    ),
)
