"""``measure_ddp`` where torchrun has started the ranks: each joins, all agree, one reports."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch")

STEPS = """
def make_step(rank, world_size):
    import torch
    import torch.distributed as dist
    values = torch.ones(8)
    return lambda: dist.all_reduce(values)

def make_raising(rank, world_size):
    step = make_step(rank, world_size)
    def faulty():
        step()
        if rank == 1:
            raise ValueError("the cat is out of the bag")
    return faulty
"""

PROGRAM = """
import json, os, sys
from pathlib import Path
import steps
from pytest_gpuperf.recording import Options
from pytest_gpuperf.session.ddp import measure_ddp, run_ddp_once

folder, function, world_size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
try:
    if function == "make_step":
        run_ddp_once(steps.make_step, 2, device="cpu", workdir=folder / "once", timeout_s=30)
    outcome = measure_ddp(
        getattr(steps, function), world_size,
        options=Options(warmup_s=0.05, max_time_s=0.1, steps=2),
        device="cpu", trace_dir=folder / "traces", stem="joined",
        timeout_s=8 if function == "make_raising" else 30,
    )
    said = {
        "reporter": outcome.reporter,
        "traces": [p.name for p in outcome.trace_paths],
        "samples": [b.samples_us for b in outcome.blocks],
    }
except Exception as error:
    said = {"type": type(error).__name__, "message": str(error)}
(folder / f"said.{os.environ['RANK']}").write_text(json.dumps(said))
"""


def _under_torchrun(folder, function, world_size=2):
    """What each of two ranks under torchrun said of measuring `function`."""
    (folder / "steps.py").write_text(STEPS)
    (folder / "program.py").write_text(textwrap.dedent(PROGRAM))
    arguments = ["--standalone", "--nproc-per-node", "2", str(folder / "program.py"), str(folder)]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "torch.distributed.run"),
            *(*arguments, function, str(world_size)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 0, output.decode()
    return [json.loads((folder / f"said.{rank}").read_text()) for rank in (0, 1)]


def test_each_rank_joins_and_has_the_same_outcome_and_rank_0_reports(tmp_path):
    first, second = _under_torchrun(tmp_path, "make_step")
    assert (first.pop("reporter"), second.pop("reporter")) == (True, False)
    assert first == second
    assert first["traces"] == [f"joined.rank{r}.pt.trace.json.gz" for r in (0, 1)]
    assert sorted(p.name for p in (tmp_path / "traces").iterdir()) == first["traces"]
    assert len(first["samples"][0]) == len(first["samples"][1]) >= 3


def test_a_rank_that_raises_fails_the_test_on_every_rank_and_leaves_no_trace(tmp_path):
    first, second = _under_torchrun(tmp_path, "make_raising")
    assert first == second
    assert first["message"].startswith(
        "gpuperf.ddp: rank 1 of 2 raised ValueError: the cat is out of the bag\nTraceback"
    )
    assert not list((tmp_path / "traces").iterdir())


def test_another_number_of_ranks_than_torchrun_started_is_refused(tmp_path):
    said = _under_torchrun(tmp_path, "make_step", world_size=3)
    assert {s["type"] for s in said} == {"ValueError"}
    assert "torchrun started 2 ranks, the test asks for 3" in said[0]["message"]
