"""``gpuperf sweep`` as its user sees it: failures noted, killed, resumed, interrupted, misused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf.cli import main

pytest.importorskip("torch")

STEPS = str(Path(__file__).with_name("steps.py"))
QUICK = ["--device=cpu", "--warmup=0.001", "--max-time=0.001", "--steps=1", "--out=r.json"]
LIMIT_S = 240.0
HEARS_CTRL_C = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has it ignored
from pytest_gpuperf.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache, locks and a working directory of our own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUPERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("COLUMNS", "200")


def _sweep(function: str, *arguments: str) -> int:
    return main(["sweep", f"{STEPS}:{function}", *QUICK, *arguments])


def _result() -> dict[str, Any]:
    return json.loads(Path("r.json").read_text())


def _left(folder: Path) -> list[str]:
    """Command lines of processes that name `folder`."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = line.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in text:
            found.append(text)
    return found


def _until(true: Any) -> None:
    end = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_each_way_to_fail_is_told_and_the_sweep_goes_on(tmp_path: Path, capsys) -> None:
    # 64 GiB on top of torch's own do not fit 4 GiB.
    status = _sweep("double", "--axis=fail=raise,segv,oom,no", "--axis=size=8",
                    "--memory-limit=4GiB", "--timeout=120s")  # fmt: skip
    assert status == 0
    document = _result()
    raised, segv, oom, fine = document["results"]
    assert (raised["status"], segv["status"]) == ("crash", "crash")
    assert raised["detail"].startswith("RuntimeError: wrong on purpose at ")
    assert "steps.py" in raised["stack"]
    assert "second line" in raised["stack"]
    assert "killed by SIGSEGV" in segv["detail"]
    assert "in step" in segv["stack"]
    assert oom["status"] == "out of memory"
    assert "68719476736 bytes" in oom["detail"]
    assert fine["status"] == "measured"
    assert fine["metrics"]["step_time"]["value"] > 0
    # 8 floats thrice: the vector, what the first call returned and is kept, and a call's result.
    assert fine["metrics"]["peak_memory"]["value"] == 3 * 8 * 4
    assert fine["metrics"]["mfu"]["value"] is None
    assert fine["metrics"]["mfu"]["absent_reason"]
    assert document["counts"] == {"crash": 2, "out of memory": 1, "measured": 1}
    shown = capsys.readouterr().out
    assert "fail=raise size=8: crash: RuntimeError: wrong on purpose" in shown
    assert not _left(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith("gpuperf-point")) == []
    assert not Path("r.journal.jsonl").exists()


def test_a_hang_names_where_it_is_stuck(tmp_path: Path) -> None:
    # Whatever the machine's load: the limit is doubled until torch's import is not what takes it.
    for seconds in (8, 16, 32, 64, 128):
        assert _sweep("double", "--axis=size=8", "--axis=fail=hang", f"--timeout={seconds}s") == 1
        (point,) = _result()["results"]
        assert point["status"] == "hang"
        assert point["detail"].startswith(f"still running after {seconds} s")
        if "in call 1 of the step" in point["detail"]:
            break
    assert "time.sleep(1000)" in point["detail"]
    assert "in step" in point["stack"]
    assert not _left(tmp_path)


def test_killed_in_the_middle_and_resumed_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    log, hold, sizes = tmp_path / "begun", tmp_path / "hold", [4, 5, 6]
    hold.write_text("5")
    command = [sys.executable, "-m", "pytest_gpuperf.cli", "sweep", f"{STEPS}:double", *QUICK,
               "--axis=size=4,5,6", f"--axis=log={log}", f"--axis=hold={hold}"]  # fmt: skip
    journal = Path("r.journal.jsonl")
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        # The second point is under way: the first is in the journal, and its step was made.
        _until(lambda: log.exists() and log.read_text().count("\n") == 2)
        before = journal.read_text().splitlines()
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    _until(lambda: not _left(tmp_path / "gpuperf-point"))
    _until(lambda: not list(tmp_path.glob("gpuperf-point-*")))
    hold.unlink()
    assert len(before) == 2
    assert json.loads(before[1])["values"] == {"size": 4, "log": str(log), "hold": str(hold)}
    with journal.open("a") as file:
        file.write('{"index": 1, "val')  # what a killed process may leave
    assert subprocess.run([*command, "--resume"], capture_output=True, check=False).returncode == 0
    document = _result()
    assert [r["values"]["size"] for r in document["results"]] == sizes
    assert [r["index"] for r in document["results"]] == [0, 1, 2]
    assert document["replayed"] == 1
    assert document["stopped"] == ""
    assert document["results"][0] == json.loads(before[1])
    # The first was begun once; the second, which was killed, twice.
    assert log.read_text().split() == ["4", "5", "5", "6"]
    assert not journal.exists()


