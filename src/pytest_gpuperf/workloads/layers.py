"""Layers of a transformer, forward: two linear layers with an activation, and a whole layer."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.workloads.dtypes import SIZES, rounding, values
from pytest_gpuperf.workloads.room import WIDE, made
from pytest_gpuperf.workloads.workload import Prepared, Workload, close, one_of, whole

if TYPE_CHECKING:
    import torch

_DTYPES = ("fp64", "fp32", "fp16", "bf16")
_CHECKED = 4


def mlp(batch: int, width: int, hidden: int, *, dtype: str = "fp32") -> Workload:
    """``relu(x W1ᵀ) W2ᵀ`` of B rows, W wide, H hidden; no biases.

    FLOP ``4·B·W·H``; bytes ``s·(2·B·W + 2·W·H)``.

    Raises
    ------
    ValueError
        A size or type that there is not.
    """
    whole(batch=batch, width=width, hidden=hidden)
    one_of("dtype", dtype, _DTYPES)
    return Workload(
        name=f"mlp-{batch}x{width}x{hidden}-{dtype}",
        build=partial(_build_mlp, batch, width, hidden, dtype),
        flops=4 * batch * width * hidden,
        bytes=SIZES[dtype] * (2 * batch * width + 2 * width * hidden),
        items=batch,
        dtype=dtype,
        flop_formula="4·B·W·H",
        byte_formula="s·(2·B·W + 2·W·H)",
        peak_bytes=_mlp_peak(batch, width, hidden, dtype),
    )


def transformer_layer(
    batch: int,
    rows: int,
    width: int,
    heads: int,
    *,
    hidden: int | None = None,
    causal: bool = True,
    dtype: str = "fp32",
) -> Workload:
    """A layer with the norms first: attention and two linear layers, each added to its input.

    FLOP ``8·B·S·W² + 4·B·S²·W + 4·B·S·W·H`` (the mask notwithstanding); bytes
    ``s·(2·B·S·W + 4·W² + 2·W·H)``. No biases, no weights in the norms, GELU between.

    Parameters
    ----------
    batch, rows, width, heads
        B, S, W and how many heads W is cut into.
    hidden
        H; None is 4·W.
    causal
        Whether a place sees only those before it.
    dtype
        ``fp32``, ``fp16``, ``bf16``.

    Raises
    ------
    ValueError
        A size or type that there is not, heads that do not divide the width.
    """
    hidden = 4 * width if hidden is None else hidden
    whole(batch=batch, rows=rows, width=width, heads=heads, hidden=hidden)
    one_of("dtype", dtype, _DTYPES)
    if width % heads:
        raise ValueError(f"gpuperf: {heads} heads do not divide a width of {width}")
    tokens = batch * rows
    return Workload(
        name=f"layer-{batch}x{rows}x{width}-h{heads}-{dtype}",
        build=partial(_build_layer, (batch, rows, width, heads, hidden), causal, dtype),
        flops=8 * tokens * width**2 + 4 * tokens * rows * width + 4 * tokens * width * hidden,
        bytes=SIZES[dtype] * (2 * tokens * width + 4 * width**2 + 2 * width * hidden),
        items=tokens,
        items_unit="tokens",
        dtype=dtype,
        flop_formula="8·B·S·W² + 4·B·S²·W + 4·B·S·W·H",
        byte_formula="s·(2·B·S·W + 4·W² + 2·W·H)",
        peak_bytes=_layer_peak(tokens, width, hidden, dtype),
    )


def _mlp_peak(batch: int, width: int, hidden: int, dtype: str) -> int:
    """Input and weights, and the weights in float64 or two results of the step beside."""
    size, weights = SIZES[dtype], 2 * width * hidden
    step = batch * max(2 * hidden, hidden + width)
    checked = 0 if dtype == "fp64" else WIDE * weights
    return max(
        made(dtype, batch * width, width * hidden, width * hidden),
        size * (batch * width + weights) + max(checked, size * step),
    )


def _layer_peak(tokens: int, width: int, hidden: int, dtype: str) -> int:
    """Input and weights, the weights in float64, and what the step has at its activation.

    That is the sum, the norm, q, k and v, the mixed values, and the activation's input and result.
    """
    size, weights = SIZES[dtype], 4 * width**2 + 2 * width * hidden
    wide = 0 if dtype == "fp64" else WIDE * weights
    return size * (tokens * width + weights) + wide + size * tokens * (6 * width + 2 * hidden)


def _weight(rows: int, columns: int, device: torch.device, dtype: str, seed: int) -> Any:
    # Spread 1/√columns keeps a layer's results about as large as its inputs.
    return values((rows, columns), device, dtype, seed=seed) / math.sqrt(columns)


def _build_mlp(batch: int, width: int, hidden: int, dtype: str, device: torch.device) -> Prepared:
    x = values((batch, width), device, dtype, seed=1)
    first = _weight(hidden, width, device, dtype, 2)
    second = _weight(width, hidden, device, dtype, 3)
    step = partial(two_linears, x, first, second)

    def check() -> float:
        few = x[:_CHECKED]
        expected = two_linears(few.double(), first.double(), second.double())
        return close("mlp", step()[:_CHECKED], expected, 16 * rounding(dtype, device))

    return Prepared(step, check)


def two_linears(x: Any, first: Any, second: Any) -> Any:
    """``relu(x first.T) second.T``."""
    functional = import_torch().nn.functional
    return functional.linear(functional.relu(functional.linear(x, first)), second)


def _build_layer(
    sizes: tuple[int, ...], causal: bool, dtype: str, device: torch.device
) -> Prepared:
    batch, rows, width, heads, hidden = sizes
    x = values((batch, rows, width), device, dtype, seed=1)
    shapes = ((3 * width, width), (width, width), (hidden, width), (width, hidden))
    weights = [_weight(*shape, device, dtype, 2 + i) for i, shape in enumerate(shapes)]
    step = partial(layer, x, *weights, heads=heads, causal=causal)

    def check() -> float:
        wide = [w.double() for w in weights]
        expected = layer(x[:1].double(), *wide, heads=heads, causal=causal)
        return close("transformer layer", step()[:1], expected, 64 * rounding(dtype, device))

    return Prepared(step, check)


def layer(
    x: Any, packed: Any, out: Any, first: Any, second: Any, *, heads: int, causal: bool
) -> Any:
    """The layer; `packed` are the three input projections of attention, one above the other."""
    functional = import_torch().nn.functional
    batch, rows, width = x.shape
    normed = functional.layer_norm(x, (width,))
    cut = functional.linear(normed, packed).view(batch, rows, 3, heads, width // heads)
    q, k, v = cut.permute(2, 0, 3, 1, 4)
    mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    x = x + functional.linear(mixed.transpose(1, 2).reshape(batch, rows, width), out)
    normed = functional.layer_norm(x, (width,))
    return x + functional.linear(functional.gelu(functional.linear(normed, first)), second)
