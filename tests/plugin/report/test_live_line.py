"""Progress where somebody looks, and nothing at all where nobody does."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_gpuperf.ranks import RankContext, State, Target, launch
from pytest_gpuperf.recording.watching import Seen, tell, tell_of_ranks, watched_by
from pytest_gpuperf.report.live_line import LiveLine, progress_text


def slowly(context: RankContext, payload: object) -> int:
    """What the ranks of a launch do here."""
    time.sleep(1.5)
    return context.rank


def test_who_watches_is_told_the_best_so_far() -> None:
    seen: list[Seen] = []
    with watched_by(seen.append):
        tell([3.0, 1.0, 2.0], 0.5, 2.0)
        tell([], 0.5, 2.0)
    tell([1.0], 0.5, 2.0)
    assert seen == [Seen(3, 0.5, 2.0, 1.0)]
    assert progress_text(seen[0]) == "3 samples, best 1.000 µs, 0.5 s of at most 2.0 s"


def test_of_ranks_what_they_do_is_told() -> None:
    seen: list[Seen] = []
    with watched_by(seen.append):
        tell_of_ranks("2 ranks sampling", 40, 1.25, 60.0)
        tell_of_ranks("2 ranks starting", 0, 0.5, 60.0)
    assert [progress_text(s) for s in seen] == [
        "2 ranks sampling, 40 calls, 1.2 s of at most 60.0 s",
        "2 ranks starting, 0.5 s of at most 60.0 s",
    ]


def test_a_launch_tells_who_watches_what_rank_0_does(tmp_path: Path) -> None:
    seen: list[Seen] = []
    with watched_by(seen.append):
        outcomes = launch(Target.of(slowly), 2, payload={}, timeout_s=60, workdir=tmp_path)
    assert all(o.state is State.DONE for o in outcomes)
    assert seen
    assert all(s.what.startswith("2 ranks ") and s.limit_s == 60 for s in seen)


def test_the_line_puts_the_cursor_back_and_goes_away() -> None:
    out = io.StringIO()
    line = LiveLine(out, 60)
    line.clear()
    assert out.getvalue() == ""
    line(Seen(3, 0.5, 2.0, 1.0))
    assert out.getvalue().startswith("\x1b7\x1b[K 3 samples")
    assert out.getvalue().endswith("\x1b8")
    line(Seen(4, 0.6, 2.0, 1.0))  # within a fifth of a second: not again
    assert out.getvalue().count("samples") == 1
    line.clear()
    assert out.getvalue().endswith("\x1b7\x1b[K\x1b8")


def test_a_line_without_room_is_not_shown() -> None:
    out = io.StringIO()
    LiveLine(out, 20)(Seen(3, 0.5, 2.0, 1.0))
    assert out.getvalue() == ""


@pytest.fixture
def project(tmp_path: Path) -> list[str]:
    (tmp_path / "test_a.py").write_text(
        "import time\ndef test_a(gpuperf):\n    gpuperf(time.sleep, 0.01)\n"
    )
    return [sys.executable, "-m", "pytest", str(tmp_path), "-p", "no:cacheprovider", "-c",
            "/dev/null", "--rootdir", str(tmp_path), "--gpuperf-device=cpu",
            "-o", "gpuperf_max_time=900ms", "-o", "gpuperf_warmup=10ms"]  # fmt: skip


def test_a_measurement_tells_a_terminal(project: list[str], tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "220", "TMPDIR": str(tmp_path)}
    done = subprocess.Popen(project, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 65536):
            said += part
    except OSError:  # the other end was closed
        pass
    os.close(ours)
    assert done.wait(60) == 0, said
    text = said.decode()
    assert re.search(r"\x1b7\x1b\[K \d+ samples, best \S+ ms, \d\.\d s of at most 0\.9 s", text)
    assert "1 passed" in text


def test_a_pipe_is_told_nothing(project: list[str]) -> None:
    done = subprocess.run(project, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout
    assert "best" not in done.stdout
    assert "\x1b" not in done.stdout
