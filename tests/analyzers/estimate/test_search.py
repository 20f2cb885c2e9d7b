"""The search over layouts: against the closed forms, one configuration at a time."""

from __future__ import annotations

import time

import numpy as np
import pytest

from gpuperf_analyzers.estimate.clusters import Cluster, cluster
from gpuperf_analyzers.estimate.explaining import explain
from gpuperf_analyzers.estimate.known_models import known_model
from gpuperf_analyzers.estimate.layouts import all_layouts, one_layout
from gpuperf_analyzers.estimate.rules import rules_for
from gpuperf_analyzers.estimate.searching import heat_map, search
from gpuperf_analyzers.estimate.terms import EstimateError
from gpuperf_analyzers.estimate.transformer import parameters, token_flops, training_flops
from gpuperf_analyzers.hardware import builtin_peaks

NODE = Cluster("toy", 1e15, 80e9, 400e9, 50e9)
C = known_model("llama-2-70b")


def one(**ways):
    layouts = one_layout(C, **{"batch": 64, **ways})
    return search(C, NODE, gpus=int(layouts.gpus[0]), batch=64, layouts=layouts)


def test_thousands_in_seconds():
    begin = time.perf_counter()
    found = search(C, NODE, gpus=2048, batch=2048, sequence=4096)
    assert time.perf_counter() - begin < 5
    assert found.tried > 5000
    steps = [row["step_us"] for row in found.rows(500)]
    assert steps == sorted(steps)
    assert all(row["memory_bytes"] <= 0.9 * 80e9 for row in found.rows(500))
    assert len(found.to_frame()) == found.fitting


def test_every_layout_uses_all_gpus_and_the_whole_batch():
    x = all_layouts(known_model("mixtral-8x7b"), gpus=96, batch=384, sequence=4096)
    assert len(x) > 1000
    assert set(x.gpus.tolist()) == {96}
    assert set((x.dp * x.micro_batch * x.micro_batches).tolist()) == {384}
    assert (x.dp % x.ep == 0).all()
    assert (8 % x.ep == 0).all()
    columns = [getattr(x, name) for name in x.__slots__]
    assert len(np.unique(np.stack(columns), axis=1).T) == len(x)


def test_memory_of_one_gpu_is_the_closed_form():
    """A GPU alone: 16 bytes a parameter, 80 layers, and the logits of one sample."""
    found = one(batch=64, micro_batch=1)
    m = found.memory
    count = parameters(C).total
    assert (m.weights[0], m.gradients[0], m.optimizer[0]) == (2 * count, 2 * count, 12 * count)
    assert not found.rows()[0]["fits"]
    assert found.rows()[0]["binds"] == "memory"


def test_zero_and_tensor_parallelism_divide_what_they_shard():
    alone, sharded, tensor = one().memory, one(dp=8, zero=3).memory, one(tp=8).memory
    assert sharded.weights[0] == pytest.approx(alone.weights[0] / 8)
    assert sharded.optimizer[0] == pytest.approx(alone.optimizer[0] / 8)
    assert one(dp=8, zero=1).memory.weights[0] == alone.weights[0]
    # Norms are held by every rank: 161 of 8192 values.
    norms = 161 * 8192
    assert tensor.weights[0] == pytest.approx(2 * ((parameters(C).total - norms) / 8 + norms))


def test_compute_time_is_the_flops_over_the_peak():
    """3 × forward with selective recomputation's attention again, over 1e15 FLOP/s."""
    found = one()
    f = token_flops(C)
    executed = (training_flops(C, 1) + 80 * f.layer_attention) * 4096 * 64
    assert found.time.compute[0] == pytest.approx(executed / 1e15 * 1e6)
    assert found.time.step[0] == pytest.approx(found.time.compute[0])
    assert found.time.mfu[0] == pytest.approx(training_flops(C, 4096 * 64) / executed)


def test_tensor_parallel_communication_is_four_ring_all_reduces():
    """80 layers × 4 × 2·7/8 × 2·4096·8192 bytes a sample, at 400 GB/s in the node."""
    t = one(tp=8).time
    sent = 64 * 80 * 4 * 2 * 7 / 8 * 2 * 4096 * 8192
    assert t.tensor_bytes[0] == pytest.approx(sent)
    assert t.tensor[0] == pytest.approx(sent / 400e9 * 1e6)
    # Over two nodes it goes at the network's 50 GB/s.
    wide = one(tp=16).time
    assert wide.tensor[0] == pytest.approx(wide.tensor_bytes[0] / 50e9 * 1e6)


def test_the_bubble_is_that_of_the_formula():
    """(p - 1)/(v·m) of the micro-batches' time."""
    for chunks in (1, 2):
        t = one(pp=8, interleave=chunks).time
        work = t.compute[0] + t.pipeline[0]
        assert t.bubble[0] == pytest.approx(work * 7 / (chunks * 64))


def test_gradients_are_hidden_until_they_take_longer_than_the_last_backward():
    """ZeRO-0 over 8: 2·7/8 × 2 bytes × 70e9; hidden behind two thirds of a micro-batch."""
    t = one(dp=8, batch=64).time
    sent = 2 * 7 / 8 * 2 * parameters(C).total
    assert t.data_bytes[0] == pytest.approx(sent)
    beside = t.micro_compute[0] * 2 / 3
    assert t.data[0] == pytest.approx(max(sent / 400e9 * 1e6 - beside, 0))


