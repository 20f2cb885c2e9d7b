"""A chain of layers: the shape after each, and what all of them take and keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from gpuperf_analyzers.estimate import layers as of
from gpuperf_analyzers.estimate.layers import Layer, Shape
from gpuperf_analyzers.estimate.terms import EstimateError


@dataclass(frozen=True, slots=True)
class Network:
    """Layers in order, at one input of ``value_bytes`` bytes a value."""

    input: Shape
    layers: tuple[Layer, ...]
    value_bytes: int = 4

    @property
    def parameters(self) -> int:
        """Trained values."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def flops(self) -> int:
        """FLOP of a forward pass."""
        return sum(layer.flops for layer in self.layers)

    @property
    def kept_bytes(self) -> int:
        """Bytes that are kept for the backward pass, the network's input left out.

        A tensor that two layers keep (a ReLU its output, the next layer its input) counts once.
        """
        tensor = [0]
        sizes = {0: prod(self.input)}
        kept: set[int] = set()
        more = 0
        for number, layer in enumerate(self.layers, 1):
            before = tensor[-1]
            after = before if layer.in_place else number
            sizes[after] = prod(layer.output)
            kept |= ({before} if layer.keeps_input else set()) | (
                {after} if layer.keeps_output else set()
            )
            more += layer.keeps_more * layer.more_bytes
            tensor.append(after)
        return sum(sizes[t] for t in kept - {0}) * self.value_bytes + more

    @property
    def allocated_bytes(self) -> int:
        """Bytes of all outputs that take new memory: a forward pass that frees nothing."""
        return sum(layer.allocates for layer in self.layers) * self.value_bytes


_MAKERS: Mapping[str, tuple[Callable[..., Layer], tuple[str, ...]]] = {
    "linear": (lambda shape, **k: of.linear(shape[-1], k.pop("out"), rows=shape[:-1], **k),
               ("out", "bias")),
    "conv2d": (lambda shape, **k: of.conv2d(shape, k.pop("out"), k.pop("kernel"), **k),
               ("out", "kernel", "stride", "padding", "dilation", "groups", "bias")),
    "depthwise_conv2d": (
        lambda shape, **k: of.conv2d(shape, _side(shape, 1), k.pop("kernel"),
                                     groups=_side(shape, 1), **k),
        ("kernel", "stride", "padding", "dilation", "bias")),
    "batch_norm": (of.batch_norm, ()),
    "layer_norm": (of.layer_norm, ("bias",)),
    "rms_norm": (of.rms_norm, ()),
    "embedding": (lambda shape, **k: of.embedding(k.pop("count"), k.pop("width"), rows=shape),
                  ("count", "width")),
    **{
        name: ((lambda shape, function=name, **k: of.activation(shape, function=function, **k)),
               ("in_place",))
        for name in ("relu", "sigmoid", "tanh", "gelu", "silu")
    },
    "dropout": (of.dropout, ("mask_bytes",)),
    "max_pool2d": (lambda shape, **k: of.max_pool2d(shape, k.pop("kernel"), **k),
                   ("kernel", "stride", "padding")),
    "mean_pool": (of.mean_pool, ()),
    "flatten": (of.flatten, ()),
    "attention": (lambda shape, **k: of.attention(shape, k.pop("heads"), **k),
                  ("heads", "kv_heads", "bias")),
    "mlp": (lambda shape, **k: of.mlp(shape, k.pop("width"), **k), ("width", "gated", "bias")),
}  # fmt: skip
"""Kind of layer to what makes it from the shape before it, and the options it takes."""

_YES_OR_NO = frozenset({"bias", "in_place", "gated"})
"""Options that may be true or false; the others are numbers."""


def network(
    shape: Sequence[int], described: Sequence[Mapping[str, Any]], *, value_bytes: int = 4
) -> Network:
    """The chain that `described` is, at an input of `shape`.

    Parameters
    ----------
    shape
        The input, the batch first.
    described
        One table a layer: ``{"kind": "conv2d", "out": 64, "kernel": 3, "padding": 1}``. What goes
        in is the shape before it.
    value_bytes
        Bytes a value: 4, or 2 in half precision.

    Raises
    ------
    EstimateError
        A kind or option that is not known, sizes that do not fit: the line names the layer.
    """
    start = tuple(shape)
    if not start or not all(isinstance(s, int) and 1 <= s <= 10**9 for s in start):
        raise EstimateError(f"the input {list(shape)} is not a shape: whole numbers above 0")
    made: list[Layer] = []
    for number, entry in enumerate(described, 1):
        before = made[-1].output if made else start
        made.append(_layer(before, entry, f"layer {number}"))
    if not made:
        raise EstimateError("a network without layers has nothing to estimate")
    return Network(start, tuple(made), value_bytes)


def _layer(shape: Shape, entry: object, at: str) -> Layer:
    if not isinstance(entry, Mapping) or "kind" not in entry:
        raise EstimateError(f'{at}: write a table with kind = "…"')
    kind = str(entry["kind"])
    if kind not in _MAKERS:
        raise EstimateError(f"{at}: the kind {kind!r} is unknown: {', '.join(_MAKERS)}")
    make, options = _MAKERS[kind]
    given = {k: v for k, v in entry.items() if k not in {"kind", "name"}}
    for key, value in given.items():
        if key not in options:
            raise EstimateError(
                f"{at}: {kind} has no {key!r}: {', '.join(options) or 'no options'}"
            )
        if not isinstance(value, int) or (isinstance(value, bool) and key not in _YES_OR_NO):
            raise EstimateError(f"{at}: {kind}: {key} must be a whole number, not {value!r}")
    try:
        return make(shape, **given)
    except KeyError as missing:
        raise EstimateError(f"{at}: {kind} needs {missing.args[0]}") from None
    except EstimateError as error:
        raise EstimateError(f"{at}: {error}") from None


def _side(shape: Shape, index: int) -> int:
    return shape[index] if len(shape) > index else 1
