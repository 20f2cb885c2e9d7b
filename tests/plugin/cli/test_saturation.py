"""What `gpuperf analyze` says of how full a busy device was."""

from __future__ import annotations

from pathlib import Path

import pytest

from kineto import KinetoTrace
from pytest_gpuperf.cli import main


def shown(t: KinetoTrace, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["analyze", str(t.write(folder / "rank0.json"))]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_one_thread_in_a_loop_is_busy_throughout_and_fills_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    t = KinetoTrace()  # of 132 multiprocessors
    one = {"est. achieved occupancy %": 0, "blocks per SM": 1 / 132, "block": [1, 1, 1]}
    t.launch("spin", at=0, runs=(10, 1010), **one)
    text = shown(t, tmp_path, capsys)
    assert "busy for 100.0%; how full: estimated occupancy 0%" in text
    assert "100.0% of kernel time with fewer blocks than multiprocessors" in text
    assert "tail efficiency at least 0.758%" in text  # 1 of 132


def test_without_launch_geometry_nothing_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    t = KinetoTrace()
    t.launch("gemm", at=0, runs=(10, 1010))
    assert "how full" not in shown(t, tmp_path, capsys)
