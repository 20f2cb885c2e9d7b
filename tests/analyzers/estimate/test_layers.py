"""Single layers and chains of them, against numbers worked out by hand."""

from __future__ import annotations

import pytest

from gpuperf_analyzers.estimate import layers as of
from gpuperf_analyzers.estimate.network import network
from gpuperf_analyzers.estimate.terms import EstimateError


def test_linear():
    """784 → 256: 784·256 + 256 = 200,960 parameters; 64 rows: 2·64·784·256 FLOP."""
    layer = of.linear(784, 256, rows=(64,))
    assert layer.parameters == 200_960
    assert layer.flops == 2 * 64 * 784 * 256 == 25_690_112
    assert of.linear(784, 256, bias=False).parameters == 784 * 256


def test_convolution():
    """ResNet's first: 3·64·7·7 = 9,408 weights; 224 with stride 2, padding 3 → 112.

    ⌊(224 + 6 - 7)/2⌋ + 1 = 112; 2·112²·9,408 = 236 MFLOP (118 M multiply-adds, as published).
    """
    layer = of.conv2d((1, 3, 224, 224), 64, 7, stride=2, padding=3, bias=False)
    assert layer.output == (1, 64, 112, 112)
    assert layer.parameters == 9_408
    assert layer.flops // 2 == 118_013_952
    assert of.conv2d((1, 3, 8, 8), 4, 3).parameters == 3 * 4 * 9 + 4


def test_depthwise_convolution_and_dilation():
    """32 channels × 3·3 = 288 weights, a 32nd of the full 9,216; dilation 2 makes 3 reach 5."""
    layer = of.conv2d((2, 32, 16, 16), 32, 3, padding=1, groups=32, bias=False)
    full = of.conv2d((2, 32, 16, 16), 32, 3, padding=1, bias=False)
    assert layer.kind == "depthwise conv2d"
    assert layer.parameters == 288
    assert full.parameters == 32 * layer.parameters
    assert full.flops == 32 * layer.flops
    assert of.conv2d((1, 1, 16, 16), 1, 3, dilation=2).output == (1, 1, 12, 12)


def test_norms_and_embedding():
    """Batch norm 2·N, layer norm 2·N, RMS norm N, a table N·W."""
    assert of.batch_norm((8, 64, 32, 32)).parameters == 128
    assert of.layer_norm((8, 128, 768)).parameters == 1_536
    assert of.rms_norm((8, 128, 4096)).parameters == 4_096
    assert of.embedding(50257, 768).parameters == 38_597_376
    assert of.embedding(50257, 768).flops == 0


def test_attention_and_mlp():
    """GPT-2's: 4·768² + 4·768 = 2,362,368, and 8·768² + 5·768 = 4,722,432."""
    assert of.attention((1, 1024, 768), 12, bias=True).parameters == 2_362_368
    assert of.mlp((1, 1024, 768), 3072, bias=True).parameters == 4_722_432
    # Llama-2 70B's: 2·8192² + 2·8192·1024, and 3·8192·28672.
    assert of.attention((1, 4096, 8192), 64, kv_heads=8).parameters == 150_994_944
    assert of.mlp((1, 4096, 8192), 28672, gated=True).parameters == 704_643_072
    # 2·S·weights + 4·S²·H.
    flops = 2 * 1024 * 4 * 768**2 + 4 * 1024**2 * 768
    assert of.attention((1, 1024, 768), 12).flops == flops


def test_activations_in_place_take_no_memory():
    shape = (4, 10)
    assert of.activation(shape).allocates == 40
    assert of.activation(shape, in_place=True).allocates == 0
    assert of.activation(shape, function="gelu").keeps_input
    # SiLU needs its input, so in place it copies it first.
    assert of.activation(shape, function="silu", in_place=True).keeps_more == 40


def test_a_chain_of_feature_maps():
    """3×32×32 → 8×32×32 → pool 8×16×16 → 2048 → 10.

    Parameters 3·8·9 + 8 + 16 + 2048·10 + 10 = 20,730. Kept, in values of four bytes: the
    convolution's output (batch norm's input), 2·8 statistics, ReLU's output (the pool's input
    too), the pool's indices of 8 bytes, the pool's output (the linear layer's input).
    """
    chain = [
        {"kind": "conv2d", "out": 8, "kernel": 3, "padding": 1},
        {"kind": "batch_norm"},
        {"kind": "relu"},
        {"kind": "max_pool2d", "kernel": 2},
        {"kind": "flatten"},
        {"kind": "linear", "out": 10},
    ]
    net = network([2, 3, 32, 32], chain)
    assert [layer.output for layer in net.layers] == [
        (2, 8, 32, 32), (2, 8, 32, 32), (2, 8, 32, 32), (2, 8, 16, 16), (2, 2048), (2, 10),
    ]  # fmt: skip
    assert net.parameters == 3 * 8 * 9 + 8 + 16 + 2048 * 10 + 10
    maps, pooled = 2 * 8 * 32 * 32, 2 * 8 * 16 * 16
    assert net.kept_bytes == 4 * (maps + 16 + maps + pooled) + 8 * pooled
    assert net.flops == 2 * 2 * 32 * 32 * 216 + 2 * 2 * 2048 * 10
    # In place, the ReLU keeps the memory that batch norm wrote: as much, but nothing new.
    chain[2] = {"kind": "relu", "in_place": True}
    in_place = network([2, 3, 32, 32], chain)
    assert in_place.kept_bytes == net.kept_bytes
    assert net.allocated_bytes - in_place.allocated_bytes == 4 * maps


@pytest.mark.parametrize(
    ("chain", "words"),
    [
        ([], "without layers"),
        ([{"out": 3}], "layer 1"),
        ([{"kind": "convolve"}], "is unknown"),
        ([{"kind": "linear"}], "linear needs out"),
        ([{"kind": "linear", "out": 0}], "outputs is 0"),
        ([{"kind": "linear", "out": 2.5}], "whole number"),
        ([{"kind": "linear", "out": True}], "whole number"),
        ([{"kind": "linear", "out": 2, "kernel": 3}], "has no 'kernel'"),
        ([{"kind": "conv2d", "out": 2, "kernel": 64}], "does not fit"),
        ([{"kind": "flatten"}, {"kind": "conv2d", "out": 2, "kernel": 1}], "layer 2"),
    ],
)
def test_what_cannot_be_is_refused(chain, words):
    with pytest.raises(EstimateError, match=words):
        network([2, 3, 32, 32], chain)
