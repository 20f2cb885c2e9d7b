"""Parameters, FLOP, shapes and memory of single layers, by closed formulas.

A multiply-add is 2 FLOP; only products are counted, as everywhere. "Kept" are the values that
stay for the backward pass beside the parameters: an input, an output, a mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from gpuperf_analyzers.estimate.terms import EstimateError

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer at one input.

    Attributes
    ----------
    kind
        ``linear``, ``conv2d``, …
    output
        Shape of what it returns, the batch first.
    parameters
        Trained values.
    flops
        FLOP of a forward pass.
    keeps_input, keeps_output
        Whether the backward pass needs them.
    keeps_more
        Further values kept (masks, indices, statistics), and the bytes of each in ``more_bytes``.
    in_place
        Whether the output overwrites the input: no new memory is taken.
    formula
        Of the parameters and of the FLOP.
    """

    kind: str
    output: Shape
    parameters: int = 0
    flops: int = 0
    keeps_input: bool = False
    keeps_output: bool = False
    keeps_more: int = 0
    more_bytes: int = 4
    in_place: bool = False
    formula: str = ""

    @property
    def allocates(self) -> int:
        """Values of new memory that a forward pass takes for the output."""
        return 0 if self.in_place else prod(self.output)


def linear(inputs: int, outputs: int, *, rows: Shape = (1,), bias: bool = True) -> Layer:
    """``[…, M] → […, N]``: M·N parameters, N more with a bias; 2·M·N FLOP a row."""
    _positive(inputs=inputs, outputs=outputs)
    return Layer(
        "linear",
        (*rows, outputs),
        inputs * outputs + outputs * bias,
        2 * prod(rows) * inputs * outputs,
        keeps_input=True,
        formula="M·N + N; 2·rows·M·N" if bias else "M·N; 2·rows·M·N",
    )


def conv2d(
    shape: Shape,
    outputs: int,
    kernel: int | tuple[int, int],
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    bias: bool = True,
) -> Layer:
    """``[B, Cin, H, W] → [B, Cout, H', W']``: Cin/g·Cout·K·K parameters, Cout more with a bias.

    2·B·H'·W' FLOP a weight; H' = ⌊(H + 2·padding - dilation·(K - 1) - 1)/stride⌋ + 1. With as
    many groups as channels it is a depthwise convolution: C·K·K parameters.
    """
    batch, channels, height, width = _four(shape, "conv2d")
    _positive(outputs=outputs, stride=stride, dilation=dilation, groups=groups)
    if channels % groups or outputs % groups:
        raise EstimateError(f"conv2d: {channels} and {outputs} channels do not split by {groups}")
    kh, kw = (kernel, kernel) if isinstance(kernel, int) else kernel
    high = _extent(height, kh, stride, padding, dilation, "conv2d")
    wide = _extent(width, kw, stride, padding, dilation, "conv2d")
    weights = channels // groups * outputs * kh * kw
    return Layer(
        "depthwise conv2d" if groups == channels and groups > 1 else "conv2d",
        (batch, outputs, high, wide),
        weights + outputs * bias,
        2 * batch * high * wide * weights,
        keeps_input=True,
        formula=f"Cin/{groups}·Cout·K·K{' + Cout' if bias else ''}; 2·B·H'·W'·weights",
    )


def batch_norm(shape: Shape) -> Layer:
    """2·N parameters of N channels (scale and shift); keeps its input, and 2·N statistics.

    Its running mean and variance, 2·N values more, are buffers and are not trained.
    """
    channels = shape[1] if len(shape) > 1 else shape[0]
    return Layer(
        "batch_norm", shape, 2 * channels, keeps_input=True, keeps_more=2 * channels, formula="2·N"
    )


def layer_norm(shape: Shape, *, bias: bool = True) -> Layer:
    """2·N parameters over rows of N values, N without a bias; keeps its input, 2 values a row."""
    rows = prod(shape[:-1])
    return Layer(
        "layer_norm",
        shape,
        shape[-1] * (1 + bias),
        keeps_input=True,
        keeps_more=2 * rows,
        formula="2·N" if bias else "N",
    )


def rms_norm(shape: Shape) -> Layer:
    """N parameters over rows of N values; a fused one keeps its input and one value a row."""
    return Layer(
        "rms_norm", shape, shape[-1], keeps_input=True, keeps_more=prod(shape[:-1]), formula="N"
    )


def embedding(count: int, width: int, *, rows: Shape = (1,)) -> Layer:
    """A table of N rows of W: N·W parameters, no FLOP; keeps the indices, of 8 bytes."""
    _positive(count=count, width=width)
    return Layer(
        "embedding",
        (*rows, width),
        count * width,
        keeps_more=prod(rows),
        more_bytes=8,
        formula="N·W; a look-up multiplies nothing",
    )