def test_ctrl_c_leaves_what_is_done_and_no_process(tmp_path: Path) -> None:
    log = tmp_path / "begun"
    command = [sys.executable, "-c", HEARS_CTRL_C, "sweep", f"{STEPS}:double", *QUICK,
               "--axis=fail=no,hang", "--axis=size=4", f"--axis=log={log}"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _until(lambda: log.exists() and log.read_text().count("\n") == 2)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert "--resume goes on" in out
    assert "1 measured, 1 left" in out
    document = _result()
    assert (document["stopped"], document["done"], document["points"]) == ("interrupted", 1, 2)
    assert not _left(tmp_path / "gpuperf-point")


def test_ranks_meet_in_a_group_and_the_worst_is_told() -> None:
    arguments = ["--axis=world_size=2", "--axis=size=1024", "--items=size*world_size"]
    assert _sweep("reduce", *arguments) == 0
    (point,) = _result()["results"]
    assert point["status"] == "measured"
    metrics = point["metrics"]
    # Items of all ranks over the time of the slowest; 2% for the bounds that medians are told in.
    assert metrics["throughput"]["value"] == pytest.approx(
        2048 / metrics["step_time"]["value"] * 1e6, rel=0.02
    )
    assert metrics["step_time"]["at"].startswith("rank ")


def test_torchrun_may_start_the_ranks() -> None:
    launcher = f"{sys.executable} -m torch.distributed.run --nproc-per-node {{world_size}}"
    assert _sweep("reduce", "--axis=world_size=2", "--axis=size=1024",
                  f"--launcher={launcher} --no-python") == 0  # fmt: skip
    (point,) = _result()["results"]
    assert point["status"] == "measured"
    assert point["metrics"]["step_time"]["at"].startswith("rank ")


def test_a_function_that_cannot_be_used_ends_it(capsys) -> None:
    assert _sweep("double", "--axis=sise=1") == 2
    error = capsys.readouterr().err
    assert "called with sise" in error
    assert "Traceback" not in error
    assert not Path("r.journal.jsonl").exists()
    assert not Path("r.json").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "no axis"),
        (["--axis=size"], "write NAME=V1,V2"),
        (["--axis=size=1,1"], "twice"),
        (["--axis=size=1", "--axis=size=2"], "twice"),
        (["--axis=rank=1"], "taken"),
        (["--axis=a b=1"], "keyword"),
        (["--axis=world_size=0"], "no number of ranks"),
        (["--axis=size=nan"], "finite"),
        (["--axis=size=1,,2"], "empty value"),
        (["--axis=size=1", "--timeout=0s"], "above 0"),
        (["--axis=size=1", "--timeout=x"], "--timeout"),
        (["--axis=size=1", "--memory-limit=-1GiB"], "--memory-limit"),
        (["--axis=size=1", "--items=size*foo"], "foo"),
        (["--axis=size=1", "--heat=size,foo"], "--heat"),
        (["--axis=size=1", "--plot=a.txt"], "ends in"),
        (["--axis=size=1", "--resume"], "nothing to resume"),
        (["--axis=size=1", "--grid=none.toml"], "none.toml"),
        (["--axis=size=1", "--launcher=srun"], "world_size"),
        (["--axis=size=1", "--device=tpu"], "tpu"),
    ],
)
def test_misuse_is_one_line_before_anything_runs(arguments, told, capsys) -> None:
    assert _sweep("double", *arguments) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert not Path("r.json").exists()


def test_more_ranks_than_this_machine_holds_are_a_point_not_run(capsys) -> None:
    # At 100 MiB a rank 60,000 take 5.7 TiB.
    _sweep("reduce", "--axis=world_size=60000", "--axis=size=8")
    capsys.readouterr()
    (point,) = _result()["results"]
    assert point["status"] == "not run"
    assert "60,000 ranks cannot be started here" in point["detail"]


def test_the_example_of_the_documentation_runs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "sweep.md").read_text()
    code = page.partition("```python step\n")[2].partition("```")[0]
    Path("train.py").write_text(code)
    status = main(
        ["sweep", "train.py:make_step", *QUICK, "--axis=micro_batch=16",
         "--axis=precision=bf16", "--items=micro_batch*accumulation", "--axis=accumulation=2"]
    )  # fmt: skip
    assert status == 0
    document = _result()
    assert document["counts"] == {"measured": 1}
    assert document["judged_by"] == "throughput"
    metrics = document["results"][0]["metrics"]
    # Of each layer the product forward and the weight's gradient, of the second one the input's
    # too; 2 FLOP a multiply-add, twice for the accumulation.
    flop = 2 * 2 * 16 * 64 * 256 * (2 + 3)
    step_us = metrics["step_time"]["value"]
    assert metrics["tflops"]["value"] * step_us * 1e6 == pytest.approx(flop, rel=0.02)
    assert metrics["throughput"]["value"] * step_us / 1e6 == pytest.approx(32, rel=0.02)
