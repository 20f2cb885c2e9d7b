"""Figures that have been worked out by hand and published; each docstring derives its own."""

from __future__ import annotations

import pytest

from gpuperf_analyzers.estimate.activations import megatron_layer_bytes
from gpuperf_analyzers.estimate.clusters import Cluster
from gpuperf_analyzers.estimate.communication import (
    bits_to_bytes,
    compute_us,
    head_a_gpu_bandwidth,
    needed_intensity,
    sent_bytes,
    tp_bound,
    tp_bound_megatron,
    tp_intensity,
    transfer_us,
)
from gpuperf_analyzers.estimate.known_models import known_model
from gpuperf_analyzers.estimate.layouts import one_layout
from gpuperf_analyzers.estimate.pipeline import (
    batch_to_fill,
    global_batch,
    in_flight_streaming,
    recomputed_layer_passes,
    stages_with_tp,
    updates,
)
from gpuperf_analyzers.estimate.searching import search
from gpuperf_analyzers.estimate.training import training_estimate
from gpuperf_analyzers.estimate.transformer import parameters, six_n_d
from gpuperf_analyzers.hardware import builtin_peaks, find_peak

H100 = 989e12
RTX_4090 = 330e12
PCIE = 32e9
"""PCIe 4.0 x16, one way, bytes/s."""


def test_llama_2_70b_with_adam_in_mixed_precision():
    """70e9 parameters: × 2 bytes = 140 GB, gradients as many, × 12 = 840 GB.

    Activations 34·s·b·h·L = 34 × 4096 × 8 × 8192 × 80 = 730.1e9. In all 1,850e9: over 80e9 a
    card 23.1, so 24; over 24e9 77.1, so 78.
    """
    e = training_estimate(known_model("llama-2-70b"), batch=8, sequence=4096, count=70e9)
    weights, gradients, optimizer, activations = (t.value for t in e.memory)
    assert weights == gradients == pytest.approx(140e9)
    assert optimizer == pytest.approx(840e9)
    assert activations == 34 * 4096 * 8 * 8192 * 80 == pytest.approx(730e9, rel=1e-3)
    assert e.total_bytes == pytest.approx(1850e9, rel=1e-3)
    assert e.cards(80e9) == 24
    assert e.cards(24e9) == 78


def test_llama_2_70b_as_its_config_has_it():
    """The name is rounded: 80 layers of 2·8192² + 2·8192·1024 + 3·8192·28672 + 2·8192 parameters.

    With two tables of 32000 × 8192 and a norm 68,976,648,192, as the model's card says; so
    parameters take 138 GB rather than 140.
    """
    layer = 2 * 8192**2 + 2 * 8192 * 1024 + 3 * 8192 * 28672 + 2 * 8192
    assert parameters(known_model("llama-2-70b")).total == 80 * layer + 2 * 32000 * 8192 + 8192
    assert parameters(known_model("llama-2-70b")).total == 68_976_648_192


def test_one_stage_of_a_billion_parameters():
    """8 samples × 4096 tokens × 6 × 1e9 = 196.6 TFLOP; over 330 TFLOPS 0.596 s."""
    flops = six_n_d(1e9, 8 * 4096)
    assert flops == pytest.approx(196.6e12, rel=1e-3)
    assert compute_us(flops, RTX_4090) / 1e6 == pytest.approx(0.6, abs=0.005)


def test_four_gigabytes_over_pcie():
    """4e9 / 32e9 = 0.125 s one way."""
    assert transfer_us(4e9, PCIE) / 1e6 == pytest.approx(0.125)


def test_the_simplified_tp_bound_on_a_4090():
    """t ≤ 3·8192·32e9/330e12 = 2.38; the link needs 330e12/32e9 = 10,300 FLOP a byte."""
    assert needed_intensity(RTX_4090, PCIE) == pytest.approx(10_000, rel=0.05)
    bound = tp_bound(8192, RTX_4090, PCIE)
    assert bound == pytest.approx(2.4, abs=0.05)
    assert tp_intensity(8192, bound) == pytest.approx(needed_intensity(RTX_4090, PCIE))


def test_the_simplified_tp_bound_on_an_h100_depends_on_the_direction():
    """3·8192·450e9/989e12 = 11.2 one way; of both ways 900e9: 22.4, at 989e12/900e9 = 1,100."""
    assert tp_bound(8192, H100, 450e9) == pytest.approx(11, abs=0.3)
    assert tp_bound(8192, H100, 900e9) == pytest.approx(22, abs=0.5)
    assert needed_intensity(H100, 900e9) == pytest.approx(1100, rel=0.01)


