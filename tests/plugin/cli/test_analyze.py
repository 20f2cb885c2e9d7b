"""`gpuperf analyze` on synthetic traces whose numbers are worked out by hand."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kineto import KinetoTrace
from pytest_gpuperf.cli import main


def _rank(folder: Path, rank: int, comm_until: float) -> Path:
    """A step of 100 µs: compute 20 to 60, communication 40 to `comm_until`, idle after that."""
    trace = KinetoTrace(device=rank, rank=rank, world_size=2)
    with trace.step(1, at=0, dur=100):
        trace.launch("gemm", at=5, runs=(20, 60))
        trace.launch(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL", at=9, runs=(40, comm_until), stream=9
        )
    return trace.write(folder / f"rank{rank}.json")


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """Two ranks: communication 40 µs with 20 hidden, and 60 µs with 20 hidden."""
    folder = tmp_path / "pair"
    folder.mkdir()
    _rank(folder, 0, comm_until=80)
    _rank(folder, 1, comm_until=100)
    return folder


def _json(capsys: pytest.CaptureFixture[str], *argv: str) -> dict:
    assert main(["analyze", "--json", *argv]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_values_of_a_hand_drawn_trace(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = _json(capsys, str(pair / "rank0.json"))["values"]
    # The window is 20 to 80: busy throughout; the step's is 20 to 100, its last 20 µs idle.
    got = {n: values[n]["value"] for n in ("window", "busy", "compute_time", "comm_time")}
    assert got == {"window": 60.0, "busy": 1.0, "compute_time": 40.0, "comm_time": 40.0}
    assert (values["step_time"]["value"], values["idle_time"]["value"]) == (80.0, 20.0)
    assert (values["overlap"]["value"], values["exposed_comm"]["value"]) == (0.5, 20.0)


def test_a_set_is_judged_by_its_worst_rank_which_is_named(
    pair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = _json(capsys, str(pair))
    overlap = document["values"]["overlap"]
    assert (overlap["value"], overlap["at"]) == (pytest.approx(1 / 3), "rank 1")
    spread = document["spread"]["exposed_comm"]
    assert (spread["mean"], spread["lowest"], spread["highest"]) == (30.0, 20.0, 40.0)
    assert [r["rank"] for r in document["ranks"]] == [0, 1]


def test_a_value_that_a_trace_cannot_give_says_why(
    pair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = _json(capsys, str(pair))["values"]
    absent = {name: v for name, v in values.items() if v["value"] is None}
    assert all(v["absent_reason"] for v in absent.values())
    assert "live run" in absent["throughput"]["absent_reason"]
    assert {"tflops", "mfu", "busbw", "peak_memory", "gpu_util"} <= set(absent)


def test_the_csv_has_a_line_a_metric_and_a_line_a_step(
    pair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", "--csv", str(pair)]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    picked = [(r["rank"], r["step"], r["value"]) for r in rows if r["metric"] == "exposed_comm"]
    assert picked == [("0", "", "20.0"), ("0", "1", "20.0"), ("1", "", "40.0"), ("1", "1", "40.0")]


@pytest.mark.parametrize("width", ["80", "100", "120"])
def test_what_a_person_reads_fits_the_width_and_is_plain_when_piped(
    pair: Path, width: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert main(["analyze", "--step", "all", "--rank", "all", str(pair)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= int(width)
    assert "\x1b" not in out
    assert not [line for line in out.splitlines() if line != line.rstrip()]
    assert "rank 1" in out
    assert "33.3%" in out


def test_the_rank_shown_in_full_is_the_slowest_unless_asked_for(
    pair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = KinetoTrace(device=1, rank=1, world_size=2)
    with slow.step(1, at=0, dur=500):
        slow.launch("gemm", at=5, runs=(20, 400))
    slow.write(pair / "rank1.json")
    main(["analyze", str(pair)])
    assert "rank1.json" in capsys.readouterr().out
    main(["analyze", "--rank", "0", str(pair)])
    assert "rank0.json" in capsys.readouterr().out


def test_one_step_can_be_looked_at(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "--step", "1", str(pair / "rank0.json")]) == 0
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if line.startswith("length"))
    assert "80.00 µs" in line


def test_a_step_that_is_not_there_is_told_with_those_that_are(
    pair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", "--step", "7", str(pair)]) == 2
    assert "there are 1" in capsys.readouterr().err


def test_hostile_names_reach_the_terminal_as_harmless_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = (
        "[red]evil[/red]",
        "\x1b[31mred\r\n",
        "x" * 100_000,
        "[/nothing]",
        "\u202ertl",
        "=cmd()",
    )
    trace = KinetoTrace(device_name="\x1b]0;title\x07")
    for i, name in enumerate(names):
        trace.op(name, at=10 * i, dur=9)
        trace.launch(name, at=10 * i + 1, runs=(10 * i + 5, 10 * i + 9))
    path = trace.write(tmp_path / "hostile.json")
    assert main(["analyze", str(path)]) == 0
    out = capsys.readouterr().out
    assert "[red]evil[/red]" in out
    assert not set(out) & {"\x1b", "\r", "\x07", "\u202e"}
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("content", "said"),
    [("no trace", "not a Kineto trace"), ("{}", "traceEvents"), ("<html>", "HTML"), ("", "empty")],
)
def test_what_is_no_trace_is_one_line_and_status_2(
    content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "what.json"
    path.write_text(content)
    assert main(["analyze", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert said in captured.err
    assert "what.json" in captured.err


def test_a_bad_file_of_a_set_is_told_and_the_others_are_shown(
    pair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (pair / "rank2.json").write_text("broken")
    assert main(["analyze", str(pair)]) == 2
    captured = capsys.readouterr()
    assert "rank2.json" in captured.err
    assert "rank 1" in captured.out


def test_a_missing_file_and_a_wrong_option_are_status_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["analyze", "nowhere.json"]) == 2
    for argv in (["analyze"], ["analyze", "--top", "0", "x"], ["frobnicate"], []):
        with pytest.raises(SystemExit) as stopped:
            main(argv)
        assert stopped.value.code == 2
    assert "nowhere.json" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_traceback(pair: Path) -> None:
    command = [sys.executable, "-m", "pytest_gpuperf.cli", "analyze", "--json", str(pair)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.close()
        assert child.stderr is not None
        assert child.stderr.read() == b""


def test_starting_the_command_imports_no_heavy_library() -> None:
    code = (
        "import sys, pytest_gpuperf.cli as c\n"
        "try: c.main(['--version'])\n"
        "except SystemExit: pass\n"
        "c.main(['metrics', '--json'])\n"
        "heavy = {'numpy', 'pandas', 'torch', 'rich', 'scipy', 'pynvml', 'pytest'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "HEAVY []" in done.stderr


def test_the_first_line_is_the_summary_of_the_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    t = KinetoTrace()
    with t.step(1, at=0, dur=100):
        t.launch("gemm", at=0, runs=(1, 20))
        t.event("enumerate(DataLoader)#_Iter.__next__", "user_annotation", 20, 60)
        t.launch("gemm", at=85, runs=(90, 100))
    assert main(["analyze", str(t.write(tmp_path / "t.json"))]) == 0
    # 70 of 99 µs idle, 60 of them in the loader.
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("The GPU waits 71% of the step for the CPU: it loads the next batch")
