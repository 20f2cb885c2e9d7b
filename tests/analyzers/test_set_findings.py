"""What only a set of ranks shows of its own trustworthiness."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.set_analysis import analyze_set
from gpuperf_analyzers.trace.sets import read_traces
from kineto import KinetoTrace


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def _rank(number: int, ahead: float) -> KinetoTrace:
    """Seven all-reduces that end together on both ranks; the clock is `ahead` by so many µs."""
    t = KinetoTrace(rank=number, world_size=2, device=number, base_us=1_000_000 + ahead)
    facts = {
        "Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000,
        "Group size": 2, "dtype": "Float", "Process Group Name": "0",
    }  # fmt: skip
    for i in range(7):
        span = (100 * i + 10, 100 * i + 50)
        t.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", span[0] - 5, span, **facts)
    return t


def _codes(folder: Path, ahead: float, config: Config) -> dict[str, str]:
    for number in range(2):
        _rank(number, ahead * number).write(folder / f"rank{number}.json")
    return {f.code: f.example for f in analyze_set(read_traces(folder), config).findings}


def test_clocks_that_differ_are_told_with_how_far(tmp_path: Path, config: Config) -> None:
    # Two ranks 500 µs apart: each is 250 µs from their median.
    assert _codes(tmp_path, 500, config)["clock-skew"] == "rank 0: -250 µs"


def test_clocks_that_nearly_agree_are_not_told(tmp_path: Path, config: Config) -> None:
    assert "clock-skew" not in _codes(tmp_path, 10, config)


def test_a_missing_and_a_double_rank_reach_the_analysis(tmp_path: Path, config: Config) -> None:
    for name in ("a", "b"):
        _rank(0, 0).write(tmp_path / f"{name}.json")
    found = analyze_set(read_traces(tmp_path), config)
    assert {"duplicate-rank", "missing-ranks"} <= {f.code for f in found.findings}
    assert "busbw" in found.invalid
