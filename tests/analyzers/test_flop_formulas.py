"""FLOP formulas against torch.utils.flop_counter and against closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpuperf_analyzers.flop_formulas import FORMULAS
from gpuperf_analyzers.hookspecs import OpCall

BY_OP = {f.op: f for f in FORMULAS}


def flops(name: str, dims: Any, dtypes: Any = (), concrete: Any = ()) -> int | None:
    return BY_OP[name].count(OpCall(name, dims, dtypes, concrete))


def both_counts(run: Callable[[], object]) -> tuple[int, int]:
    """FLOPs by our formulas and by torch's counter, of the ops that `run` dispatches."""
    torch = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode

    total = 0

    class Recorder(TorchDispatchMode):
        """Sees each op with its arguments as the profiler records them: by schema, in order."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            nonlocal total
            schema = func._schema
            values = list(args) + [
                (kwargs or {}).get(a.name, a.default_value) for a in schema.arguments[len(args) :]
            ]
            formula = BY_OP.get(schema.name)
            if formula is not None:
                counted = formula.count(
                    OpCall(
                        schema.name,
                        tuple(_dims(v) for v in values),
                        tuple("float" if isinstance(v, torch.Tensor) else "" for v in values),
                        tuple(_concrete(v) for v in values),
                    )
                )
                assert counted is not None, schema.name
                total += counted
            return func(*args, **(kwargs or {}))

    def _dims(value: Any) -> tuple[Any, ...]:
        return tuple(value.shape) if isinstance(value, torch.Tensor) else ()

    def _concrete(value: Any) -> str:
        return "" if value is None or isinstance(value, torch.Tensor) else str(value)

    with FlopCounterMode(display=False) as counter, Recorder():
        run()
    return total, counter.get_total_flops()


def training(make: Callable[[Any], tuple[Callable[..., Any], list[Any]]], device: str) -> Any:
    torch = pytest.importorskip("torch")
    function, inputs = make(torch)
    inputs = [i.to(device).requires_grad_() for i in inputs]
    return lambda: function(*inputs).sum().backward()


def _randn(*shapes: tuple[int, ...]) -> Callable[[Any], list[Any]]:
    return lambda torch: [torch.randn(*s) for s in shapes]


GEMMS = {
    "mm": (lambda t: t.mm, [(5, 7), (7, 3)]),
    "addmm": (lambda t: t.addmm, [(3,), (5, 7), (7, 3)]),
    "bmm": (lambda t: t.bmm, [(2, 5, 7), (2, 7, 3)]),
    "baddbmm": (lambda t: t.baddbmm, [(2, 5, 3), (2, 5, 7), (2, 7, 3)]),
    "linear": (lambda t: t.nn.functional.linear, [(2, 5, 7), (3, 7), (3,)]),
    "matmul of a batch": (lambda t: t.matmul, [(2, 4, 5, 7), (7, 3)]),
    "einsum": (lambda t: lambda a, b: t.einsum("bik,bjk->bij", a, b), [(2, 5, 7), (2, 3, 7)]),
}


@pytest.mark.parametrize("name", GEMMS)
def test_matrix_products_agree_with_torchs_counter_forward_and_backward(name: str) -> None:
    function, shapes = GEMMS[name]
    run = training(lambda t: (function(t), _randn(*shapes)(t)), "cpu")
    ours, torchs = both_counts(run)
    assert ours == torchs > 0


CONVOLUTIONS = {
    "1d": ("conv1d", [(2, 4, 16), (6, 4, 3)], {}),
    "2d": ("conv2d", [(2, 4, 16, 12), (6, 4, 3, 5)], {}),
    "2d with a bias": ("conv2d", [(2, 4, 16, 12), (6, 4, 3, 5), (6,)], {}),
    "3d": ("conv3d", [(2, 4, 8, 6, 5), (6, 4, 3, 2, 1)], {}),
    "strided, padded, dilated": (
        "conv2d", [(2, 4, 17, 13), (6, 4, 3, 3)],
        {"stride": (2, 3), "padding": (1, 2), "dilation": (2, 1)},
    ),
    "padding by name": ("conv2d", [(2, 4, 16, 12), (6, 4, 3, 3)], {"padding": "same"}),
    "no batch": ("conv2d", [(4, 16, 12), (6, 4, 3, 3)], {}),
    "transposed 1d": ("conv_transpose1d", [(2, 4, 16), (4, 6, 3)], {"stride": 2}),
    "transposed 2d": (
        "conv_transpose2d", [(2, 4, 9, 7), (4, 6, 3, 3)], {"stride": 2, "output_padding": 1},
    ),
    "transposed 3d": ("conv_transpose3d", [(2, 4, 5, 4, 3), (4, 6, 2, 2, 2)], {}),
}  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_agree_with_torchs_counter_forward_and_backward(
    name: str, device: str
) -> None:
    function, shapes, options = CONVOLUTIONS[name]

    def make(torch: Any) -> Any:
        call = getattr(torch.nn.functional, function)
        return lambda *tensors: call(*tensors, **options), _randn(*shapes)(torch)

    ours, torchs = both_counts(training(make, device))
    assert ours == torchs > 0


def test_a_grouped_convolution_costs_a_group_th_and_each_gradient_as_much_again() -> None:
    # x [2, 8, 10, 10] * weight [12, 8/4, 3, 3] -> [2, 12, 8, 8]: every output point is a dot
    # product over 2 channels x 9 taps. torch's counter multiplies the weight's gradient by the
    # groups once too often (4 for 1), so it is right for the forward pass only.
    forward = 2 * (2 * 12 * 8 * 8) * (2 * 9)
    concrete = ("", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "4")
    dims = ((2, 8, 10, 10), (12, 2, 3, 3), (), (), (), (), (), (), ())
    assert flops("aten::convolution", dims, (), concrete) == forward
    backward = ((2, 12, 8, 8), (2, 8, 10, 10), (12, 2, 3, 3), *((),) * 8)
    scalars = ("", "", "", "[0]", *concrete[3:])
    for mask, gradients in (("[True, True, False]", 2), ("[False, True, True]", 1)):
        counted = flops("aten::convolution_backward", backward, (), (*scalars, mask))
        assert counted == gradients * forward


def test_a_grouped_forward_pass_agrees_with_torchs_counter() -> None:
    torch = pytest.importorskip("torch")
    x, weight = torch.randn(2, 8, 10, 10), torch.randn(12, 2, 3, 3)
    ours, torchs = both_counts(lambda: torch.nn.functional.conv2d(x, weight, groups=4))
    assert ours == torchs == 2 * (2 * 12 * 8 * 8) * (2 * 9)


@pytest.mark.parametrize(
    ("name", "dims", "concrete"),
    [
        ("aten::cudnn_convolution", 9, ("", "", "[1, 1]", "[2, 2]", "[1, 1]", "1")),
        ("aten::miopen_convolution", 9, ("", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "1")),
        ("aten::mkldnn_convolution", 7, ("", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "1")),
        ("aten::_slow_conv2d_forward", 6, ("", "", "[3, 3]", "", "[2, 2]", "[1, 1]")),
        ("aten::_conv_depthwise2d", 7, ("", "", "[3, 3]", "", "[2, 2]", "[1, 1]", "[1, 1]")),
    ],
)
def test_vendors_convolutions_keep_their_scalars_elsewhere(
    name: str, dims: int, concrete: tuple[str, ...]
) -> None:
    # ResNet's first layers: 224 -> 112 with stride 2, padding 1, 3x3.
    shapes = ((4, 3, 224, 224), (64, 3, 3, 3), *((),) * (dims - 2))
    assert flops(name, shapes, (), concrete) == 2 * 4 * 64 * 112 * 112 * 3 * 9


ATTENTIONS = {
    "same heads": ((2, 4, 33, 16), (2, 4, 33, 16), (2, 4, 33, 16)),
    "cross": ((2, 4, 33, 16), (2, 4, 65, 16), (2, 4, 65, 16)),
    "grouped queries": ((2, 8, 33, 16), (2, 2, 65, 16), (2, 2, 65, 16)),
    "other value width": ((2, 4, 33, 16), (2, 4, 65, 16), (2, 4, 65, 24)),
}
OPS = {
    "flash": "_scaled_dot_product_flash_attention",
    "efficient": "_scaled_dot_product_efficient_attention",
    "cudnn": "_scaled_dot_product_cudnn_attention",
}


@pytest.mark.parametrize("shapes", ATTENTIONS)
@pytest.mark.parametrize("kernel", OPS)
def test_attention_forward_agrees_with_torchs_formula(kernel: str, shapes: str) -> None:
    pytest.importorskip("torch")
    from torch.utils.flop_counter import sdpa_flop_count

    q, k, v = ATTENTIONS[shapes]
    ours = flops(f"aten::{OPS[kernel]}", (q, k, v, (), (), (), ()))
    assert ours == sdpa_flop_count(q, k, v) > 0


@pytest.mark.parametrize("shapes", ATTENTIONS)
@pytest.mark.parametrize("kernel", OPS)
def test_attention_backward_agrees_with_torchs_formula(kernel: str, shapes: str) -> None:
    pytest.importorskip("torch")
    from torch.utils.flop_counter import sdpa_backward_flop_count

    q, k, v = ATTENTIONS[shapes]
    grad = (*q[:3], v[3])
    ours = flops(f"aten::{OPS[kernel]}_backward", (grad, q, k, v, *((),) * 11))
    assert ours == sdpa_backward_flop_count(grad, q, k, v) > 0


@pytest.mark.parametrize("kernel", ["flash", "efficient"])
def test_attention_on_the_meta_device_agrees_with_torchs_counter(kernel: str) -> None:
    torch = pytest.importorskip("torch")
    q, k, v = (
        torch.randn(2, 4, 64, 32, device="meta", dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    )
    op = getattr(torch.ops.aten, OPS[kernel])
    options = (None, True, 0.0, True) if kernel == "efficient" else (0.0, True)
    ours, torchs = both_counts(lambda: op(q, k, v, *options)[0].sum().backward())
    # Forward 2 products, backward 5, each 2·B·H·S·S·D; the causal mask counted in full.
    assert ours == torchs == 7 * 2 * 2 * 4 * 64 * 64 * 32


def test_cpu_attention_is_counted_where_torchs_counter_reads_zero() -> None:
    torch = pytest.importorskip("torch")
    q = torch.randn(2, 4, 64, 32, requires_grad=True)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    ours, torchs = both_counts(lambda: sdpa(q, q, q).sum().backward())
    assert torchs == 0
    assert ours == 7 * 2 * 2 * 4 * 64 * 64 * 32


@pytest.mark.parametrize(
    "name", ["aten::_flash_attention_forward", "flash_attn::_flash_attn_forward"]
)
def test_attention_with_the_sequence_first_counts_the_same(name: str) -> None:
    dims = ((2, 33, 4, 16), (2, 65, 4, 16), (2, 65, 4, 16), (), (), ())
    assert flops(name, dims) == 2 * 2 * 4 * 33 * 65 * (16 + 16)


def test_ragged_attention_has_no_number_since_lengths_are_not_in_the_shapes() -> None:
    dims = ((98, 4, 16), (130, 4, 16), (130, 4, 16), (3,), (3,), ())
    assert flops("aten::_flash_attention_forward", dims) is None


def test_a_transformer_layer_forward_is_24_h_squared_plus_4_s_h_a_token() -> None:
    # 4 projections h x h (8h²) and two MLP products h x 4h (16h²) a token, 2 FLOP each, plus
    # scores and values: 4·s·h a token.
    torch = pytest.importorskip("torch")
    hidden, heads, sequence, batch = 64, 4, 32, 3
    w = [torch.randn(hidden, hidden) for _ in range(4)]
    up, down = torch.randn(4 * hidden, hidden), torch.randn(hidden, 4 * hidden)
    x = torch.randn(batch, sequence, hidden)
    nn = torch.nn.functional

    def layer() -> Any:
        q, k, v = (nn.linear(x, i).view(batch, sequence, heads, -1).transpose(1, 2) for i in w[:3])
        mixed = nn.scaled_dot_product_attention(q, k, v)
        out = nn.linear(mixed.transpose(1, 2).reshape(x.shape), w[3])
        return nn.linear(nn.gelu(nn.linear(out, up)), down)

    ours, _ = both_counts(layer)
    assert ours == batch * sequence * (24 * hidden**2 + 4 * sequence * hidden)


def test_a_scaled_product_counts_like_a_plain_one_and_packed_fp4_counts_both_halves() -> None:
    pytest.importorskip("torch")
    from torch.utils.flop_counter import _scaled_mm_flop

    fp8 = ("c10::Float8_e4m3fn",) * 2
    dims = ((64, 128), (128, 32), (), (), (), (), (), ())
    assert flops("aten::_scaled_mm", dims, fp8) == 2 * 64 * 32 * 128
    assert flops("aten::_scaled_mm", dims, fp8) == _scaled_mm_flop.__wrapped__(
        (64, 128), (128, 32), (), ()
    )
    packed = ("c10::Float4_e2m1fn_x2",) * 2
    assert flops("aten::_scaled_mm", dims, packed) == 2 * 64 * 32 * 256


@pytest.mark.parametrize(
    ("a", "b", "right"),
    [
        ((96, 16), (4, 16, 8), 2 * 96 * 16 * 8),  # rows split over 4 experts
        ((4, 24, 16), (4, 16, 8), 2 * 4 * 24 * 16 * 8),  # a batched product
        ((24, 64), (64, 8), 2 * 24 * 64 * 8),  # inner dimension split
        ((4, 24, 16), (16, 32), 2 * 24 * 16 * 32),  # columns split over 4 experts
    ],
)
def test_a_grouped_product_counts_every_row_once(
    a: tuple[int, ...], b: tuple[int, ...], right: int
) -> None:
    assert flops("aten::_grouped_mm", (a, b, (4,), (), ())) == right


@pytest.mark.parametrize(
    ("name", "dims"),
    [
        ("aten::mm", ((5, 7), (8, 3))),
        ("aten::mm", ((5, 7),)),
        ("aten::mm", ()),
        ("aten::mm", ((), ())),
        ("aten::addmm", ((3,), (5, 7))),
        ("aten::bmm", ((2, 5, 7), (3, 7, 3))),
        ("aten::linear", ((5, 7), (3, 6))),
        ("aten::linear", (((5, 7), (3, 7)), ())),
        ("aten::convolution", ((2, 8, 10, 10), (12, 2, 3, 3))),
        ("aten::convolution_backward", ((2, 12, 8, 8), (2, 8, 10, 10), (12, 2, 3, 3))),
        ("aten::_scaled_dot_product_flash_attention", ((2, 4, 33, 16), (2, 3, 33, 16))),
    ],
)
def test_shapes_that_do_not_fit_or_suffice_give_no_number(name: str, dims: Any) -> None:
    assert flops(name, dims) is None


def test_ideal_traffic_reads_each_operand_once_and_writes_the_result() -> None:
    call = OpCall("aten::mm", ((5, 7), (7, 3)), ("c10::Half", "c10::Half"))
    moved = BY_OP["aten::mm"].bytes_moved
    assert moved is not None
    assert moved(call) == 2 * (5 * 7 + 7 * 3 + 5 * 3)
    conv = OpCall(
        "aten::conv2d",
        ((2, 4, 10, 10), (6, 4, 3, 3), (), (), (), (), ()),
        ("float", "float"),
        ("", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"),
    )
    moved = BY_OP["aten::conv2d"].bytes_moved
    assert moved is not None
    assert moved(conv) == 4 * (2 * 4 * 100 + 6 * 4 * 9 + 2 * 6 * 64)


def test_every_formula_has_a_label_and_no_op_has_two() -> None:
    assert all(f.label for f in FORMULAS)
    assert len(BY_OP) == len(FORMULAS)


# One layer of T = 5 steps, batch 3, 8 -> 16, an LSTM's four gates: W_ih is 64 x 8, W_hh 64 x 16,
# and each is a product of 2·64·(8 or 16) FLOP for each of the 5·3 rows.
LSTM = 2 * 15 * 64 * (8 + 16)


def test_a_recurrent_layer_multiplies_each_step_by_each_weight() -> None:
    layer = ((5, 3, 8), (64, 8), (64, 16), (64,), (64,), (3, 16), (3, 16), *((),) * 9)
    assert flops("aten::mkldnn_rnn_layer", layer) == LSTM
    assert flops("aten::mkldnn_rnn_layer_backward", layer) == 2 * LSTM
    # cuDNN: all layers in one call; a second one takes the 16 of the first.
    weights = ((64, 8), (64, 16), (64,), (64,), (64, 16), (64, 16), (64,), (64,))
    whole = LSTM + 2 * 15 * 64 * (16 + 16)
    assert flops("aten::_cudnn_rnn", ((5, 3, 8), weights, *((),) * 13)) == whole
    masks = {"[True, True, True, True]": 2, "[True, True, True, False]": 1}
    for mask, passes in masks.items():
        concrete = (*("",) * 21, mask)
        dims = ((5, 3, 8), weights, *((),) * 20)
        assert flops("aten::_cudnn_rnn_backward", dims, (), concrete) == passes * whole


def test_a_packed_batch_counts_its_own_lengths() -> None:
    weights = ((64, 8), (64, 16))
    assert flops("aten::_cudnn_rnn", ((7, 8), weights, *((),) * 13)) == 2 * 7 * 64 * (8 + 16)


def test_a_fused_encoder_layer_is_the_sum_of_its_products() -> None:
    batch, rows, width, heads, hidden = 2, 6, 16, 4, 32
    projections = 4 * 2 * batch * rows * width * width  # query, key, value, output
    scores = 2 * 2 * batch * heads * rows * rows * (width // heads)  # Q·Kᵀ and P·V
    feed_forward = 2 * 2 * batch * rows * width * hidden
    x, packed, out = (batch, rows, width), (3 * width, width), (width, width)
    attention = (x, x, x, (), (), packed, (3 * width,), out, (width,), *((),) * 4)
    assert flops("aten::_native_multi_head_attention", attention) == projections + scores
    layer = (
        x, (), (), packed, (3 * width,), out, (width,), (), (), (), *((width,),) * 4,
        (hidden, width), (hidden,), (width, hidden), (width,), (), (),
    )  # fmt: skip
    found = flops("aten::_transformer_encoder_layer_fwd", layer)
    assert found == projections + scores + feed_forward


def test_attention_over_another_sequence_counts_both_lengths() -> None:
    q, k, packed = (2, 6, 16), (2, 9, 16), (48, 16)
    dims = (q, k, k, (), (), packed, (48,), (16, 16), (16,), *((),) * 4)
    products = 2 * 2 * 16 * 16 * (6 + 9 + 9 + 6)
    assert flops("aten::_native_multi_head_attention", dims) == products + 4 * 2 * 6 * 9 * 16


def test_nested_batches_of_a_fused_layer_have_no_number() -> None:
    dims = ((), (), (), (), (), (48, 16), (48,), (16, 16), (16,), *((),) * 4)
    assert flops("aten::_native_multi_head_attention", dims) is None
