"""``gpuperf mamf`` as its user sees it: in a terminal, interrupted, killed, resumed, misused."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf.cli import main
from pytest_gpuperf.cli.mamf_bar import Bar

torch = pytest.importorskip("torch")

LIMIT_S = 300.0
# 216 shapes, of which 20 are timed, with calls enough to be interrupted.
SLOW = ["mamf", "--device=cpu", "--m-range", "64", "385", "64", "--n-range", "64", "385", "64",
        "--k-range", "64", "385", "64", "--first-calls=100", "--last-calls=100"]  # fmt: skip
FAST = [*SLOW[:-2], "--first-calls=2", "--last-calls=4"]
IN_A_TERMINAL = """
import fcntl, os, signal, sys, termios
os.setsid()
signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background has it ignored
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "pytest_gpuperf.cli", *sys.argv[1:]])
"""
RESULT = Path(".gpuperf") / "mamf-fp32.json"
JOURNAL = Path(".gpuperf") / "mamf-fp32.journal.jsonl"


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache, locks and a working directory of our own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUPERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call loses its core: whether the machine that runs these tests is busy is no matter."""
    monkeypatch.setattr("pytest_gpuperf.mamf.timing.cores_lost", lambda: 0)


class Terminal:
    """The command in a pseudo-terminal, as a shell would start it."""

    def __init__(self, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        command = [sys.executable, "-c", IN_A_TERMINAL, *arguments]
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self.shown = ""

    def until(self, pattern: str) -> None:
        """Read until `pattern` was shown."""
        end = time.monotonic() + LIMIT_S
        while not re.search(pattern, self.shown):
            assert time.monotonic() < end, self.shown
            assert self._read(), self.shown

    def _read(self) -> bool:
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the other side is closed
            return False
        self.shown += re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", data.decode("utf-8", "replace"))
        return bool(data)

    def press_ctrl_c(self) -> None:
        os.write(self.master, b"\x03")

    def ended(self) -> int:
        while self._read():
            pass
        os.close(self.master)
        return self.process.wait(LIMIT_S)


def result() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULT.read_text())
    return found


def answers() -> list[tuple[Any, ...]]:
    lines = JOURNAL.read_text().splitlines()[1:]
    return [(*entry["shape"], entry["calls"]) for entry in map(json.loads, lines)]


