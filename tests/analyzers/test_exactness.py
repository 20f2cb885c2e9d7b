"""Which counts are exact: three identical steps of every device and rank, and what else is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers.analysis import analyze
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.exactness import Count, counts
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.set_analysis import analyze_set
from gpuperf_analyzers.trace import read_trace, read_traces
from kineto import KinetoTrace


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def _trace(launches: tuple[int, ...], *, rank: int | None = None) -> KinetoTrace:
    """A step of 100 µs with so many launches, and as many allocations of 512 bytes."""
    t = KinetoTrace(rank=rank, world_size=None if rank is None else 2)
    held = 0
    for i, count in enumerate(launches):
        with t.step(i + 1, at=100 * i, dur=100):
            for k in range(count):
                at = 100 * i + 5 + 8 * k
                t.op("aten::relu", at, 6, dims=[[8]], dtypes=["float"])
                t.launch("relu_kernel", at + 1, (at + 4, at + 7))
                held += 512
                t.memory(at + 1, 512, held, address=held, device_type=1, device=0)
            for _ in range(count):
                t.memory(100 * i + 90, -512, held - 512, address=held, device_type=1, device=0)
                held -= 512
    return t


def _counts(trace: KinetoTrace, folder: Path, config: Config) -> dict[str, Count]:
    return counts(analyze(read_trace(trace.write(folder / "t.json")), config))


def test_three_steps_alike_make_a_count_exact(tmp_path: Path, config: Config) -> None:
    found = _counts(_trace((3, 3, 3)), tmp_path, config)
    launches, allocations = found["kernel_launches"], found["allocations"]
    assert (launches.value, launches.exact, launches.repeats) == (3, True, 3)
    assert (allocations.value, allocations.exact) == (3, True)
    peak = found["peak_memory_growth"]
    assert (peak.value, peak.exact) == (3 * 512, True)


def test_one_step_that_differs_makes_it_vary_and_says_how(tmp_path: Path, config: Config) -> None:
    launches = _counts(_trace((3, 5, 3)), tmp_path, config)["kernel_launches"]
    assert not launches.exact
    assert (launches.low, launches.high) == (3, 5)
    assert launches.reason == "it varies between steps (3, 5, 3)"


@pytest.mark.parametrize(("steps", "said"), [((3,), "1 step was"), ((3, 3), "2 steps were")])
def test_fewer_than_three_steps_prove_nothing(
    tmp_path: Path, config: Config, steps: tuple[int, ...], said: str
) -> None:
    launches = _counts(_trace(steps), tmp_path, config)["kernel_launches"]
    assert not launches.exact
    assert said in launches.reason
    assert (launches.low, launches.high) == (3, 3)


def test_each_rank_must_repeat_itself_not_the_others(tmp_path: Path, config: Config) -> None:
    for rank, steps in enumerate([(3, 3, 3), (4, 4, 4)]):
        _trace(steps, rank=rank).write(tmp_path / f"rank{rank}.json")
    traces = read_traces([tmp_path / "rank0.json", tmp_path / "rank1.json"])
    launches = counts(analyze_set(traces, config))["kernel_launches"]
    assert (launches.value, launches.exact) == (4, True)  # the worst rank's
    _trace((3, 4, 3), rank=0).write(tmp_path / "rank0.json")
    traces = read_traces([tmp_path / "rank0.json", tmp_path / "rank1.json"])
    assert not counts(analyze_set(traces, config))["kernel_launches"].exact


def test_what_is_invalid_is_no_count(tmp_path: Path, config: Config) -> None:
    analysis = analyze(read_trace(_trace((3, 3, 3)).write(tmp_path / "t.json")), config)
    from dataclasses import replace

    lost = replace(analysis, invalid={"kernel_launches": "events were lost"})
    assert "kernel_launches" not in counts(lost)


def test_allocations_of_a_step_are_those_that_begin_in_it(tmp_path: Path, config: Config) -> None:
    analysis = analyze(read_trace(_trace((1, 4, 2)).write(tmp_path / "t.json")), config)
    assert analysis.values["allocations"].samples == (1, 4, 2)
    memory = analysis.devices[0].results["memory"]
    assert memory.step_peaks == (512, 4 * 512, 2 * 512)
