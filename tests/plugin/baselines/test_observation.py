"""What one run leaves: finite numbers, an op table whose means are exact, nothing that breaks."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from gpuperf_analyzers.analysis import Analysis, analyze
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.diff import OpTable, diff, op_table
from gpuperf_analyzers.limits import parse_limits
from gpuperf_analyzers.live_block import LiveBlock
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.trace import read_trace
from gpuperf_analyzers.trace.model import Trace
from kineto import KinetoTrace
from pytest_gpuperf.baselines.observation import (
    MOST_SAMPLES,
    Observation,
    best_tenth,
    observation_of,
)
from pytest_gpuperf.baselines.op_tables import packed, unpacked
from pytest_gpuperf.session.baseline import Observed


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def _trace(folder: Path) -> Trace:
    t = KinetoTrace()
    for i, kernel in enumerate((30, 31, 35)):
        at = 100.0 * i
        with t.step(i + 1, at=at, dur=100):
            t.op("aten::mm", at + 2, 4, dims=[[8, 4], [4, 2]], dtypes=["float", "float"])
            t.launch("gemm", at + 3, (at + 20, at + 20 + kernel))
    return read_trace(t.write(folder / "t.json"))


def _observed(folder: Path, config: Config, block: LiveBlock, **values: Value) -> Observed:
    trace = _trace(folder)
    analysis: Analysis = analyze(trace, config)
    analysis = replace(analysis, values={**analysis.values, **values})
    limits = parse_limits({"max_regression": {"overlap": "3%"}}, config.metrics)
    return Observed("a.py::test", "", analysis, (block,), (trace,), config, limits)


def test_what_travels_comes_back(tmp_path: Path, config: Config) -> None:
    value = Value("step_time", 2.0, samples=(1.0, 2.0, 3.0))
    seen = observation_of(
        _observed(tmp_path, config, LiveBlock(samples_us=(1, 2, 3)), step_time=value)
    )
    again = Observation.from_json(json.loads(json.dumps(seen.to_json())))
    assert again == seen
    assert again.sampled["step_time"] == (2.0, 1.0, 3)
    assert again.counts["kernel_launches"] == (1.0, 1.0, "")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_finite_number_is_not_kept(tmp_path: Path, config: Config, value: float) -> None:
    time = Value("step_time", value, samples=(value, 1.0))
    block = LiveBlock(samples_us=(1.0, value))
    seen = observation_of(_observed(tmp_path, config, block, step_time=time))
    assert "step_time" not in seen.sampled
    assert seen.samples_us == (1.0,)
    json.dumps(seen.to_json(), allow_nan=False)


def test_no_samples_leave_no_time_and_one_leaves_one(tmp_path: Path, config: Config) -> None:
    none = absent("step_time", "no samples were timed")
    seen = observation_of(_observed(tmp_path, config, LiveBlock(), step_time=none))
    assert "step_time" not in seen.sampled
    one = Value("step_time", 5.0, samples=(5.0,))
    seen = observation_of(_observed(tmp_path, config, LiveBlock(samples_us=(5.0,)), step_time=one))
    assert seen.sampled["step_time"] == (5.0, 5.0, 1)


def test_many_samples_are_thinned_in_their_order(tmp_path: Path, config: Config) -> None:
    block = LiveBlock(samples_us=tuple(map(float, range(10 * MOST_SAMPLES))))
    seen = observation_of(_observed(tmp_path, config, block))
    assert len(seen.samples_us) == MOST_SAMPLES
    assert list(seen.samples_us) == sorted(seen.samples_us)


def test_the_best_tenth_is_that_of_the_better_side() -> None:
    samples = tuple(float(i) for i in range(1, 21))
    assert best_tenth(samples, higher_is_better=False) == 2.0  # 2 of 20 are at least as good
    assert best_tenth(samples, higher_is_better=True) == 19.0
    assert best_tenth((), higher_is_better=True) is None


@pytest.mark.parametrize("raw", [{}, {"schema": 2}, {"schema": 1}, {"schema": 1, "key": []}])
def test_what_is_no_observation_is_a_value_error(raw: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="observation"):
        Observation.from_json(raw)


def _table(folder: Path, config: Config) -> OpTable:
    return op_table(_trace(folder), config)


def test_a_packed_op_table_has_the_same_means_to_the_nanosecond(
    tmp_path: Path, config: Config
) -> None:
    table = _table(tmp_path, config)
    again = unpacked(json.loads(json.dumps(packed(table))))
    assert again.mean_step_ns == table.mean_step_ns
    found = diff(table, again)
    assert found.delta == 0
    assert all(c.unchanged for c in found.changes)


@pytest.mark.parametrize(
    "damage",
    [
        {"steps": 0},
        {"steps": "3"},
        {"steps": 10**9},
        {"rows": [[1]]},
        {"rows": None},
        {"idle": [[0]]},
    ],
)
def test_a_damaged_op_table_is_a_value_error(
    tmp_path: Path, config: Config, damage: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match="op table"):
        unpacked({**packed(_table(tmp_path, config)), **damage})