def test_the_tp_bound_of_four_ring_all_reduces():
    """72·s·b·h²/t FLOP against 16·s·b·h·(t - 1)/t bytes: t = 1 + 4.5·h·bw/peak.

    Checked by computing both times at that t. Against 3·h·bw/peak it is 1.5 times, and 1 more:
    17.8 for 11.2, 4.6 for 2.4. Three times, 9·h·bw/peak, comes of sending the payload once:
    where the switch reduces, or in a ring of two.
    """
    for peak, link in ((H100, 450e9), (RTX_4090, PCIE)):
        t = tp_bound_megatron(8192, peak, link)
        rows = 4096.0
        work = 72 * rows * 8192**2 / t
        sent = 4 * 2 * (t - 1) / t * 2 * rows * 8192
        assert work / peak == pytest.approx(sent / link)
        simple = tp_bound(8192, peak, link)
        assert t == pytest.approx(1 + 1.5 * simple)
        assert tp_bound_megatron(8192, peak, link, algorithm="in-network") == pytest.approx(
            3 * simple
        )
    assert tp_bound_megatron(8192, H100, 450e9) == pytest.approx(17.8, abs=0.05)
    # At t = 2 a ring sends 2·(2 - 1)/2 = 1 payload, so the ratio is that of 9·h/t: 3 times 3·h/t.
    two = 72 * 8192**2 / 2 / (4 * sent_bytes("all-reduce", 2 * 8192, 2))
    assert two == pytest.approx(3 * tp_intensity(8192, 2))


def test_one_head_a_gpu():
    """h/t = 128, so 3·128 = 384 FLOP a byte: 330e12/384 = 859 GB/s, both ways 1.7 TB/s."""
    one_way = head_a_gpu_bandwidth(128, RTX_4090)
    assert one_way == pytest.approx(330e12 / 384)
    assert one_way / 1e9 == pytest.approx(859, abs=0.5)
    assert 2 * one_way / 1e12 == pytest.approx(1.7, abs=0.02)


def test_a_pipeline_of_80_stages():
    """2·80 - 1 = 159 in flight, about 160; 8 groups of 10 layers 2·8 - 1 = 15, about 16."""
    assert in_flight_streaming(80) == 159
    assert in_flight_streaming(80) == pytest.approx(160, rel=0.01)
    assert in_flight_streaming(8) == 15
    assert in_flight_streaming(8) == pytest.approx(16, rel=0.07)


def test_recomputing_every_layer_from_the_start():
    """1 + 2 + … + 80 = 80·81/2 = 3,240 layer passes, 40.5 times the plain 80."""
    assert recomputed_layer_passes(80) == sum(range(1, 81)) == 3240
    assert recomputed_layer_passes(80) / 80 == pytest.approx(40, abs=0.6)


def test_filling_a_pipeline_and_shortening_it():
    """Stages × replicas micro-batches fill it; with 8-way TP 80 stages are 80/8 = 10."""
    assert batch_to_fill(80, 1) == 80
    assert batch_to_fill(10, 4) == 40
    assert stages_with_tp(80, 8) == 10


def test_a_step_of_80_micro_batches_hides_its_gradients():
    """80 × 0.6 s = 48 s; gradients of 4 GB out and back at 32 GB/s: 0.125 + 0.125 = 0.25 s.

    A ring all-reduce sends 2·(n - 1)/n times 4 GB one way, 0.25 s at most.
    """
    step = 80 * compute_us(six_n_d(1e9, 8 * 4096), RTX_4090) / 1e6
    assert step == pytest.approx(48, rel=0.01)
    exchange = transfer_us(2 * 4e9, PCIE) / 1e6
    assert exchange == pytest.approx(0.25)
    for ranks in (2, 8, 1000):
        assert transfer_us(sent_bytes("all-reduce", 4e9, ranks), PCIE) / 1e6 <= exchange
    assert exchange < 1


def test_network_cards_against_pcie():
    """8 cards of 200 Gb/s: 8 × 200/8 = 200 GB/s; 8 PCIe links of 32 are 256."""
    assert bits_to_bytes(200, 8) == pytest.approx(200e9)
    assert bits_to_bytes(200, 8) < 8 * PCIE


def test_the_global_batch():
    """2048 cards × micro batch 8 = 16,384."""
    assert global_batch(1, 256, 8, 8) == 16_384
    assert global_batch(4, 2, 8, 3) == 4 * 2 * 8 * 3


