"""Two workloads in turn: what a block cancels, and what of it is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuperf_analyzers import analyze, read_trace
from pytest_gpuperf.recording import Options, RecordingError, record
from pytest_gpuperf.recording.coordination import SOLO
from pytest_gpuperf.recording.paired import Beside, PairedSampling, refuse_timer
from pytest_gpuperf.recording.regions import RegionLog
from pytest_gpuperf.recording.sampling import Workload

torch = pytest.importorskip("torch")


class Clock:
    """A clock that calls move; each stretch between two marks takes longer than the one before."""

    name = "wall"
    batch_us = 1.0
    primed = False

    def __init__(self, drift: float) -> None:
        self.now, self.marks, self.drift = 0.0, 0, drift

    def mark(self) -> float:
        self.marks += 1
        return self.now

    def elapsed_us(self, start: float, end: float) -> float:
        return end - start

    def synchronize(self) -> None:
        return

    def takes(self, us: float) -> Callable[[], None]:
        def call() -> None:
            # Two marks a stretch.
            self.now += us + self.drift * (self.marks // 2)

        return call


def sampled(drift: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    clock = Clock(drift)
    options = Options(min_samples=8, max_samples=8)
    sampling = PairedSampling(Workload(clock.takes(100.0)), clock, options, SOLO, RegionLog(clock))
    sampling.pair(Workload(clock.takes(300.0)), 1, None)
    samples = sampling.run(100.0)
    return samples.us, samples.beside_us


def test_without_drift_each_side_is_its_own_time() -> None:
    assert sampled(0.0) == ((100.0,) * 8, (300.0,) * 8)


def test_a_linear_drift_falls_on_both_sides_alike() -> None:
    us, beside = sampled(1.0)
    # In a block the stretches are i, i+1, i+2, i+3: A B B A. Both means are those of i + 1.5.
    extra = [a - 100.0 for a in us]
    assert [b - 300.0 for b in beside] == pytest.approx(extra)
    assert extra[0] < extra[-1]


def test_the_limits_are_asked_with_both_sides() -> None:
    asked = []

    def decided(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
        asked.append((a, b))
        return True

    clock = Clock(0.0)
    options = Options(min_samples=6, max_samples=64)
    sampling = PairedSampling(Workload(clock.takes(1.0)), clock, options, SOLO, RegionLog(clock))
    sampling.pair(Workload(clock.takes(2.0)), 1, decided)
    samples = sampling.run(1.0)
    assert samples.stop == "interval"
    assert asked[-1] == (samples.us, samples.beside_us)
    assert len(samples.us) == len(samples.beside_us) >= 6


def test_a_clock_that_cannot_go_to_and_fro_is_refused() -> None:
    clock = Clock(0.0)
    clock.name = "graph"
    with pytest.raises(RecordingError, match="timer='graph' times one workload alone"):
        refuse_timer(clock)


def test_the_trace_carries_both_sides(tmp_path: Path) -> None:
    a = torch.randn(64, 64)
    beside = Beside(Workload(lambda: (a @ a) @ a))
    path = tmp_path / "pair.pt.trace.json"
    options = Options(warmup_s=0.001, max_time_s=0.03, measure_peak=False)
    recorded = record(
        lambda: a @ a, device=torch.device("cpu"), trace_path=path, options=options, beside=beside
    )
    written = json.loads(path.read_text())["gpuperf"]
    assert written["beside_us"] == list(recorded.block.beside_us)
    # Read back, the trace gives the ratio that the run did.
    pairs = zip(written["samples_us"], written["beside_us"], strict=True)
    ratios = sorted(slow / fast for fast, slow in pairs)
    value = analyze(read_trace(path)).values["speedup"].value
    assert ratios[0] <= value <= ratios[-1]
    assert torch.equal(beside.value, (a @ a) @ a)
