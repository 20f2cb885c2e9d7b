"""``measure_ddp`` where torchrun has started the ranks: each joins, all agree, one reports."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time

import psutil
import pytest

pytest.importorskip("torch")

from pytest_gpuperf.session.ddp_place import first_host, tasks_of_nodes, torchrun_place

STEPS = """
def make_step(rank, world_size):
    import torch
    import torch.distributed as dist
    values = torch.ones(8)
    return lambda: dist.all_reduce(values)

def make_killed(rank, world_size):
    import os
    step = make_step(rank, world_size)
    def faulty():
        step()
        if rank == int(os.environ["KILLED"]):
            os.kill(os.getpid(), 9)
    return faulty

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
        run_ddp_once(steps.make_step, 2, device="cpu", workdir=folder / "once", timeout_s=900)
    outcome = measure_ddp(
        getattr(steps, function), world_size,
        options=Options(warmup_s=0.05, max_time_s=0.1, steps=2),
        device="cpu", trace_dir=folder / "traces", stem="joined",
        timeout_s=float(os.environ.get("LIMIT_S", 900)),
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


def _run(commands, timeout_s=300, cwd=None):
    """Outputs of commands that run side by side; none of them or of what they started remains."""
    processes = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **env},
            cwd=cwd,
            text=True,
        )
        for command, env in commands
    ]
    until = time.monotonic() + timeout_s
    try:
        outputs = [p.communicate(timeout=max(until - time.monotonic(), 1))[0] for p in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
    return [p.returncode for p in processes], outputs


def _torchrun(*arguments):
    return [sys.executable, "-m", "torch.distributed.run", *arguments]


def _under_torchrun(folder, function, world_size=2):
    """What each of two ranks under torchrun said of measuring `function`."""
    (folder / "steps.py").write_text(STEPS)
    (folder / "program.py").write_text(textwrap.dedent(PROGRAM))
    program = (str(folder / "program.py"), str(folder), function, str(world_size))
    (status,), (output,) = _run(
        [(_torchrun("--standalone", "--nproc-per-node", "2", *program), {})]
    )
    assert status == 0, output
    return [json.loads((folder / f"said.{rank}").read_text()) for rank in (0, 1)]


def test_each_rank_joins_and_has_the_same_outcome_and_rank_0_reports(tmp_path):
    first, second = _under_torchrun(tmp_path, "make_step")
    assert (first.pop("reporter"), second.pop("reporter")) == (True, False)
    assert first == second
    assert first["traces"] == [f"joined.rank{r}.pt.trace.json.gz" for r in (0, 1)]
    assert sorted(p.name for p in (tmp_path / "traces").iterdir()) == first["traces"]
    assert len(first["samples"][0]) == len(first["samples"][1]) >= 3


def test_a_rank_that_raises_fails_the_test_on_every_rank_and_leaves_no_trace(tmp_path):
    # Rank 0 waits for it in a collective, and is not left there to the time limit of 900 s.
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


HANGING = """
import time
import pytest

def make_step(rank, world_size):
    import torch
    import torch.distributed as dist
    values, calls = torch.ones(8), iter(range(10**9))
    def step():
        if next(calls) == 2 and rank == {stuck}:
            time.sleep(600)
        dist.all_reduce(values)
    return step

@pytest.mark.gpuperf(timeout="{limit}s", warmup="50ms", max_time="50ms")
def test_hangs(gpuperf):
    gpuperf.ddp(make_step, world_size=2)

@pytest.mark.gpuperf(timeout="{limit}s", warmup="50ms", max_time="50ms")
def test_later(gpuperf):
    gpuperf.ddp(make_step, world_size=2)
"""


def _processes_of(folder):
    """Processes whose command names `folder`, which is this test's alone."""
    return [p.pid for p in psutil.process_iter() if str(folder) in " ".join(_command(p))]


def _command(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.parametrize("stuck", [0, 1])
def test_a_rank_that_hangs_under_torchrun_is_named_by_the_others_and_ends(tmp_path, stuck):
    locks = tmp_path / "locks"
    locks.mkdir()
    pytest_ = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", str(tmp_path))
    command = _torchrun("--standalone", "--nproc-per-node", "2", *pytest_)
    sleeps = rf"rank {stuck}: in call 3 of the step, at .*test_it.py:\d+ in step \(time.sleep"
    waits = (
        rf"rank {1 - stuck}: in call 3 of the step, waiting at .*test_it.py:\d+ in step "
        r"\(dist.all_reduce"
    )
    for limit in (10, 30, 90):  # a busy machine may take longer to come to the call that hangs
        text = HANGING.replace("{stuck}", str(stuck)).replace("{limit}", str(limit))
        (tmp_path / "test_it.py").write_text(text)
        # A temporary folder of its own: no wait for what else is measured on this machine.
        (status,), (output,) = _run([(command, {"TMPDIR": str(locks)})], cwd=tmp_path)
        assert status != 0
        if re.search(sleeps, output) and re.search(waits, output):
            break
    assert f"gpuperf.ddp: rank {stuck} of 2 hung: still running after {limit} s" in output, output
    assert re.search(sleeps, output)
    assert re.search(waits, output)
    assert "gpuperf.ddp: not measured: an earlier measurement failed" in output
    assert not _processes_of(tmp_path)


def test_two_hosts_without_a_common_folder_give_rank_0_every_trace(tmp_path):
    hosts = [tmp_path / "host0", tmp_path / "host1"]
    for host in hosts:
        host.mkdir()
        (host / "steps.py").write_text(STEPS)
        (host / "program.py").write_text(textwrap.dedent(PROGRAM))
    rendezvous = ("--master-addr", "127.0.0.1", "--master-port", str(_free_port()))
    commands = [
        _torchrun(
            *("--nnodes", "2", "--node-rank", str(node), "--nproc-per-node", "1", *rendezvous),
            *(str(host / "program.py"), str(host), "make_step", "2"),
        )
        for node, host in enumerate(hosts)
    ]
    statuses, outputs = _run([(command, {}) for command in commands])
    assert statuses == [0, 0], outputs
    names = [f"joined.rank{r}.pt.trace.json.gz" for r in (0, 1)]
    assert sorted(p.name for p in (hosts[0] / "traces").iterdir()) == names
    assert [p.name for p in (hosts[1] / "traces").iterdir()] == names[1:]
    copied, own = ((host / "traces" / names[1]).read_bytes() for host in hosts)
    assert copied == own


def _free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def _under_slurm(folder, function, **environment):
    """Statuses and what the ranks said, run as srun runs the two tasks of a step."""
    (folder / "steps.py").write_text(STEPS)
    (folder / "program.py").write_text(textwrap.dedent(PROGRAM))
    step = {
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        **environment,
    }
    program = [sys.executable, str(folder / "program.py"), str(folder), function, "2"]
    statuses, outputs = _run(
        [
            # RANK is the program's own, to name its file; Slurm sets none.
            (program, {**step, "SLURM_PROCID": str(r), "SLURM_LOCALID": str(r), "RANK": str(r)})
            for r in (0, 1)
        ]
    )
    files = [folder / f"said.{rank}" for rank in (0, 1)]
    said = [json.loads(file.read_text()) if file.exists() else outputs for file in files]
    return statuses, said


def test_the_tasks_of_a_slurm_step_are_ranks_without_torchrun(tmp_path):
    statuses, said = _under_slurm(tmp_path, "make_step")
    assert statuses == [0, 0], said
    assert [s["reporter"] for s in said] == [True, False]
    assert sorted(p.name for p in (tmp_path / "traces").iterdir()) == said[0]["traces"]


@pytest.mark.parametrize(
    ("killed", "message"),
    [
        (0, "the process group's store cannot be reached: .* rank 0's, has ended"),
        (1, "rank 1 of 2 left neither a result nor its stacks: its process has ended"),
    ],
)
def test_a_rank_killed_without_torchrun_is_told_by_the_other(tmp_path, killed, message):
    for limit in (8, 32, 128):  # a busy machine may take longer to come to the call that kills
        folder = tmp_path / str(limit)
        folder.mkdir()
        statuses, said = _under_slurm(folder, "make_killed", KILLED=str(killed), LIMIT_S=str(limit))
        if statuses[killed] == -signal.SIGKILL:
            break
    assert statuses[killed] == -signal.SIGKILL
    assert said[1 - killed]["type"] == "RankFailure", said
    assert re.match(f"gpuperf.ddp: {message}", said[1 - killed]["message"])


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ("node1", "node1"),
        ("a,b", "a"),
        ("gpu-[007-009,12]", "gpu-007"),
        ("gpu-[3,5],login", "gpu-3"),
        ("", ""),
    ],
)
def test_the_ranks_of_a_slurm_step_meet_on_its_first_host(nodes, host):
    assert first_host(nodes) == host


def test_slurms_tasks_per_node_are_written_short():
    assert tasks_of_nodes("2(x3),1") == [2, 2, 2, 1]
    assert tasks_of_nodes("8") == [8]


def test_a_single_task_of_slurm_and_a_batch_script_are_no_ranks(monkeypatch):
    for name in ("TORCHELASTIC_RUN_ID", "SLURM_STEP_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_LOCALID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    assert torchrun_place() is None  # a batch script: srun has not been called
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "1")
    assert torchrun_place() is None
