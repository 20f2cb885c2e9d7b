"""Progress of the command, and what Ctrl-C leaves."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import pytest

from gpuperf_analyzers import set_analysis
from gpuperf_analyzers.analysis import Analysis
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.trace import read_traces
from gpuperf_analyzers.trace.model import Trace, TraceSet
from kineto import KinetoTrace
from pytest_gpuperf.cli import main
from pytest_gpuperf.cli.progress import progress


@pytest.fixture
def six(tmp_path: Path) -> list[str]:
    paths = []
    for rank in range(6):
        t = KinetoTrace(rank=rank, world_size=6)
        t.launch("gemm", at=5, runs=(10, 40), stream=7)
        paths.append(str(t.write(tmp_path / f"rank{rank}.json")))
    return paths


def test_every_file_is_told(six: list[str]) -> None:
    told: list[tuple[int, int, str]] = []
    read_traces(six, told=lambda *seen: told.append(seen))
    assert told == [(i + 1, 6, path) for i, path in enumerate(six)]


def test_an_interrupt_keeps_what_was_read(six: list[str]) -> None:
    def interrupted(done: int, total: int, path: str) -> None:
        if done == 3:
            raise KeyboardInterrupt

    found = read_traces(six, told=interrupted, partial_result=True)
    assert [t.rank for t in found.traces] == [0, 1, 2]
    assert list(found.failed.values()) == [f"{p}: not read: interrupted" for p in six[3:]]
    with pytest.raises(KeyboardInterrupt):
        read_traces(six, told=interrupted)


def test_an_interrupted_reading_is_one_line_and_no_comparison(
    six: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def third_is_interrupted(done: int, total: int, path: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    def read(files: list[str], **how: object) -> TraceSet:
        return read_traces(files, **{**how, "told": third_is_interrupted})  # type: ignore[arg-type]

    monkeypatch.setattr("gpuperf_analyzers.trace.read_traces", read)
    assert main(["check", *six, "--min-gpu-util", "1%", "--no-cache"]) == 130
    assert capsys.readouterr().err == "gpuperf: interrupted: 2 of 6 files are read\n"
    for folder, paths in (("a", six[:3]), ("b", six[3:])):
        (tmp_path / folder).mkdir()
        for path in paths:
            Path(path).rename(tmp_path / folder / Path(path).name)
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--no-cache"]) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "gpuperf: interrupted: 2 of 3 files are read\ngpuperf: interrupted: nothing is compared\n"
    )


def test_an_interrupt_keeps_what_was_analyzed(
    six: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole, seen = set_analysis.analyze, []

    def fourth_is_interrupted(trace: Trace, config: Config) -> Analysis:
        if len(seen) == 3:
            raise KeyboardInterrupt
        seen.append(trace.path)
        return whole(trace, config)

    monkeypatch.setattr(set_analysis, "analyze", fourth_is_interrupted)
    page = tmp_path / "page.html"
    # 130, as of any process that Ctrl-C ended: what is told is not of all that was asked for.
    assert main(["analyze", *six, "--html", str(page)]) == 130
    assert "gpuperf: interrupted: 3 of 6 ranks are analyzed\n" in capsys.readouterr().err
    assert "3 ranks" in page.read_text()
    seen.clear()
    assert main(["report", *six, "-o", str(page)]) == 130
    assert f"{six[5]}: not analyzed: interrupted" in page.read_text()
    seen.clear()
    found = set_analysis.analyze_set(read_traces(six), partial_result=True)
    assert [r.rank for r in found.ranks] == [0, 1, 2]
    assert list(found.failed.values()) == [f"{p}: not analyzed: interrupted" for p in six[3:]]
    seen[:] = six[:3]
    with pytest.raises(KeyboardInterrupt):
        set_analysis.analyze_set(read_traces(six))
    monkeypatch.setattr(set_analysis, "analyze", interrupted)
    with pytest.raises(KeyboardInterrupt):  # nothing was done that could be kept
        set_analysis.analyze_set(read_traces(six), partial_result=True)


def interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def test_nobody_is_told_where_nobody_looks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("reading", 100) as told:
        assert told is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress("reading", 2) as told:
        assert told is None
    assert capsys.readouterr().err == ""


def test_a_terminal_sees_what_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with progress("reading", 8) as told:
        assert told is not None
        told(3, 8, "/x/rank\x1b[31m2.json")
    err = capsys.readouterr().err
    assert "3/8" in err
    assert "reading rank\\x1b[31m2.json" in err
