"""Gradient buckets and why they stay exposed, against hand-drawn backward passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers import ddp_buckets, load_config, read_trace
from gpuperf_analyzers.ddp_buckets import Bucket, BucketsResult
from gpuperf_analyzers.trace.classify import devices
from kineto import KinetoTrace

ENGINE = 200
HOOK = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


def analyzed(path: Path) -> BucketsResult:
    trace = read_trace(path)
    return ddp_buckets.analyze(trace, load_config(), devices(trace)[0])


def gradient(t: KinetoTrace, at: float, runs: tuple[float, float]) -> None:
    t.op("autograd::engine::evaluate_function: AddmmBackward0", at=at, dur=2, tid=ENGINE)
    t.launch("gemm", at=at + 1, runs=runs, tid=ENGINE, call_dur=0.5)


def bucket(t: KinetoTrace, at: float, runs: tuple[float, float], elements: int = 1000) -> None:
    t.op(HOOK, at=at, dur=3, tid=ENGINE)
    t.op(
        "c10d::allreduce_", at=at + 0.5, dur=2, tid=ENGINE,
        dims=[[[elements]]], dtypes=["TensorList"],
    )  # fmt: skip
    t.op(
        "record_param_comms", at=at + 0.6, dur=1.8, tid=ENGINE,
        dims=[[elements]], dtypes=["float"],
        **{"Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements,
           "dtype": "Float", "Group size": 2},
    )  # fmt: skip
    t.launch(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL", at=at + 1, runs=runs, stream=9, tid=ENGINE,
        call_dur=0.5,
    )  # fmt: skip


def test_the_buckets_of_a_backward_pass_are_numbered_and_each_says_why(tmp_path: Path) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=400):
        t.op("aten::linear", at=5, dur=10)
        t.launch("gemm", at=6, runs=(10, 20))
        gradient(t, at=30, runs=(40, 60))
        bucket(t, at=35, runs=(62, 72))  # beside the next gradient: hidden
        gradient(t, at=40, runs=(60, 100))
        bucket(t, at=45, runs=(100, 170))  # 60 µs of compute are left, it takes 70
        gradient(t, at=50, runs=(110, 170))
        bucket(t, at=55, runs=(170, 190))  # nothing is left
    result = analyzed(t.write(tmp_path / "t.json"))
    assert result.buckets == (
        # Ready at 60, when its gradient's kernel ends; 100 µs of backward compute still to run.
        Bucket("ProfilerStep#1", 0, 4000, 60.0, 2.0, 10.0, 0.0, 100.0, "hidden"),
        Bucket("ProfilerStep#1", 1, 4000, 100.0, 0.0, 70.0, 10.0, 60.0, "outlasted"),
        Bucket("ProfilerStep#1", 2, 4000, 170.0, 0.0, 20.0, 20.0, 0.0, "ready last"),
    )
    assert result.to_frame()["cause"].tolist() == ["hidden", "outlasted", "ready last"]
    assert list(result.metrics()) == []


def test_a_bucket_that_waited_behind_another_collective_was_queued(tmp_path: Path) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=400):
        gradient(t, at=10, runs=(20, 30))
        bucket(t, at=15, runs=(30, 130))
        gradient(t, at=20, runs=(30, 40))
        bucket(t, at=25, runs=(130, 150))
        gradient(t, at=30, runs=(40, 100))
    _, second = analyzed(t.write(tmp_path / "t.json")).buckets
    assert (second.ready_us, second.queued_us, second.left_us) == (40.0, 90.0, 60.0)
    assert (second.exposed_us, second.cause) == (20.0, "queued")


def test_a_bucket_beside_which_the_host_launched_nothing_was_starved(tmp_path: Path) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=400):
        gradient(t, at=10, runs=(20, 30))
        bucket(t, at=15, runs=(30, 60))
        gradient(t, at=100, runs=(110, 200))
    (only,) = analyzed(t.write(tmp_path / "t.json")).buckets
    assert (only.left_us, only.exposed_us, only.cause) == (90.0, 30.0, "starved")


def test_compute_of_the_next_step_hides_nothing_of_this_one(tmp_path: Path) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=100):
        gradient(t, at=10, runs=(20, 30))
        bucket(t, at=15, runs=(30, 60))
    with t.step(2, at=100, dur=100):
        gradient(t, at=110, runs=(120, 200))
        bucket(t, at=115, runs=(200, 210))
    first, second = analyzed(t.write(tmp_path / "t.json")).buckets
    assert [(b.step, b.index) for b in (first, second)] == [
        ("ProfilerStep#1", 0),
        ("ProfilerStep#2", 0),
    ]
    assert first.cause == second.cause == "ready last"


def test_collectives_of_no_gradient_hook_are_no_buckets(tmp_path: Path) -> None:
    t = KinetoTrace()
    t.op("c10d::allreduce_", at=0, dur=5)
    t.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at=1, runs=(10, 20), stream=9)
    assert analyzed(t.write(tmp_path / "t.json")).buckets == ()


def test_every_step_of_a_real_ddp_run_has_its_five_buckets_and_the_last_is_ready_last(
    shared_traces: Path,
) -> None:
    result = analyzed(shared_traces / "hta-nccl-parser-config/nccl_data.json.gz")
    assert [b.index for b in result.buckets] == [0, 1, 2, 3, 4] * 3
    # The first bucket of a ResNet-50: its head, 2048 x 1000 weights and 1000 biases, in float32.
    assert {b.bytes for b in result.buckets if b.index == 0} == {4 * (2048 * 1000 + 1000)}
    # All buckets together are the 25,557,032 parameters of ResNet-50.
    assert sum(b.bytes or 0 for b in result.buckets[:5]) == 4 * 25_557_032
    assert {b.cause for b in result.buckets if b.index == 4} == {"ready last"}
    assert {b.cause for b in result.buckets if b.index < 4} == {"starved"}


@pytest.mark.parametrize("rank", range(4))
def test_gloo_spans_are_matched_to_their_dispatches_in_order(
    rank: int, shared_traces: Path
) -> None:
    file = f"local-torch214-cpu/ddp_gloo_4ranks/rank{rank}.pt.trace.json"
    buckets = analyzed(shared_traces / file).buckets
    assert [(b.index, b.bytes) for b in buckets] == [(0, 66_304), (0, 66_304)]
    assert all(b.queued_us > 0 for b in buckets)


def test_gloo_spans_that_do_not_match_their_dispatches_are_no_buckets(tmp_path: Path) -> None:
    t = KinetoTrace(device_name=None)
    t.op(HOOK, at=0, dur=20)
    t.op("c10d::allreduce_", at=5, dur=5)
    t.op("gloo:broadcast", at=30, dur=10, tid=300)
    assert analyzed(t.write(tmp_path / "t.json")).buckets == ()
