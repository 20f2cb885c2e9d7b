"""How the command line reads: what is kept for a second look, and who reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers.trace import cache, read_trace
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


@pytest.mark.parametrize(
    ("files", "jobs", "processes"),
    [
        (1, [], 3),
        (2, [], 1),
        (1, ["--jobs", "1"], 1),
        (2, ["--jobs", "5"], 2),
        (1, ["--jobs", "5"], 5),
    ],
)
def test_one_trace_is_read_by_all_cpus_and_ranks_by_as_many_as_are_asked_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: int,
    jobs: list[str],
    processes: int,
) -> None:
    monkeypatch.setattr("pytest_gpuperf.cli.inputs._processes", lambda n: 3 if n == 1 else 1)
    seen = []

    def read(path: str, *, processes: int, **_: object) -> object:
        seen.append(processes)
        return read_trace(path)

    monkeypatch.setattr("gpuperf_analyzers.trace.reader.read_trace", read)
    monkeypatch.setattr("gpuperf_analyzers.trace.sets._over_processes", _in_this_one)
    paths = []
    for rank in range(files):
        t = KinetoTrace(rank=rank, world_size=files)
        t.launch("gemm", at=1, runs=(3, 9))
        paths.append(str(t.write(tmp_path / f"rank{rank}.json")))
    assert main(["analyze", *paths, "--no-cache", *jobs]) == 0
    assert seen == [processes] * files


def _in_this_one(files: list[str], one: Callable[[str], Any], _: int) -> Any:
    return ((path, one(path)) for path in files)


def test_who_reads_one_trace_follows_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_gpuperf.cli.inputs import _processes

    for cpus, processes in ((1, 1), (2, 2), (64, 4)):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, n=cpus: set(range(n)), raising=False)
        assert (_processes(1), _processes(2)) == (processes, 1)
