"""What autograd keeps of each operation: the rules, by op, from the derivative's formula.

The derivative of a product needs the other factor, that of a ReLU its result, that of a sum
nothing. An op that has no rule here is named, and what it keeps is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuperf_analyzers.estimate.spec import Operation, Tensor

ATTENTION = "scaled_dot_product_attention"
Rule = Callable[[Operation], Iterable[Tensor | None]]


def _inputs(*indices: int) -> Rule:
    return lambda op: (op.input(i) for i in indices)


def _outputs(*indices: int) -> Rule:
    return lambda op: (op.outputs[i] for i in indices if i < len(op.outputs))


def _both(first: Rule, second: Rule) -> Rule:
    return lambda op: (*first(op), *second(op))


def factors(op: Operation, first: int) -> tuple[Tensor | None, Tensor | None]:
    """Of a product of arguments `first` and `first` + 1: each is kept if the other is trained."""
    a, b = op.input(first), op.input(first + 1)
    return (
        a if b is not None and b.differentiable else None,
        b if a is not None and a.differentiable else None,
    )


def _quotient(op: Operation) -> Iterable[Tensor | None]:
    a, b = op.input(0), op.input(1)
    return (a if b is not None and b.differentiable else None, b)


def _attention(op: Operation) -> Iterable[Tensor | None]:
    return (op.input(0), op.input(1), op.input(2), *op.outputs)


_NOTHING: Rule = lambda op: ()  # noqa: E731, ARG005 - one of the rules of the table
_FIRST = _inputs(0)
_RESULT = _outputs(0)
_STATISTICS = _both(_FIRST, _outputs(1, 2))
_ALL_INPUTS: Rule = lambda op: op.inputs  # noqa: E731 - likewise

RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ("relu", "sigmoid", "tanh", "exp", "sqrt", "rsqrt", "reciprocal", "_softmax",
         "_safe_softmax", "_log_softmax"), _RESULT),
    **dict.fromkeys(
        ("gelu", "silu", "leaky_relu", "hardtanh", "hardswish", "hardsigmoid", "mish", "softplus",
         "elu", "abs", "log", "log1p", "sin", "cos", "erf", "pow", "clamp", "clamp_min",
         "avg_pool2d", "_adaptive_avg_pool2d", "var", "var_mean", "std", "square"), _FIRST),
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit", "native_layer_norm",
                     "native_group_norm", "_batch_norm_with_update"), _STATISTICS),
    "_fused_rms_norm": _both(_FIRST, _outputs(1)),
    **dict.fromkeys(("mul", "mm", "bmm", "mv", "dot"), lambda op: factors(op, 0)),
    **dict.fromkeys(("addmm", "baddbmm", "addcmul", "addmv"), lambda op: factors(op, 1)),
    "convolution": lambda op: factors(op, 0),
    "div": _quotient,
    "embedding": _inputs(1),
    "native_dropout": _outputs(1),
    "max_pool2d_with_indices": _both(_FIRST, _outputs(1)),
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), _both(_inputs(0, 1), _outputs(1))),
    **dict.fromkeys(("mse_loss", "binary_cross_entropy_with_logits", "smooth_l1_loss",
                     "binary_cross_entropy", "huber_loss"), _inputs(0, 1)),
    "where": _FIRST,
    "masked_fill": _inputs(1),
    **dict.fromkeys(("index", "index_select", "gather", "index_add"),
                    lambda op: op.inputs[1:]),
    **dict.fromkeys(("max", "min", "topk", "sort", "cummax"), _outputs(1)),
    "amax": _both(_FIRST, _RESULT),
    "norm": _both(_FIRST, _RESULT),
    "linalg_vector_norm": _both(_FIRST, _RESULT),
    ATTENTION: _attention,
    **dict.fromkeys(
        ("add", "sub", "rsub", "neg", "sum", "mean", "view", "_unsafe_view", "reshape", "t",
         "transpose", "permute", "expand", "slice", "select", "split", "split_with_sizes", "chunk",
         "unbind", "squeeze", "unsqueeze", "cat", "stack", "clone", "_to_copy", "copy", "detach",
         "alias", "contiguous", "flatten", "repeat", "cumsum", "flip", "roll", "constant_pad_nd",
         "narrow", "diagonal", "tril", "triu", "unfold", "as_strided", "lift_fresh", "zero", "fill",
         "upsample_nearest2d", "upsample_bilinear2d", "pixel_shuffle", "movedim", "view_as",
         "_reshape_alias", "empty_like", "zeros_like", "ones_like", "new_zeros", "floor", "round",
         "repeat_interleave", "_conj", "real", "index_put"), _NOTHING),
}  # fmt: skip
"""Op, without overload and without the underscore of its in-place form, to what is kept."""

_NEED_OLD_VALUE = frozenset(
    {"gelu", "silu", "leaky_relu", "hardtanh", "hardswish", "hardsigmoid", "mish", "softplus",
     "elu", "abs", "log", "log1p", "sin", "cos", "erf", "pow", "clamp", "clamp_min", "square"}
)  # fmt: skip
"""Ops whose in-place form copies the input first, since its derivative needs it."""


def base_name(op: str) -> tuple[str, bool]:
    """The name in :data:`RULES` of torch's name of an op, and whether it is the in-place form."""
    name = op.removeprefix("aten::").partition(".")[0]
    if name.endswith("_") and not name.endswith("__"):
        return name[:-1], True
    return name, False


def kept_tensors(op: Operation) -> tuple[tuple[Tensor, ...], Tensor | None] | None:
    """The tensors that are kept for the backward pass of `op`, and one that is copied first.

    None where no rule knows the op. Nothing is kept where autograd does not follow it.
    """
    name, in_place = base_name(op.op)
    if not op.differentiable:
        return (), None
    rule = RULES.get(name)
    if rule is None:
        return None
    if in_place and name in _NEED_OLD_VALUE:
        return (), op.input(0)
    kept = tuple(t for t in rule(op) if t is not None)
    if in_place and name == "mul" and (second := op.input(1)) is not None and second.differentiable:
        # The old value of what is overwritten is a factor, so it is copied.
        first = op.input(0)
        return tuple(t for t in kept if t is not first), first
    return kept, None
