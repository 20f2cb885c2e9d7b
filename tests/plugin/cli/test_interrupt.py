"""Ctrl-C while traces are analyzed: what was done is told, with one line and status 130."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kineto import KinetoTrace

LIMIT_S = 120.0

HELD = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has it ignored
from gpuperf_analyzers import set_analysis
whole = set_analysis.analyze
left = int(os.environ["HELD_AFTER"])

def held(trace, config):
    # As an analysis that takes long, once so many are done.
    global left
    if left == 0:
        print("held", file=sys.stderr, flush=True)
        time.sleep(100)
    left -= 1
    return whole(trace, config)

set_analysis.analyze = held
from pytest_gpuperf.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def four(tmp_path: Path) -> list[str]:
    """Ranks whose kernel takes 10, 20, 30 and 40 of the step's 100 µs."""
    paths = []
    for rank in range(4):
        trace = KinetoTrace(rank=rank, world_size=4)
        with trace.step(1, at=0, dur=100):
            trace.launch("gemm", at=5, runs=(10, 20 + 10 * rank), stream=7)
        paths.append(str(trace.write(tmp_path / f"rank{rank}.json")))
    return paths


def ended_by_ctrl_c(arguments: Sequence[str], after: int) -> tuple[int, str, str]:
    """Status, output and error of the command, with SIGINT while analysis `after` + 1 runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", HELD, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "HELD_AFTER": str(after), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert process.stderr is not None
    try:
        said = ""
        while "held\n" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    return process.returncode, out, said.replace("held\n", "") + err


def test_check_judges_the_ranks_that_were_done(four: list[str]) -> None:
    arguments = ["check", *four, "--min-gpu-util", "5%", "--json", "--no-cache"]
    status, out, err = ended_by_ctrl_c(arguments, after=2)
    assert (status, err) == (130, "gpuperf: interrupted: 2 of 4 ranks are analyzed\n")
    told = json.loads(out)
    assert told["traces"] == four[:2]
    assert list(told["failed"].values()) == [f"{p}: not analyzed: interrupted" for p in four[2:]]


def test_check_of_one_trace_has_nothing_to_tell(four: list[str]) -> None:
    arguments = ["check", four[0], "--min-gpu-util", "5%", "--no-cache"]
    assert ended_by_ctrl_c(arguments, after=0) == (130, "", "gpuperf: interrupted\n")


@pytest.mark.parametrize("after", [0, 1, 3])
def test_compare_compares_whole_sides_only(four: list[str], after: int) -> None:
    # Of two ranks each: the first side is done after two analyses.
    before, after_folder = (Path(four[0]).parent / side for side in ("before", "after"))
    for folder, paths in ((before, four[:2]), (after_folder, four[2:])):
        folder.mkdir()
        for path in paths:
            Path(path).rename(folder / Path(path).name)
    arguments = ["compare", str(before), str(after_folder), "--no-cache"]
    status, out, err = ended_by_ctrl_c(arguments, after)
    assert (status, out) == (130, "")
    assert err.endswith("gpuperf: interrupted: nothing is compared\n")


def test_tables_are_of_the_ranks_that_were_done(four: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    status, out, err = ended_by_ctrl_c(["report", *four, "--tables", str(folder)], after=3)
    assert (status, err) == (130, "gpuperf: interrupted: 3 of 4 ranks are analyzed\n")
    assert {Path(line) for line in out.splitlines()} == set(folder.iterdir())
    with (folder / "values.csv").open() as file:
        assert {row["in_rank"] for row in csv.DictReader(file)} == {"rank 0", "rank 1", "rank 2"}


def test_tables_of_a_report_are_of_the_measurements_that_were_done(
    four: list[str], tmp_path: Path
) -> None:
    results = [{"test": f"t.py::t{i}", "name": "", "traces": [path]} for i, path in enumerate(four)]
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"schema": 1, "results": results}))
    folder = tmp_path / "tables"
    status, out, err = ended_by_ctrl_c(["report", str(report), "--tables", str(folder)], after=2)
    assert status == 130
    assert err == "gpuperf: interrupted: 2 of 4 measurements' traces are analyzed\n"
    assert {Path(line) for line in out.splitlines()} == set(folder.iterdir())
    with (folder / "trace_values.csv").open() as file:
        assert {row["test"] for row in csv.DictReader(file)} == {"t.py::t0", "t.py::t1"}
