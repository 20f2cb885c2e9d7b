"""`gpuperf analyze --span`: one annotation of a trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kineto import KinetoTrace
from pytest_gpuperf.cli import main


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """A step with an annotation, in which one kernel of 30 µs is launched, and one beside it."""
    t = KinetoTrace(rank=3, world_size=4)
    with t.step(1, at=0, dur=100):
        t.event("forward", "user_annotation", 5, 20)
        t.launch("gemm", at=10, runs=(20, 50))
        t.launch("relu", at=40, runs=(60, 70))
    return str(t.write(tmp_path / "trace.json"))


def test_the_numbers_are_those_of_the_span(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "--json", "--span", "forward", trace]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["span"] == "forward"
    (rank,) = document["ranks"]
    (device,) = rank["devices"]
    assert rank["rank"] == 3
    assert [p["duration_us"] for p in device["passages"]] == [30.0]
    assert device["values"]["compute_time"]["value"] == 30.0
    assert device["values"]["kernel_launches"]["value"] == 1.0


def test_a_person_reads_a_table(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "--span", "forward", trace]) == 0
    out = capsys.readouterr().out
    assert "forward: 1 passage, rank 3, NVIDIA H100 80GB HBM3" in out
    assert "30.00 µs" in out


def test_a_misspelt_name_is_told_the_nearest(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", "--span", "forwrd", trace]) == 2
    assert "no trace has a span 'forwrd'; did you mean forward?" in capsys.readouterr().err
    assert main(["analyze", "--span", "x", trace]) == 2
    assert "there are forward" in capsys.readouterr().err


@pytest.mark.parametrize("other", [["--csv"], ["--step", "1"], ["--rank", "3"]])
def test_what_does_not_go_with_a_span_is_refused(
    trace: str, other: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["analyze", "--span", "forward", *other, trace])
    assert refused.value.code == 2
    assert "--span goes with --json only" in capsys.readouterr().err
