"""Slow steps: the ones made slow are the ones found, and in what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.outliers import OutliersResult, analyze, slow_steps
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.thresholds import Thresholds
from gpuperf_analyzers.trace.parts import Part, PartTimes
from gpuperf_analyzers.trace.reader import read_trace
from kineto import KinetoTrace


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def steps(*compute_us: int, loading: dict[int, int] | None = None) -> KinetoTrace:
    """Steps of compute and 20 µs of waiting for data before each; `loading` has other waits."""
    t = KinetoTrace()
    at = 0
    for i, length in enumerate(compute_us):
        wait = (loading or {}).get(i, 20)
        with t.step(i, at=at, dur=length + wait):
            t.launch("gemm", at=at, runs=(at, at + length), call_dur=1)
            t.event("enumerate(DataLoader)#_Iter.__next__", "user_annotation", at + length, wait)
        at += length + wait
    return t


def analyzed(t: KinetoTrace, tmp_path: Path, config: Config) -> OutliersResult:
    return analyze(read_trace(t.write(tmp_path / "t.json")), config, 0)


def values(found: OutliersResult) -> dict[str, tuple[float | None, str]]:
    return {v.name: (v.value, v.at) for v in found.metrics()}


def test_the_step_made_slow_is_found_with_its_excess_and_its_part(
    tmp_path: Path, config: Config
) -> None:
    found = analyzed(steps(100, 102, 101, 160, 100, 101), tmp_path, config)
    (slow,) = found.slow
    assert (slow.name, slow.part) == ("ProfilerStep#3", Part.COMPUTE)
    assert slow.step_time_us == 180
    assert slow.excess_us == 180 - 121  # the median of 120, 122, 121, 180, 120, 121
    assert slow.part_us == 160 - 101
    assert values(found) == {
        "slow_steps": (1.0, "ProfilerStep#3"),
        "slowest_step": (180 / 121 - 1, "ProfilerStep#3"),
    }


def test_a_step_that_waits_for_data_is_slow_in_data_loading(tmp_path: Path, config: Config) -> None:
    found = analyzed(steps(100, 100, 100, 100, 100, loading={2: 90}), tmp_path, config)
    (slow,) = found.slow
    assert (slow.name, slow.part, slow.part_us) == ("ProfilerStep#2", Part.DATA, 70.0)


def test_two_slow_steps_do_not_hide_each_other(tmp_path: Path, config: Config) -> None:
    found = analyzed(steps(100, 300, 101, 99, 200, 100, 100), tmp_path, config)
    assert [s.name for s in found.slow] == ["ProfilerStep#1", "ProfilerStep#4"]


def test_steps_that_are_alike_have_no_slow_one(tmp_path: Path, config: Config) -> None:
    found = analyzed(steps(100, 104, 97, 101, 99, 110), tmp_path, config)
    assert found.slow == ()
    assert values(found)["slow_steps"] == (0.0, "")


def test_two_steps_are_too_few_to_tell_and_none_is_said_so(tmp_path: Path, config: Config) -> None:
    two = {v.name: v.absent_reason for v in analyzed(steps(100, 300), tmp_path, config).metrics()}
    assert two["slow_steps"] == two["slowest_step"] == "2 steps are too few to tell"
    t = KinetoTrace()
    t.launch("gemm", 0, (1, 5))
    none = {v.name: v.absent_reason for v in analyzed(t, tmp_path, config).metrics()}
    assert "no ProfilerStep" in str(none["slow_steps"])


def test_the_threshold_decides_and_can_be_changed(tmp_path: Path, config: Config) -> None:
    t = steps(100, 100, 113, 100, 100)
    assert analyzed(t, tmp_path, config).slow == ()
    strict = replace(config, thresholds=Thresholds(slow_step=0.10))
    assert [s.name for s in analyzed(t, tmp_path, strict).slow] == ["ProfilerStep#2"]


def _parts(*compute: int) -> list[PartTimes]:
    nothing = dict.fromkeys(Part, 0)
    return [
        PartTimes(f"ProfilerStep#{i}", 0, ns, {**nothing, Part.COMPUTE: ns})
        for i, ns in enumerate(compute)
    ]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(8, 60), st.integers(0, 3))
def test_injected_slow_steps_are_the_ones_found(seed: int, count: int, slow: int) -> None:
    # Steps within 3% of each other; the slow ones are 1.5 to 4 times as long.
    rng = np.random.default_rng(seed)
    ns = rng.uniform(0.97e6, 1.03e6, count)
    injected = rng.choice(count, slow, replace=False)
    ns[injected] *= rng.uniform(1.5, 4, slow)
    found = slow_steps(_parts(*ns.astype(int).tolist()), Thresholds())
    assert {s.index for s in found} == set(injected.tolist())


def test_the_slow_step_of_a_real_trace_is_the_one_that_plain_arithmetic_names(
    shared_traces: Path, config: Config
) -> None:
    # 211.6, 219.5, 426.5, 209.4 and 217.9 ms: the third, and communication took 205 ms longer.
    name = "hta-cpu-only/full.rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz"
    found = analyze(read_trace(shared_traces / name), config, "cpu")
    (slow,) = found.slow
    assert (slow.index, slow.part) == (2, Part.COMMUNICATION)
    assert slow.excess == pytest.approx(426.5 / 217.9 - 1, abs=0.01)