def activation(shape: Shape, *, function: str = "relu", in_place: bool = False) -> Layer:
    """No parameters. ReLU, sigmoid and tanh keep their output, GELU and SiLU their input.

    In place no new memory is taken; one that needs its input must copy it before overwriting it.
    """
    if function in {"relu", "sigmoid", "tanh"}:
        return Layer(function, shape, keeps_output=True, in_place=in_place, formula="0")
    if function in {"gelu", "silu"}:
        copied = prod(shape) if in_place else 0
        return Layer(
            function,
            shape,
            keeps_input=not in_place,
            keeps_more=copied,
            in_place=in_place,
            formula="0",
        )
    raise EstimateError(f"the activation {function!r} is unknown: relu, sigmoid, tanh, gelu, silu")


def dropout(shape: Shape, *, mask_bytes: int = 1) -> Layer:
    """Keeps a mask: a byte a value on a GPU, a value of the input's own type on a CPU."""
    return Layer("dropout", shape, keeps_more=prod(shape), more_bytes=mask_bytes, formula="0")


def max_pool2d(shape: Shape, kernel: int, *, stride: int | None = None, padding: int = 0) -> Layer:
    """Keeps its input, and where each maximum was: 8 bytes a value."""
    batch, channels, height, width = _four(shape, "max_pool2d")
    by = kernel if stride is None else stride
    _positive(kernel=kernel, stride=by)
    out = (
        batch,
        channels,
        _extent(height, kernel, by, padding, 1, "max_pool2d"),
        _extent(width, kernel, by, padding, 1, "max_pool2d"),
    )
    return Layer(
        "max_pool2d", out, keeps_input=True, keeps_more=prod(out), more_bytes=8, formula="0"
    )


def mean_pool(shape: Shape) -> Layer:
    """The mean over height and width; keeps nothing but sizes."""
    batch, channels, _, _ = _four(shape, "mean_pool")
    return Layer("mean_pool", (batch, channels), formula="0")


def flatten(shape: Shape) -> Layer:
    """All but the batch in one row: another view of the same memory."""
    return Layer("flatten", (shape[0], prod(shape[1:])), in_place=True, formula="0")


def attention(
    shape: Shape, heads: int, *, kv_heads: int | None = None, bias: bool = False
) -> Layer:
    """Self-attention over ``[B, S, H]``, projections in it, scores never held (fused).

    2·H² + 2·H·H·kv/a parameters; FLOP: 2 a weight and row, and 4·B·S²·H for scores and values.
    Keeps its input, queries, keys, values, the heads' output, and a value a row and head.
    """
    batch, rows, hidden = _three(shape, "attention")
    kv = heads if kv_heads is None else kv_heads
    _positive(heads=heads, kv_heads=kv)
    if hidden % heads or heads % kv:
        raise EstimateError(f"attention: {hidden} by {heads} heads and {kv} of keys do not divide")
    wide = hidden // heads * kv
    weights = 2 * hidden * hidden + 2 * hidden * wide
    kept = batch * rows * (2 * hidden + 2 * wide + heads)
    return Layer(
        "attention",
        shape,
        weights + bias * (2 * hidden + 2 * wide),
        2 * batch * rows * weights + 4 * batch * rows * rows * hidden,
        keeps_input=True,
        keeps_more=kept,
        formula="2·H² + 2·H·Hkv; 2·B·S·weights + 4·B·S²·H",
    )


def mlp(shape: Shape, width: int, *, gated: bool = False, bias: bool = False) -> Layer:
    """Two matrices H × F, three where it is gated; 2 FLOP a weight and row.

    Keeps its input, and of F values a row two (GELU's input and output) or four.
    """
    _positive(width=width)
    hidden, rows = shape[-1], prod(shape[:-1])
    weights = (3 if gated else 2) * hidden * width
    return Layer(
        "mlp",
        shape,
        weights + bias * (width * (2 if gated else 1) + hidden),
        2 * rows * weights,
        keeps_input=True,
        keeps_more=rows * width * (4 if gated else 2),
        formula=f"{3 if gated else 2}·H·F; 2·rows·weights",
    )


def _extent(size: int, kernel: int, stride: int, padding: int, dilation: int, what: str) -> int:
    """Positions of a kernel along one side."""
    if padding < 0 or kernel < 1:
        raise EstimateError(f"{what}: a kernel of {kernel} with padding {padding}")
    found = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    if found < 1:
        raise EstimateError(f"{what}: a kernel of {kernel} does not fit a side of {size}")
    return found


def _four(shape: Shape, what: str) -> tuple[int, int, int, int]:
    if len(shape) != 4 or min(shape) < 1:
        raise EstimateError(f"{what} takes [batch, channels, height, width], not {list(shape)}")
    return shape[0], shape[1], shape[2], shape[3]


def _three(shape: Shape, what: str) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape) < 1:
        raise EstimateError(f"{what} takes [batch, sequence, hidden], not {list(shape)}")
    return shape[0], shape[1], shape[2]


def _positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise EstimateError(f"{name.replace('_', ' ')} is {size}: 1 or more")
