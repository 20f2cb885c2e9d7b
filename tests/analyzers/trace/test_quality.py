"""Each finding about a trace's trustworthiness, on a trace that has it, and not on a clean one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.trace.model import Finding
from gpuperf_analyzers.trace.quality import assess
from gpuperf_analyzers.trace.reader import read_trace
from kineto import MAIN, KinetoTrace


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def _clean() -> KinetoTrace:
    """Two steps of 100 µs, two kernels each; a session around them."""
    t = KinetoTrace()
    t.event("PyTorch Profiler (0)", "Trace", -10, 400, pid="Spans", tid="PyTorch Profiler")
    for n in range(2):
        at = 100 * n
        with t.step(n, at=at, dur=100):
            t.op("aten::mm", at=at + 5, dur=50)
            t.launch("gemm", at=at + 10, runs=(at + 20, at + 40))
            t.launch("relu", at=at + 15, runs=(at + 40, at + 60))
    return t


def _findings(t: KinetoTrace, tmp_path: Path, config: Config) -> dict[str, Finding]:
    found = assess(read_trace(t.write(tmp_path / "t.json")), config)
    assert len({f.code for f in found}) == len(found)
    return {f.code: f for f in found}


def test_a_clean_trace_has_no_findings(tmp_path: Path, config: Config) -> None:
    assert _findings(_clean(), tmp_path, config) == {}


def _without_launch(t: KinetoTrace) -> None:
    t.launch("orphan", at=150, runs=(170, 175), recorded=False)


def _lost_kernel(t: KinetoTrace) -> None:
    t.runtime("cudaLaunchKernel", at=160, dur=2)


def _early(t: KinetoTrace) -> None:
    t.launch("early", at=175, runs=(172, 174))


def _empty_step(t: KinetoTrace) -> None:
    t.event("ProfilerStep#2", "user_annotation", 200, 100)


def _overrun(t: KinetoTrace) -> None:
    t.launch("pdl", at=70, runs=(80, 90))
    t.launch("pdl", at=71, runs=(88, 95))


def _outside(t: KinetoTrace) -> None:
    t.launch("late", at=180, runs=(5000, 5001))


def _lost_buffer(t: KinetoTrace) -> None:
    t.metadata["WARNING"] = ["CuptiActivityApi.cpp:376] Dropped 512 records"]


def _stopped_early(t: KinetoTrace) -> None:
    t.metadata["INFO"] = ["Record counts: CUPTI stopped early? = 1"]


def _two_devices(t: KinetoTrace) -> None:
    t.launch("other", at=170, runs=(171, 180), device=1)


def _two_processes(t: KinetoTrace) -> None:
    t.event("aten::add", "cpu_op", 20, 5, pid=MAIN + 1)


def _stack(t: KinetoTrace) -> None:
    t.event("train.py(3): step", "python_function", 1, 90)


def _overlapping(t: KinetoTrace) -> None:
    t.event("ProfilerStep#2", "user_annotation", 150, 100)
    t.launch("gemm", at=210, runs=(220, 230))


def _unfinished(t: KinetoTrace) -> None:
    t.event("never closed", "user_annotation", 10, 20, finished=False)


def _no_dur(t: KinetoTrace) -> None:
    t.event("aten::add", "cpu_op", 20, None)


def _negative_dur(t: KinetoTrace) -> None:
    t.event("aten::add", "cpu_op", 20, -3)


def _no_time(t: KinetoTrace) -> None:
    del t.event("aten::add", "cpu_op", 20, 3)["ts"]


def _half_a_pair(t: KinetoTrace) -> None:
    t.event("open", "cpu_op", 20, None, ph="B")


def _huge_allocation(t: KinetoTrace) -> None:
    t.memory(20, 2**60, 2**60)


CASES: list[tuple[Callable[[KinetoTrace], None], str, int, str, str]] = [
    # made by, code, count, example, one of the metrics that become invalid ("" where none)
    (_without_launch, "kernel-without-launch", 1, "orphan", ""),
    (_lost_kernel, "launch-without-kernel", 1, "cudaLaunchKernel, correlation 5", "overlap"),
    (_early, "started-before-launch", 1, "early", "idle_host_bound"),
    (_empty_step, "step-without-gpu-events", 1, "ProfilerStep#2", "step_time"),
    (_overrun, "stream-overrun", 1, "pdl", ""),
    (_outside, "outside-session", 1, "late", "idle"),
    (_lost_buffer, "buffer-loss", 1, "CuptiActivityApi.cpp:376] Dropped 512 records", "busy"),
    (_stopped_early, "buffer-loss", 1, "Record counts: CUPTI stopped early? = 1", "busy"),
    (_two_devices, "several-devices", 2, "device 0, device 1", ""),
    (_two_processes, "several-processes", 2, "pid 100 and pid 101", "idle_host_bound"),
    (_stack, "stack-recording", 1, "train.py(3): step", "step_time"),
    (_overlapping, "overlapping-steps", 1, "ProfilerStep#1", ""),
    (_unfinished, "unfinished-annotation", 1, "never closed", ""),
    (_no_dur, "missing-dur", 1, "", ""),
    (_negative_dur, "bad-duration", 1, "", "overlap"),
    (_no_time, "bad-time", 1, "aten::add", "overlap"),
    (_huge_allocation, "bad-size", 1, "", "peak_memory"),
    (_half_a_pair, "unmatched-begin-end", 1, "", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("damage", "code", "count", "example", "invalid"),
    CASES,
    ids=[f"{c[1]}: {c[0].__name__[1:]}" for c in CASES],
)
def test_each_finding_is_seen_on_a_trace_that_has_it(
    damage: Callable[[KinetoTrace], None],
    code: str,
    count: int,
    example: str,
    invalid: str,
    tmp_path: Path,
    config: Config,
) -> None:
    t = _clean()
    damage(t)
    found = _findings(t, tmp_path, config)
    assert code in found, sorted(found)
    finding = found[code]
    assert (finding.count, finding.example) == (count, example)
    if invalid:
        assert invalid in finding.invalidates
    else:
        assert finding.invalidates == frozenset()
    assert finding.invalidates <= set(config.metrics)
    assert "\n" not in finding.message


def test_launches_recorded_into_a_graph_are_not_lost_kernels(
    tmp_path: Path, config: Config
) -> None:
    t = _clean()
    t.runtime("cudaStreamBeginCapture", at=160, dur=1)
    t.runtime("cudaLaunchKernel", at=162, dur=1)
    t.runtime("cudaStreamEndCapture", at=164, dur=1)
    assert "launch-without-kernel" not in _findings(t, tmp_path, config)
    t.runtime("cudaLaunchKernel", at=166, dur=1)
    assert _findings(t, tmp_path, config)["launch-without-kernel"].count == 1


def test_kernels_without_any_launch_record_leave_the_causes_of_idle_unknown(
    tmp_path: Path, config: Config
) -> None:
    t = KinetoTrace()
    for i in range(3):
        t.launch("gemm", at=0, runs=(10 * i, 10 * i + 5), recorded=False)
    finding = _findings(t, tmp_path, config)["kernel-without-launch"]
    assert finding.count == 3
    assert finding.invalidates == {"idle_host_bound", "idle_launch_latency", "idle_dependency"}


def test_a_live_trace_keeps_what_was_sampled_with_the_profiler_off(
    tmp_path: Path, config: Config
) -> None:
    t = _clean()
    _stack(t)
    t.metadata["gpuperf"] = {"schema": 1}
    finding = _findings(t, tmp_path, config)["stack-recording"]
    assert "step_time" not in finding.invalidates
    assert "idle" in finding.invalidates


def test_a_truncated_trace_invalidates_what_is_counted_from_events(
    tmp_path: Path, config: Config
) -> None:
    path = _clean().write(tmp_path / "t.json")
    path.write_bytes(path.read_bytes()[:-40])
    found = {f.code: f for f in assess(read_trace(path), config)}
    assert {"overlap", "idle", "kernel_launches"} <= found["truncated"].invalidates
    assert "gpu_util" not in found["truncated"].invalidates
