"""``gpuperf history``: the file survives, the change is found, the commit is named."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
from pathlib import Path

import numpy as np
import pytest

from observations import observation
from pytest_gpuperf.baselines.history import append, lines_of, read, series
from pytest_gpuperf.cli import main

Capture = pytest.CaptureFixture[str]
FILE = Path(".gpuperf/history.jsonl")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def _runs(commits: list[str], change_at: int) -> None:
    rng = np.random.default_rng(7)
    for i, commit in enumerate(commits):
        slower = 1.1 if i >= change_at else 1.0
        seen = observation(
            step_us=1000.0 * slower * (1 + rng.normal(0, 0.01)),
            launches=120 + (i >= change_at),
            commit=commit,
        )
        append(FILE, lines_of([seen], at=f"2026-01-{i + 1:02d}T00:00:00+00:00"))


def _repository(count: int) -> list[str]:
    """Commits of a repository here, oldest first."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]

    def git(*arguments: str) -> str:
        command = ["git", *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    commits = []
    for i in range(count):
        git("commit", "-q", "--allow-empty", "-m", f"change number {i}")
        commits.append(git("rev-parse", "HEAD"))
    return commits


def test_the_change_is_found_with_its_commit(capsys: Capture) -> None:
    _runs(_repository(24), change_at=14)
    assert main(["history"]) == 0
    out = capsys.readouterr().out
    exact, timed = [line for line in out.splitlines() if "→" in line]
    assert "kernel_launches: 120 → 121 (+0.8%, exact)" in exact
    assert exact.endswith("change number 14")
    assert "(+9.2%, p 0.0005)" in timed
    assert timed.endswith("change number 14")
    assert "2026-01-15" in timed
    assert "▁" in out


def test_of_several_commits_between_two_runs_the_range_is_told(capsys: Capture) -> None:
    commits = _repository(6)
    _runs([commits[0]] * 10 + [commits[5]] * 10, change_at=10)
    assert main(["history", "--metric", "step-time"]) == 0
    assert f"one of 5 commits, {commits[0][:12]}..{commits[5][:12]}" in capsys.readouterr().out


def test_a_change_within_one_commit_is_not_the_commits(capsys: Capture) -> None:
    _runs(["a" * 40] * 20, change_at=10)
    assert main(["history", "--metric", "step_time"]) == 0
    assert "it is not the commit's" in capsys.readouterr().out


def test_a_torn_line_costs_itself_and_no_other(capsys: Capture) -> None:
    seen = observation()
    append(FILE, lines_of([seen]))
    whole = FILE.read_bytes()
    FILE.write_bytes(whole + whole[: len(whole) // 3])  # killed in the middle of a line
    append(FILE, lines_of([seen]))
    found = read(FILE)
    assert (len(found.lines), found.skipped) == (4, 1)
    assert main(["history"]) == 0
    assert "1 torn or foreign line left out" in capsys.readouterr().err


def test_lines_of_a_newer_version_are_counted_apart(capsys: Capture) -> None:
    append(FILE, lines_of([observation()]))
    with FILE.open("a") as out:
        out.write(json.dumps({"v": 2, "shape": "another"}) + "\n[]\nnull\n")
    found = read(FILE)
    assert (found.newer, found.skipped) == (1, 2)
    assert main(["history"]) == 0
    assert "of a newer gpuperf" in capsys.readouterr().err


def _append_many(path: str) -> None:
    for _ in range(50):
        append(Path(path), lines_of([observation()]))


def test_runs_that_append_at_once_lose_no_line() -> None:
    context = multiprocessing.get_context("fork")
    running = [context.Process(target=_append_many, args=(str(FILE),)) for _ in range(3)]
    for process in running:
        process.start()
    for process in running:
        process.join(60)
    found = read(FILE)
    assert (len(found.lines), found.skipped) == (300, 0)


def test_a_clock_that_goes_backwards_leaves_the_order_of_the_runs() -> None:
    for at, us in (("2026-02-01T00:00:00+00:00", 1.0), ("2026-01-01T00:00:00+00:00", 2.0)):
        append(FILE, lines_of([observation(step_us=us, launches=None)], at=at))
    ((_, lines),) = series(read(FILE))
    assert [line.value for line in lines] == [1.0, 2.0]


def test_a_plot_is_written_or_says_what_it_takes(capsys: Capture) -> None:
    pytest.importorskip("matplotlib")
    _runs(["a" * 40] * 20, change_at=10)
    assert main(["history", "--plot", "out.svg"]) == 0
    assert Path("out.svg").read_text().lstrip().startswith("<?xml")
    assert main(["history", "--plot", "out.txt"]) == 2
    assert ".svg" in capsys.readouterr().err


@pytest.mark.parametrize(("content", "said"), [(None, "there is no history"), ("", "is empty")])
def test_nothing_there_is_one_line_and_status_2(
    capsys: Capture, content: str | None, said: str
) -> None:
    if content is not None:
        FILE.parent.mkdir()
        FILE.write_text(content)
    assert main(["history"]) == 2
    assert said in capsys.readouterr().err
