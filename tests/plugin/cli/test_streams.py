"""What the command is fed through and speaks into: pipes, closed and full outputs, locales."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kineto import KinetoTrace
from pytest_gpuperf.cli import main

COMMAND = (sys.executable, "-m", "pytest_gpuperf.cli")
RUNS = (
    ("metrics",),
    ("metrics", "--json"),
    ("analyze", "one.json"),
    ("analyze", "one.json", "--json"),
    ("analyze", "one.json", "--csv"),
    ("check", "one.json", "--max-idle", "99%"),
    ("compare", "one.json", "one.json"),
)
"""Every way of the command to write; each is fine on its own."""
DEVICE = "\u202eH\x9b31m \U0001f600"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one small trace, of a device with a hostile name."""
    t = KinetoTrace(device_name=DEVICE)
    with t.step(1, at=0, dur=80):
        t.launch("gemm", at=5, runs=(20, 60))
    t.write(tmp_path / "one.json")
    return tmp_path


@pytest.mark.parametrize("run", RUNS, ids=" ".join)
def test_an_output_that_was_closed_before_is_no_error(folder: Path, run: tuple[str, ...]) -> None:
    # What a shell does for `gpuperf … >&-`.
    shell = ["sh", "-c", '"$@" >&-', "sh", *COMMAND, *run]
    done = subprocess.run(shell, cwd=folder, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is full")
@pytest.mark.parametrize("run", RUNS, ids=" ".join)
def test_an_output_without_room_is_one_line_and_status_2(
    folder: Path, run: tuple[str, ...]
) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, *run],
            cwd=folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "gpuperf: No space left on device while the output was written\n"


def test_json_is_ascii_and_keeps_every_name_in_any_locale(folder: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "check", "one.json", "--json", "--max-idle", "99%"],
        cwd=folder,
        capture_output=True,
        env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        check=True,
    )
    # A terminal gets no control character of a name, a program gets the name as it is.
    assert json.loads(done.stdout.decode("ascii"))["device_name"] == DEVICE


def test_a_pipe_that_nobody_writes_to_is_empty_and_hangs_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert main(["analyze", str(tmp_path / "pipe.json")]) == 2
    assert "pipe.json: empty" in capsys.readouterr().err
    # In a folder it is no trace at all.
    assert main(["analyze", str(tmp_path)]) == 2
    assert "a folder without traces" in capsys.readouterr().err


def test_a_trace_comes_through_a_pipe(folder: Path) -> None:
    late = 'sleep 0.3; cat one.json | "$@"'
    done = subprocess.run(
        ["sh", "-c", late, "sh", *COMMAND, "check", "/dev/stdin", "--max-idle", "99%"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("PASS ")


@pytest.mark.parametrize(
    ("path", "message"),
    [("", "the path of a trace is empty"), ("x" * 5000, "File name too long")],
    ids=["empty", "long"],
)
def test_a_path_that_no_system_has_is_one_line(
    path: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (
        ["analyze", path],
        ["check", path, "--max-idle", "1%"],
        ["compare", path, path],
    ):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert len(error.splitlines()) <= 2
        assert error.startswith("gpuperf: ")
        assert message in error
