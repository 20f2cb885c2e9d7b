"""`gpuperf analyze --mark` and `--nccl-log`: a marked copy, and NCCL's own word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kineto import KinetoTrace
from pytest_gpuperf.cli import main

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A kernel of 60 µs, then an all-reduce of 40 µs and 4,096 bytes over two ranks."""
    t = KinetoTrace(rank=0, world_size=2)
    t.launch("gemm", at=0, runs=(10, 70))
    t.launch(
        NCCL, at=6, runs=(70, 110), stream=20,
        **{"Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024,
           "dtype": "Float", "Group size": 2},
    )  # fmt: skip
    return t.write(tmp_path / "rank0.json")


def test_the_copy_has_the_path_as_a_track_and_the_same_numbers(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marked = tmp_path / "marked.json"
    assert main(["analyze", str(trace), "--mark", str(marked), "--csv"]) == 0
    before = capsys.readouterr().out
    events = json.loads(marked.read_text())["traceEvents"]
    path = [e for e in events if e.get("cat") == "critical_path"]
    # From the first activity's start to the last one's end, 10 to 110, with nothing left out.
    assert sum(e["dur"] for e in path) == pytest.approx(100)
    assert [e["args"]["class"] for e in path if e["name"] in {"gemm", NCCL}] == ["compute", "comm"]
    assert main(["analyze", str(marked), "--csv"]) == 0
    assert capsys.readouterr().out.replace("marked.json", "rank0.json") == before


def test_a_copy_of_several_traces_is_refused(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = KinetoTrace(rank=1, world_size=2)
    other.launch("gemm", at=0, runs=(10, 70))
    second = other.write(tmp_path / "rank1.json")
    marked = tmp_path / "marked.json"
    assert main(["analyze", str(trace), str(second), "--mark", str(marked)]) == 2
    assert "--mark copies one trace, and 2 were read" in capsys.readouterr().err
    assert not marked.exists()


def test_the_source_is_not_written_over_and_a_missing_folder_is_one_line(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = trace.read_text()
    assert main(["analyze", str(trace), "--mark", str(trace)]) == 2
    assert "needs a name of its own" in capsys.readouterr().err
    assert trace.read_text() == text
    assert main(["analyze", str(trace), "--mark", str(tmp_path / "none" / "m.json")]) == 2
    assert "No such file or directory" in capsys.readouterr().err


def test_the_log_says_what_the_kernels_name_cannot(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "nccl.log"
    log.write_text("h:1:1 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo TREE proto LL128 channel\n")
    assert main(["analyze", str(trace)]) == 0
    assert "all_reduce float ring ll " in capsys.readouterr().out.lower()
    assert main(["analyze", str(trace), "--nccl-log", str(log)]) == 0
    out = capsys.readouterr().out
    assert "all_reduce float tree ll128" in out.lower()
    assert "a hint" not in out


def test_a_log_without_choices_is_one_line_with_the_mend(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "nccl.log"
    log.write_text("nothing\n")
    assert main(["analyze", str(trace), "--nccl-log", str(log)]) == 2
    assert "NCCL_DEBUG_SUBSYS=TUNING" in capsys.readouterr().err
    assert main(["analyze", str(trace), "--nccl-log", str(tmp_path / "none.log")]) == 2
    assert "none.log: No such file" in capsys.readouterr().err
