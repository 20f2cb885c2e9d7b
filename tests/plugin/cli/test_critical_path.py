"""What `gpuperf analyze` says of the critical path."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kineto import KinetoTrace
from pytest_gpuperf.cli import main

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def shown(trace: KinetoTrace, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["analyze", str(trace.write(folder / "rank0.json"))]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_classes_names_and_assumptions_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    t = KinetoTrace()
    t.launch("gemm", at=0, runs=(10, 70))
    t.runtime("cudaStreamWaitEvent", at=4, dur=1)
    t.launch(NCCL, at=6, runs=(70, 110), stream=20)
    text = shown(t, tmp_path, capsys)
    assert "critical path of the window: compute 60.0%, comm 40.0%" in text
    assert "gemm compute 1 60.00 µs 60.0%" in text
    assert f"{NCCL} comm 1 40.00 µs 40.0%" in text
    assert "assumed once: a stream's wait for an unnamed event" in text


def test_what_does_not_reach_across_is_not_called_a_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    t = KinetoTrace()
    t.launch("a", at=0, runs=(10, 20))
    t.launch("late", at=30, runs=(530, 540))
    text = shown(t, tmp_path, capsys)
    assert "no critical path across window: nothing in the trace explains 94.3%" in text
    assert "critical path of" not in text


def test_the_table_in_json_has_the_names_on_the_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    t = KinetoTrace()
    t.launch("gemm", at=0, runs=(10, 70))
    path = t.write(tmp_path / "rank0.json")
    assert main(["analyze", "--json", str(path)]) == 0
    document = json.loads(capsys.readouterr().out)
    rank = document["ranks"][0] if "ranks" in document else document
    assert rank["devices"][0]["tables"]["critical_path"] == [
        {"name": "gemm", "class": "compute", "count": 1, "time_us": 60.0, "share": 1.0}
    ]
    assert rank["values"]["critical_compute"]["value"] == 60
    assert rank["values"]["critical_coverage"]["value"] == 1