def test_parts_add_up_and_the_explanation_says_the_same():
    found = search(C, NODE, gpus=64, batch=512, sequence=4096)
    row = found.rows(1)[0]
    steps = {s.title: {t.name: t.value for t in s.terms} for s in explain(found, 1)}
    memory = steps["1. The model fits in memory"]
    kinds = ("weights", "gradients", "optimizer state", "activations", "working space")
    assert sum(memory[k] for k in kinds) == pytest.approx(memory["in all"])
    assert memory["in all"] == row["memory_bytes"]
    assert steps["2. The batch is reached"]["tokens an update"] == 512 * 4096
    throughput = steps["3. Throughput"]
    assert throughput["step"] == pytest.approx(row["step_us"])
    assert throughput["tokens/s"] == pytest.approx(512 * 4096 / row["step_us"] * 1e6)
    assert all(t.source and t.formula for s in explain(found, 1) for t in s.terms)
    with pytest.raises(EstimateError, match="there is no configuration"):
        explain(found, 10**9)


def test_communication_is_timed_by_its_link():
    """DP 16 over two nodes: the network's 50 GB/s by 8 members a node; TP 8 within it at 400.

    With TP 8 a node has one member of each ring: 2·15/16·2 bytes of an eighth at 50 GB/s.
    """
    found = one(dp=16, zero=1)
    terms = {t.name: t for t in explain(found, 1)[3].terms}
    sent = 2 * 15 / 16 * 2 * parameters(C).total
    assert terms["gradients and ZeRO"].value == pytest.approx(sent / 400e9 * 1e6)
    both = one(tp=8, dp=16)
    terms = {t.name: t for t in explain(both, 1)[3].terms}
    tensor, data = terms["tensor-parallel"], terms["gradients and ZeRO"]
    assert "in the node" in tensor.formula
    assert "50 GB/s between nodes" in data.formula
    held = (parameters(C).total - 161 * 8192) / 8 + 161 * 8192
    assert data.value == pytest.approx(2 * 15 / 16 * 2 * held / 50e9 * 1e6)
    ratio = both.time.compute[0] / (tensor.value + data.value)
    assert terms["compute / communication"].value == pytest.approx(ratio)


def test_an_unknown_gpu_has_no_share_of_peak():
    on = cluster("Acme X1", builtin_peaks(), memory_bytes=80e9)
    assert any("declare it" in note for note in on.notes)
    found = search(C, on, gpus=64, batch=64)
    assert found.fitting
    row = found.rows(1)[0]
    assert row["step_us"] is None
    assert row["mfu"] is None
    assert "no dense peak" in found.reason
    assert explain(found, 1)[2].terms[0].value is None
    with pytest.raises(EstimateError, match="--gpu-memory"):
        search(C, cluster("Acme X1", builtin_peaks()), gpus=8, batch=8)


def test_a_link_that_is_not_known_costs_only_the_layouts_that_need_it():
    on = Cluster("toy", 1e15, 80e9, 400e9, None)
    inside = search(C, on, gpus=8, batch=64, sequence=4096, recompute=("full",))
    assert inside.reason == ""
    across = search(C, on, gpus=64, batch=64, sequence=4096)
    assert "--network" in across.reason


def test_a_gpu_by_a_part_of_its_name():
    assert cluster("4090", builtin_peaks()).memory_bytes == 24e9
    # 900 GB/s of both ways are 450 one way.
    assert cluster("NVIDIA H100 80GB HBM3", builtin_peaks()).intra_bytes_s == 450e9
    with pytest.raises(EstimateError, match="say which"):
        cluster("H100", builtin_peaks())


def test_rules_by_size():
    def text(name, gpus, sequence=4096):
        return " ".join(r.text for r in rules_for(known_model(name), gpus, sequence))

    assert "one technique" in text("llama-3-8b", 8)
    assert "TP=8 with PP" in text("llama-2-70b", 64)
    assert "512" in text("llama-2-70b", 512)
    assert "1,024" in text("llama-2-70b", 1024)
    assert "ZeRO-2" in text("llama-2-70b", 1024)
    assert "context" in text("llama-2-70b", 64, 131072)
    assert "expert" in text("mixtral-8x7b", 64)
    assert "full recomputation" in text("llama-3-8b", 8)


def test_a_heat_map_has_a_row_a_model_and_a_column_a_number_of_nodes():
    found = {
        (name, nodes): search(known_model(name), NODE, gpus=8 * nodes, batch=64, sequence=4096)
        for name in ("llama-3-8b", "llama-2-70b")
        for nodes in (1, 8)
    }
    shown = heat_map(found)
    assert shown["models"] == ["llama-3-8b", "llama-2-70b"]
    assert shown["nodes"] == [1, 8]
    # 16 bytes × 69e9 / 8 = 138 GB a GPU, whatever the layout: one node does not hold it.
    assert shown["fits"] == [[True, True], [False, True]]
    assert shown["mfu"][1][0] is None


@pytest.mark.parametrize(
    ("ways", "words"),
    [
        ({"tp": 3}, "does not divide so"),
        ({"pp": 81}, "does not divide so"),
        ({"dp": 7}, "replicas"),
        ({"tp": 0}, "1 or more"),
        ({"zero": 4}, "stages 0 to 3"),
        ({"recompute": "some"}, "unknown"),
        ({"pp": 8, "interleave": 3}, "does not divide so"),
    ],
)
def test_a_layout_that_cannot_run_is_refused(ways, words):
    with pytest.raises(EstimateError, match=words):
        one(**ways)
