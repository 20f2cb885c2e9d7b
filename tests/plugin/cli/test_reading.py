"""How the command line reads: what is kept for a second look, and who reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers.trace import cache
from kineto import KinetoTrace
from pytest_gpuperf.cli import main


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where columns are kept, with no trace too small to be."""
    monkeypatch.setenv("GPUPERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "SMALLEST", 0)
    return tmp_path / "cache" / "traces"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    t = KinetoTrace()
    t.op("aten::mm", at=0, dur=5)
    t.launch("gemm", at=1, runs=(3, 9))
    return str(t.write(tmp_path / "trace.json"))


def test_columns_are_kept_for_a_second_look(
    kept: Path, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", trace]) == 0
    first = capsys.readouterr().out
    assert len(list(kept.iterdir())) == 1
    assert main(["analyze", trace]) == 0
    assert capsys.readouterr().out == first


def test_no_cache_keeps_nothing(kept: Path, trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", trace, "--no-cache"]) == 0
    assert not kept.exists()


def test_a_scheduler_without_dask_says_what_to_install(
    trace: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    assert main(["analyze", trace, "--scheduler", "tcp://127.0.0.1:9"]) == 2
    assert "pip install 'pytest-gpuperf[dask]'" in capsys.readouterr().err