def test_accumulation_leaves_the_updates_as_they_are():
    """1,000 samples by 10 are 100 updates; by 5, accumulated twice, as well."""
    assert updates(1000, 10) == 100
    assert updates(1000, 5, 2) == 100
    assert updates(1001, 10) == 101


def test_cores_of_an_h100():
    """132 multiprocessors × 128 fp32 lanes = 16,896."""
    peak = find_peak("NVIDIA H100 80GB HBM3", builtin_peaks())
    assert peak is not None
    assert peak.sms is not None
    assert peak.sms * peak.details["fp32_fma_per_clock_sm"] == 16_896


def test_cards_are_sold_in_billions_of_bytes():
    """80 is 80e9 and 24 is 24e9, not 2**30 of them."""
    by_name = {p.names[0]: p.capacity_gb for p in builtin_peaks()}
    assert by_name["NVIDIA H100 80GB HBM3"] == 80
    assert by_name["NVIDIA GeForce RTX 4090"] == 24


def test_llama_3_8b_on_one_node():
    """8B, DP 2, PP 4, accumulation 128, ZeRO-1, 2·128·1·4096 = 1,048,576 tokens an update.

    First stage: 8 layers of 218,112,000 parameters and a table of 128256 × 4096: 2.270e9. Weights
    and gradients 2 bytes each, 4.54 GB; optimizer 12/2 bytes, 13.62 GB. Activations of 8 layers,
    4 micro-batches in flight: 32 × 34·4096·4096 = 18.25 GB by Megatron's formula: 41.0 GB. By
    the model's own widths a row keeps 4096·(4 + 2 + 2 + 2 + 2) + 4·1024 + 8·14336 bytes and 4·32:
    22.03 GB, 44.7 GB in all, and 49.3 with gradients accumulated in fp32.

    Others measured about 63 GB. The formulas leave out what a framework holds beside the model:
    the CUDA context and NCCL's buffers, memory reserved and not allocated, fp32 copies inside
    norms, rotary embedding and loss, buckets of gradients.
    """
    c = known_model("llama-3-8b")
    cards = Cluster("a card of 80", None, 80e9, None, None)
    x = one_layout(c, batch=256, dp=2, pp=4, zero=1)
    assert int(x.micro_batches[0]) == 128
    assert 256 * 4096 == 1_048_576

    def total(counting, precision="mixed"):
        found = search(c, cards, gpus=8, batch=256, sequence=4096, layouts=x,
                       counting=counting, precision=precision)  # fmt: skip
        return found.memory

    count = 8 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096) + 128256 * 4096
    first = total("megatron")
    assert first.weights[0] == first.gradients[0] == 2 * count
    assert first.optimizer[0] == 6 * count
    assert first.activations[0] == 32 * 34 * 4096 * 4096
    assert first.total[0] == pytest.approx(41.0e9, abs=0.05e9)
    row = 4096 * (4 + 2 + 2 + 2 + 2) + 4 * 1024 + 8 * 14336 + 4 * 32
    assert total("tensors").activations[0] == 32 * 4096 * row
    assert total("tensors").total[0] == pytest.approx(44.7e9, abs=0.05e9)
    assert total("tensors", "mixed-fp32-gradients").total[0] == pytest.approx(49.3e9, abs=0.05e9)
    assert total("tensors", "mixed-fp32-gradients").total[0] < 63e9


@pytest.mark.parametrize(
    ("keywords", "factor"),
    [
        ({"recompute": "selective"}, 34),
        ({"recompute": "selective", "tp": 8}, 10 + 24 / 8),
        ({"recompute": "selective", "tp": 8, "sequence_parallel": True}, 34 / 8),
        ({"recompute": "none"}, 34 + 5 * 64 * 4096 / 8192),
        ({"recompute": "none", "tp": 8}, 10 + 24 / 8 + 5 * 64 * 4096 / (8192 * 8)),
        ({"recompute": "none", "tp": 8, "sequence_parallel": True},
         34 / 8 + 5 * 64 * 4096 / (8192 * 8)),
        ({"recompute": "full", "tp": 8}, 2),
    ],
)  # fmt: skip
def test_activations_of_a_layer(keywords, factor):
    """Table 2 of Korthikanti et al. (2022), in units of s·b·h."""
    found = megatron_layer_bytes(known_model("llama-2-70b"), 4096, 8, **keywords)
    assert found == pytest.approx(4096 * 8 * 8192 * factor)