def test_ctrl_c_keeps_the_best_so_far_and_resume_times_nothing_again() -> None:
    terminal = Terminal(*SLOW)
    terminal.until(r"\d+/36 best [\d.]+ TFLOPS at \d+x\d+x\d+")  # the bar moves
    terminal.press_ctrl_c()
    assert terminal.ended() == 130, terminal.shown
    assert re.search(r"stopped     interrupted, about \d+ timings before the end", terminal.shown)
    assert "--resume goes on with it" in terminal.shown
    assert "Traceback" not in terminal.shown
    found = result()
    assert (found["complete"], found["stopped"]) == (False, "interrupted")
    best = f"at M={found['best']['m']} N={found['best']['n']} K={found['best']['k']}"
    assert best in terminal.shown
    timed = answers()
    assert len(timed) == found["effort"]["timings"] >= 1
    assert not (Path("cache") / "mamf").exists()

    again = Terminal(*SLOW, "--resume")
    again.until("written ")
    assert again.ended() == 0, again.shown
    found = result()
    assert found["complete"] is True
    assert found["effort"]["replayed"] == len(timed)
    shapes = {(s["m"], s["n"], s["k"]) for s in found["shapes"]}
    assert found["effort"]["shapes_timed"] == len(shapes) == 20
    assert f"{len(timed)} of the timings by the run that this one continued" in " ".join(
        again.shown.split()
    )
    assert not JOURNAL.exists()
    assert (
        RESULT.with_suffix(".txt").read_text().startswith("maximum achievable matmul FLOPS, fp32")
    )


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As many threads here as the commands that are started have: a maximum is of a number of them.

    torch took its own number when these tests imported it, before `_own_places` said one.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_a_kill_loses_the_shape_in_hand_at_most(
    one_thread: None, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "pytest_gpuperf.cli", *SLOW]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    end = time.monotonic() + LIMIT_S
    while not JOURNAL.exists() or len(JOURNAL.read_bytes().splitlines()) < 5:
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    out, err = process.communicate()
    assert (out, err) == ("", "")  # nor was there a bar, for this is no terminal
    timed = answers()
    assert len(timed) >= 4
    assert main([*SLOW, "--resume", "--dtype=bf16"]) == 2  # its journal is another file
    assert "nothing to resume" in capsys.readouterr().err
    assert main([*SLOW, "--resume", "--seed=3"]) == 2
    refused = capsys.readouterr().err
    assert "is of another search (seed was 0, now 3)" in refused
    assert refused.count("\n") == 1
    assert main([*SLOW, "--resume", "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document == result()
    assert document["effort"]["replayed"] == len(timed)
    # A kill's journal, another's numbers: a resume on as many threads only.
    assert document["machine"].endswith("| 1 threads")


def test_a_finished_search_is_kept_for_its_machine_and_dtype(
    quiet: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(FAST) == 0
    out = capsys.readouterr().out
    found = result()
    (kept,) = (Path("cache") / "mamf").glob("*.json")
    assert json.loads(kept.read_text())["tflops"] == found["best"]["median_tflops"]
    assert f"kept        for mamf_share: {found['best']['median_tflops']:.4g} TFLOPS" in out
    assert "20 of 216 shapes timed (9.3%)" in out
    assert "efficiency  not known: no dense peak of a CPU is published" in out
    assert {"torch", "python", "threads"} <= found["environment"].keys()
    assert found["machine"] == json.loads(kept.read_text())["machine"]


def test_a_maximum_of_a_busy_machine_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = iter(range(10**6))
    monkeypatch.setattr("pytest_gpuperf.mamf.timing.cores_lost", lambda: next(lost))
    assert main(FAST) == 0
    assert "kept        nothing: on a machine this busy" in capsys.readouterr().out
    assert result()["disturbed"] is True
    assert not (Path("cache") / "mamf").exists()


def test_the_end_of_the_time_given_keeps_the_best_so_far(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "pytest_gpuperf.mamf.timing.MatmulTimer.time",
        lambda _, shape, calls: time.sleep(0.1) or (shape[0] * 1e-6,) * calls,
    )
    assert main([*SLOW, "--max-time=1s"]) == 0
    assert "the time given was over" in capsys.readouterr().out
    found = result()
    assert found["stopped"] == "max-time"
    assert found["best"] is not None
    assert found["effort"]["timings"] < 25
    assert JOURNAL.exists()


def test_time_over_before_the_first_shape_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Calls of 0.2 s where 0.1 s are given: the shape is named meanwhile, and nothing is kept."""
    shown: list[str] = []

    def matmul(*_: object) -> Any:
        return lambda: shown.append(bar._progress.tasks[0].description) or time.sleep(0.2)

    bar = Bar()
    monkeypatch.setattr("pytest_gpuperf.mamf.timing.MatmulTimer._matmul", matmul)
    monkeypatch.setattr("pytest_gpuperf.cli.mamf._bar", lambda: bar)
    assert main(["mamf", "--device=cpu", "--preset=h100", "--max-time=100ms"]) == 1
    out = capsys.readouterr().out
    assert "best        none: no shape was timed" in out
    assert "stopped     the time given was over, or too short for the next shape, about " in out
    assert "the best so far" not in out
    assert len(shown) == 2  # of a small part of it, which tells that the whole is hopeless
    assert re.fullmatch(r"timing \d+x\d+x\d+", shown[0])
    assert (result()["best"], result()["stopped"]) == (None, "max-time")


def test_a_new_search_moves_an_unfinished_one_aside(
    quiet: None, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*SLOW, "--max-time=1ms"])
    before = JOURNAL.read_bytes()
    assert main(FAST) == 0
    assert "an unfinished search was there: moved to" in capsys.readouterr().err
    assert Path(f"{JOURNAL}.old").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "told"),
    [(["--m-range", "0", "0", "256", "--n=8", "--k=8"], "--m-range 0 0 256: write START STOP STEP"),
     (["--m=8"], "--n or --n-range is missing"),
     (["--preset=h100", "--k=8"], "--preset h100 names all ranges"),
     (["--m=0", "--n=8", "--k=8"], "--m 0: a side is from 1"),
     (["--dtype=tf32"], "tf32 is of NVIDIA GPUs: on a CPU take --dtype fp32"),
     (["--device=cuda:99"], "there is no 'cuda:99' here"),
     (["--device=toaster"], "cannot measure on 'toaster'"),
     (["--resume"], "there is nothing to resume"),
     (["--max-time=5parsecs"], "--max-time: "),
     (["--seed=-1"], "--seed -1"),
     (["--last-calls=3"], "--last-calls 3 is less than --first-calls 10"),
     (["--m=1048576", "--n=1048576", "--k=1"], "no shape was timed: needs ")],
)  # fmt: skip
def test_misuse_is_one_line_and_exit_2(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    device = [] if any(o.startswith("--device") for o in options) else ["--device=cpu"]
    assert main(["mamf", *device, *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("gpuperf: ")
    assert told in captured.err
    assert captured.err.count("\n") == 1


def test_without_torch_there_is_one_line_with_the_mend() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from pytest_gpuperf.cli import main; "
        "sys.exit(main(['mamf']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "gpuperf: gpuperf measures with torch, which is not installed: "
        "pip install pytest-gpuperf[torch]\n"
    )


def test_a_hostile_name_of_the_result_reaches_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*FAST, "--out=a\x1b[31mb.json"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "written     a\\x1b[31mb.json and a\\x1b[31mb.txt" in shown


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_timed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("file").write_text("")
    assert main([*FAST, "--out=file/found.json"]) == 2
    assert "no result can be written to file (File exists)" in capsys.readouterr().err
    Path("taken.json").mkdir()
    assert main([*FAST, "--out=taken.json"]) == 2
    assert "--out taken.json is a folder: name a file" in capsys.readouterr().err


def test_help_says_which_side_is_reduced(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["mamf", "--help"])
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "K is the side that is reduced" in shown
    assert "--m-range 0 5376 256 is 256 to 5120, 20 values" in shown


def test_quick_on_a_cpu_says_what_was_changed(
    monkeypatch: pytest.MonkeyPatch, quiet: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Timed by formula here; what it takes on this machine is in docs/how-to/mamf.md."""
    monkeypatch.setattr(
        "pytest_gpuperf.mamf.timing.MatmulTimer.time",
        lambda _, shape, calls: (shape[0] * 1e-6 + 1e-3,) * calls,
    )
    assert main(["mamf", "--quick", "--device=cpu", "--dtype=bf16"]) == 0
    out = capsys.readouterr().out
    assert (
        "changed     on a CPU quick is M 64 to 1216 by 64, N 512, K 512: 19 shapes (on a GPU" in out
    )
    assert "at M=1216 N=512 K=512" in out
