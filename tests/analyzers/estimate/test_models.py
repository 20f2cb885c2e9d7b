"""Whole Transformers: published parameter counts, configs, optimizer bytes, pipelines."""

from __future__ import annotations

import pytest

from gpuperf_analyzers.estimate.activations import layer_tensors, megatron_layer_bytes
from gpuperf_analyzers.estimate.known_models import from_config, known_model
from gpuperf_analyzers.estimate.model_states import model_state_terms, state_bytes
from gpuperf_analyzers.estimate.pipeline import accumulation_for, bubble, in_flight_1f1b
from gpuperf_analyzers.estimate.terms import EstimateError
from gpuperf_analyzers.estimate.transformer import (
    TransformerConfig,
    executed_flops,
    parameters,
    token_flops,
    training_flops,
)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("gpt2", 124_439_808),
        ("gpt2-xl", 1_557_611_200),
        ("llama-2-7b", 6_738_415_616),
        ("llama-2-13b", 13_015_864_320),
        ("llama-2-70b", 68_976_648_192),
        ("llama-3-8b", 8_030_261_248),
        ("llama-3.1-405b", 405_853_388_800),
        ("llama-3.2-1b", 1_235_814_400),
        ("mistral-7b", 7_241_732_096),
        ("mixtral-8x7b", 46_702_792_704),
        ("qwen2-7b", 7_615_616_512),
    ],
)
def test_parameters_as_published(name, count):
    """The number of values in the files that the models are published as."""
    assert parameters(known_model(name)).total == count


def test_experts_that_a_token_goes_through():
    """Mixtral: two of eight experts, 12.9e9 of 46.7e9 parameters."""
    p = parameters(known_model("mixtral-8x7b"))
    assert p.total - p.active == 32 * 6 * 3 * 4096 * 14336
    assert p.active == pytest.approx(12.9e9, rel=0.01)


def test_flops_of_a_token():
    """2 a matrix entry; attention 4·s·a·d a layer; three times that to train.

    For GPT-3 6·N per token is within 4% of it: the attention is 2.4% more, the tables less.
    """
    c = known_model("gpt3-175b")
    f = token_flops(c)
    assert f.layer_products == 2 * 12 * 12288**2
    assert f.layer_attention == 4 * 2048 * 12288
    assert training_flops(c, 1) == 3 * (96 * f.layer + 2 * 12288 * 50257)
    assert training_flops(c, 1) == pytest.approx(6 * parameters(c).total, rel=0.04)
    # Narayanan et al. (2021), eq. 3, without recomputation: 72·s·l·h²·(1 + s/6h + V/(12·l·h)).
    s, layers, h, v = 2048, 96, 12288, 50257
    megatron = 72 * s * layers * h**2 * (1 + s / (6 * h) + v / (12 * layers * h))
    assert training_flops(c, s) == pytest.approx(megatron)
    assert executed_flops(c, 1) - training_flops(c, 1) == 96 * f.layer_attention / 2


def test_a_config_in_hugging_faces_names():
    written = {
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
        "vocab_size": 128256, "max_position_embeddings": 8192, "hidden_act": "silu",
        "tie_word_embeddings": False, "rope_scaling": None,
    }  # fmt: skip
    assert parameters(from_config(written)).total == 8_030_261_248
    gpt = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257,
           "n_positions": 1024, "activation_function": "gelu_new"}  # fmt: skip
    assert parameters(from_config(gpt)).total == 124_439_808
    qwen = {"model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28,
            "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944,
            "vocab_size": 152064, "max_position_embeddings": 9, "hidden_act": "silu"}  # fmt: skip
    assert parameters(from_config(qwen)).total == 7_615_616_512


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_size": None}, "has no hidden_size"),
        ({"hidden_size": "big"}, "whole number"),
        ({"hidden_size": float("nan")}, "whole number"),
        ({"hidden_size": 10**30}, "hidden is"),
        ({"num_attention_heads": 7}, "does not divide"),
        ({"num_key_value_heads": 5}, "do not share"),
        ({"num_local_experts": 8}, "experts a token"),
        ({"model_type": "t5"}, "not a decoder"),
        ({"tie_word_embeddings": "yes"}, "true or false"),
    ],
)
def test_a_config_that_cannot_be_is_refused(change, words):
    written = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
               "vocab_size": 100, "max_position_embeddings": 32}  # fmt: skip
    with pytest.raises(EstimateError, match=words):
        from_config({**written, **change})


def test_optimizer_bytes():
    """In fp32 parameters and gradients with SGD 2 times, momentum 3, Adam 4 times 4 bytes.

    Mixed precision 2 + 2 + 12 with Adam. 8-bit: 2 + 2 + 4 + 2·1 = 10.
    """
    assert [state_bytes(o, "fp32").total / 4 for o in ("sgd", "momentum", "adam")] == [2, 3, 4]
    mixed = state_bytes("adam", "mixed")
    assert (mixed.weight, mixed.gradient, mixed.optimizer) == (2, 2, 12)
    assert state_bytes("adam8bit", "mixed").total == 10
    assert state_bytes("adam8bit", "fp32").total == 10


def test_zero_as_in_its_paper():
    """7.5e9 parameters, 64 ways: 120, 31.4, 16.6, 1.9 GB (ZeRO, figure 1)."""
    found = [
        sum(t.value or 0 for t in model_state_terms(7.5e9, zero=stage, ways=64)) / 1e9
        for stage in range(4)
    ]
    assert found == pytest.approx([120, 31.4, 16.6, 1.9], abs=0.05)


def test_tensor_by_tensor_is_megatrons_formula_where_that_holds():
    """GELU of 4·h, a key-value head a head, dropout: 34·s·b·h, and 5·a·s²·b with scores.

    A fused attention keeps 4 bytes a row and head beside, which the formula leaves out.
    """
    c = TransformerConfig("m", 1024, 1, 16, 16, 4096, 1000, 512, gated=False, dropout=True)
    for tp, split in ((1, False), (8, False), (8, True)):
        kept = layer_tensors(c, 512, 4, tp=tp, sequence_parallel=split)
        rows = kept.pop("row sums of attention")
        assert rows == 4 * 512 * 4 * 16 / tp
        assert sum(kept.values()) == pytest.approx(
            megatron_layer_bytes(c, 512, 4, tp=tp, sequence_parallel=split)
        )
        whole = layer_tensors(c, 512, 4, tp=tp, sequence_parallel=split, recompute="none")
        assert sum(whole.values()) == pytest.approx(
            megatron_layer_bytes(c, 512, 4, tp=tp, sequence_parallel=split, recompute="none")
        )


def test_bubbles_and_what_is_in_flight():
    """(p - 1)/m: 3/12 = 25%, halved by two chunks; 1F1B holds p, GPipe's m at most."""
    assert bubble(4, 12) == 0.25
    assert bubble(4, 12, 2) == 0.125
    assert in_flight_1f1b(8, 64) == 8
    assert in_flight_1f1b(8, 4) == 4
    # 8·(1 + 7/16) = 11.5: Korthikanti et al. (2022), section 4.2.3.
    assert in_flight_1f1b(8, 64, 2) == 11.5
    assert accumulation_for(1024, 8, 2) == 64
    with pytest.raises(EstimateError, match="does not divide"):
        accumulation_for(1000, 16, 2)


def test_an_unknown_model_names_the_nearest():
    with pytest.raises(EstimateError, match="llama-2-70b"):
        known_model("llama-2-70")
