"""``measure_ddp`` with real ranks: torch, gloo and a profiler in two processes on the CPU."""

import gzip
import json
import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from pytest_gpuperf.ranks import RankError, RankOutcome, State
from pytest_gpuperf.recording import Options
from pytest_gpuperf.session.ddp import measure_ddp, run_ddp_once
from pytest_gpuperf.session.ddp_failure import RankFailure, failure_of
from pytest_gpuperf.session.ddp_plan import check_startable, plan_ranks, threads_per_rank

STEPS = 4
QUICK = Options(warmup_s=0.05, max_time_s=0.2, steps=STEPS, measure_peak=False)
LIMIT_S = 120.0


def make_step(rank, world_size):
    import torch
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32)))
    batch = torch.randn(8, 32)

    def step():
        model.zero_grad()
        model(batch).sum().backward()

    return step


def _on_the_third_call(act, rank, world_size):
    """The step of above that on rank 1 calls `act` instead from its third call on."""
    step, calls = make_step(rank, world_size), iter(range(10**9))

    def faulty():
        if next(calls) >= 2 and rank == 1:
            act()
        else:
            step()

    return faulty


def make_raising(rank, world_size):
    def act():
        raise ValueError("the cat is out of the bag")

    return _on_the_third_call(act, rank, world_size)


def make_killed(rank, world_size):
    return _on_the_third_call(lambda: os.kill(os.getpid(), signal.SIGKILL), rank, world_size)


def make_deserting(rank, world_size):
    return _on_the_third_call(lambda: None, rank, world_size)


def make_sleeping(rank, world_size):
    return _on_the_third_call(lambda: time.sleep(600), rank, world_size)


def make_telling(rank, world_size):
    import torch.distributed as dist

    def step():
        with Path(os.environ["TOLD"]).open("a") as file:
            file.write(f"{rank} of {world_size}, {dist.get_world_size()} {dist.get_backend()}\n")

    return step


def make_not_waiting(rank, world_size):
    import torch
    import torch.distributed as dist

    values = torch.ones(1 << 20)
    started = []

    def step():
        for work in started:
            work.wait()
        started[:] = [dist.all_reduce(values, async_op=True)]

    return step


def make_left_running(rank, world_size):
    """A step that leaves a collective running, and tells when a profiler ends before it does."""
    import torch
    import torch.distributed as dist

    values = torch.ones(1 << 20)
    started = []
    end = torch.autograd.profiler.profile.__exit__

    def told_end(self, *error):
        with Path(os.environ["TOLD"]).open("a") as file:
            file.write(f"{all(work.is_completed() for work in started)}\n")
        return end(self, *error)

    torch.autograd.profiler.profile.__exit__ = told_end

    def step():
        for work in started:
            work.wait()
        time.sleep(0.1 * rank)  # rank 0 has its part of the step behind it, and not the collective
        started[:] = [dist.all_reduce(values, async_op=True)]

    return step


def make_nothing(rank, world_size):
    return None


def _measure(make, folder, *, timeout_s=LIMIT_S, options=QUICK, **settings):
    return measure_ddp(
        make,
        2,
        options=options,
        device="cpu",
        trace_dir=folder,
        stem="test_it[1]",
        timeout_s=timeout_s,
        **settings,
    )


class Timed:
    """An outcome and its folder: one measurement for several tests."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "test_it[1].rank7.pt.trace.json.gz").touch()
        (folder / "test_it1.rank0.pt.trace.json.gz").touch()
        self.outcome = _measure(make_step, folder, name="step")
        self.traces = [
            json.loads(gzip.decompress(path.read_bytes())) for path in self.outcome.trace_paths
        ]


@pytest.fixture(scope="module")
def timed(tmp_path_factory):
    return Timed(tmp_path_factory.mktemp("traces"))


def test_two_ranks_leave_two_traces_and_nothing_else(timed):
    names = [f"test_it[1].rank{r}.pt.trace.json.gz" for r in (0, 1)]
    assert [p.name for p in timed.outcome.trace_paths] == names
    # Rank 7 was of an earlier run of this test; test_it1 is another test's.
    assert sorted(p.name for p in timed.folder.iterdir()) == sorted(
        [*names, "test_it1.rank0.pt.trace.json.gz"]
    )


def test_each_trace_tells_its_rank_and_the_group(timed):
    told = [t["distributedInfo"] for t in timed.traces]
    assert [(i["backend"], i["rank"], i["world_size"]) for i in told] == [
        ("gloo", 0, 2),
        ("gloo", 1, 2),
    ]


def test_each_trace_has_every_step_asked_for_with_its_all_reduce(timed):
    for trace in timed.traces:
        names = [e.get("name", "") for e in trace["traceEvents"] if e.get("ph") == "X"]
        steps = {n for n in names if n.startswith("ProfilerStep#")}
        assert len(steps) == STEPS
        # One bucket holds all gradients of so small a model: one all-reduce a step. None of the
        # collectives by which the ranks agree on counts may be among them.
        assert [n for n in names if n.startswith("gloo:")] == ["gloo:all_reduce"] * STEPS


def test_each_rank_took_the_same_number_of_samples_and_has_its_own(timed):
    first, second = timed.outcome.blocks
    assert len(first.samples_us) == len(second.samples_us) >= 3
    assert first.samples_us != second.samples_us
    assert (first.name, first.device_type, first.steps) == ("step", "cpu", STEPS)
    assert first.warmup_calls == second.warmup_calls


def test_the_block_in_a_trace_is_the_one_that_came_back(timed):
    for block, trace in zip(timed.outcome.blocks, timed.traces, strict=True):
        raw = trace["gpuperf"]
        raw = json.loads(raw) if isinstance(raw, str) else raw
        assert raw["samples_us"] == list(block.samples_us)


def test_a_rank_has_its_share_of_the_cores(timed):
    assert threads_per_rank(10**6) == 1
    assert timed.outcome.blocks[0].environment["threads"] == str(threads_per_rank(2))


def test_an_exception_in_a_step_comes_with_its_rank_and_the_users_traceback(tmp_path):
    with pytest.raises(RankFailure) as caught:
        _measure(make_raising, tmp_path)
    first, *traceback = str(caught.value).splitlines()
    assert first == (
        "gpuperf.ddp: rank 1 of 2 raised ValueError in call 3 of the step: "
        "the cat is out of the bag"
    )
    assert f'File "{__file__}"' in traceback[1]
    assert traceback[-1] == "ValueError: the cat is out of the bag"
    assert caught.value.rank == 1
    assert not list(tmp_path.iterdir())


def test_a_killed_rank_is_named_with_the_signal(tmp_path):
    with pytest.raises(
        RankFailure, match=r"^gpuperf\.ddp: rank 1 of 2 was killed by SIGKILL in call 3 of the step"
    ):
        _measure(make_killed, tmp_path)
    assert not list(tmp_path.iterdir())


def _hang(make, folder, *stood):
    """The failure of a hang and its folder: the limit is doubled until ranks stand as in `stood`.

    On a busy machine a limit may be over before they come there.
    """
    for timeout_s in (10.0, 20.0, 40.0, 80.0, 160.0):
        within = folder / f"{timeout_s:g}"
        within.mkdir()
        with pytest.raises(RankFailure) as caught:
            _measure(make, within, timeout_s=timeout_s)
        assert f"hung: still running after {timeout_s:g} s" in str(caught.value)
        if all(re.search(f"^{each}$", str(caught.value), re.MULTILINE) for each in stood):
            break
    return caught.value, within


def test_a_rank_that_sleeps_is_named_and_not_the_one_that_waits_for_it(tmp_path):
    sleeps = r"rank 1: in call 3 of the step, at .*test_ddp\.py:\d+ in .* \(.*time\.sleep.*\)"
    waits = r"rank 0: in call 3 of the step, waiting at .*backward\(\)\)"
    failure, folder = _hang(make_sleeping, tmp_path, sleeps, waits)
    lines = str(failure).splitlines()
    assert failure.rank == 1
    assert re.fullmatch(sleeps, lines[1])
    assert re.fullmatch(waits, lines[2])
    saved = [Path(p) for p in lines[3].partition(": ")[2].split(", ")]
    assert sorted(saved) == sorted(folder.iterdir())
    assert all("most recent call first" in p.read_text() for p in saved)


def test_a_rank_left_alone_in_a_collective_is_told_where_it_waits(tmp_path):
    waits = r"rank 0: in call 3 of the step, waiting at .*backward\(\)\)"
    left = r"rank 1: after call \d+ of the step, waiting for the other ranks, between calls"
    failure, _ = _hang(make_deserting, tmp_path, waits, left)
    lines = str(failure).splitlines()
    assert failure.rank == 0
    assert re.fullmatch(waits, lines[1])
    assert re.fullmatch(left, lines[2])


def test_make_step_that_makes_no_step_is_told_so(tmp_path):
    with pytest.raises(RankFailure, match=r"must return the step, a function without arguments; "):
        _measure(make_nothing, tmp_path)


def test_the_span_of_the_last_collective_ends_when_the_collective_does(tmp_path):
    outcome = _measure(make_not_waiting, tmp_path)
    for path in outcome.trace_paths:
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        spans = [e for e in events if e.get("name", "").startswith("gloo:")]
        # The first may have been begun by the step before the profiler; the last must be there.
        assert len(spans) >= STEPS
        assert not [e for e in spans if str(e["args"].get("finished", True)).lower() == "false"]


def test_no_profiler_ends_before_a_collective_that_began_under_it(tmp_path, monkeypatch):
    told = tmp_path / "told"
    monkeypatch.setenv("TOLD", str(told))
    options = replace(QUICK, breakdown=True, trend_steps=2)
    _measure(make_left_running, tmp_path, options=options)
    # On either rank: the lead-in and the recorded steps, the memory pass' own two, and two steps
    # of the trend. One that ended too early would corrupt the memory of the process.
    assert told.read_text().split() == ["True"] * 12


def make_on_gpu(rank, world_size):
    import torch
    import torch.distributed as dist

    values = torch.ones(1 << 20, device="cuda")
    return lambda: dist.all_reduce(values)


def test_on_gpus_each_rank_has_its_own_and_nccl_carries_the_collectives(tmp_path):
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("NCCL needs a GPU a rank; there are fewer than 2")
    outcome = measure_ddp(
        make_on_gpu,
        2,
        options=QUICK,
        device="cuda:0",
        trace_dir=tmp_path,
        stem="gpu",
        timeout_s=LIMIT_S,
    )
    assert (outcome.backend, outcome.device_type) == ("nccl", "cuda")
    for rank, path in enumerate(outcome.trace_paths):
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        kernels = [e for e in events if e.get("cat") == "kernel" and "nccl" in e["name"].lower()]
        assert len(kernels) == STEPS
        assert {e["args"]["device"] for e in kernels} == {rank}


def test_run_once_calls_the_step_of_each_rank_once_in_the_group(tmp_path, monkeypatch):
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    folder = tmp_path / "work"
    run_ddp_once(make_telling, 2, device="cpu", workdir=folder, timeout_s=LIMIT_S)
    told = sorted((tmp_path / "told").read_text().splitlines())
    assert told == ["0 of 2, 2 gloo", "1 of 2, 2 gloo"]
    assert not list(folder.iterdir())


def test_a_local_make_step_is_refused_before_any_process_starts(tmp_path):
    def make(rank, world_size):
        return lambda: None

    with pytest.raises(ValueError, match="defined inside another function"):
        _measure(make, tmp_path)
    with pytest.raises(ValueError, match="is a lambda"):
        _measure(lambda rank, world_size: print, tmp_path)


def test_what_cannot_be_sent_to_the_ranks_is_refused(tmp_path):
    with pytest.raises(ValueError, match="decided cannot be sent to the ranks"):
        _measure(make_step, tmp_path, decided=lambda samples: True)


@pytest.mark.parametrize("world_size", [0, -1, 1.5, True, "2"])
def test_a_world_size_that_is_no_count_is_refused(tmp_path, world_size):
    with pytest.raises(ValueError, match="world_size must be a whole number from 1"):
        measure_ddp(
            make_step,
            world_size,
            options=QUICK,
            device="cpu",
            trace_dir=tmp_path,
            stem="x",
            timeout_s=1,
        )


@pytest.mark.parametrize(
    ("backend", "device", "gpus", "ranks_on"),
    [
        ("auto", "cpu", 8, ("gloo", "cpu")),
        ("gloo", "cpu", 8, ("gloo", "cpu")),
        ("auto", "cuda:0", 2, ("nccl", "cuda")),
        ("nccl", "cuda:0", 2, ("nccl", "cuda")),
        ("gloo", "cuda:0", 2, ("gloo", "cuda")),
        ("auto", "cuda:0", 1, ("gloo", "cpu")),
        ("gloo", "cuda:0", 1, ("gloo", "cuda")),
    ],
)
def test_auto_is_nccl_where_there_is_a_gpu_a_rank(backend, device, gpus, ranks_on, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    plan = plan_ranks(backend, device, 2)
    assert (plan.backend, plan.device_type) == ranks_on
    # Only what differs from the asked-for device is worth a note.
    assert bool(plan.notes) == (device != "cpu" and gpus < 2)


@pytest.mark.parametrize(
    ("backend", "device", "reason"),
    [
        ("nccl", "cpu", "'nccl' needs GPUs, but this test's device is cpu"),
        ("nccl", "cuda:0", "2 ranks, 1 GPUs here"),
        ("mpi", "cpu", "must be 'auto', 'gloo' or 'nccl', not 'mpi'"),
    ],
)
def test_a_backend_that_cannot_be_had_is_refused(backend, device, reason, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with pytest.raises(ValueError, match=reason):
        plan_ranks(backend, device, 2)


@pytest.mark.parametrize(("ranks", "refused"), [(40, False), (41, True), (100_000, True)])
def test_ranks_are_bounded_by_the_memory_that_their_processes_take(ranks, refused, monkeypatch):
    """4,000 MiB hold 40 ranks of 100 MiB."""
    monkeypatch.setattr(
        "pytest_gpuperf.session.ddp_plan.host_capacity", lambda: (4000 * 2**20, "the group's limit")
    )
    if not refused:
        check_startable(ranks)
        return
    with pytest.raises(
        ValueError, match=r"100 MiB a process.*the group's limit \(3\.9 GiB\).* 40;"
    ):
        check_startable(ranks)


def _raised(rank, message, ended_s):
    error = RankError("RuntimeError", message, f"RuntimeError: {message}")
    return RankOutcome(rank, State.RAISED, error=error, ended_s=ended_s)


BROKEN = "[gloo/transport/tcp/pair.cc:1] Connection closed by peer [127.0.0.1]:1"


@pytest.mark.parametrize(
    ("outcomes", "rank"),
    [
        # The broken connection is seen first, but it is what the death of rank 1 looks like.
        ([_raised(0, BROKEN, 1.0), RankOutcome(1, State.KILLED, ended_s=1.1)], 1),
        ([_raised(0, BROKEN, 1.0), _raised(1, "out of range", 1.1)], 1),
        ([_raised(0, BROKEN, 1.0), RankOutcome(1, State.EXITED, exit_status=0, ended_s=1.1)], 1),
        ([_raised(0, BROKEN, 1.0), _raised(1, BROKEN, 1.1)], 0),
        ([_raised(0, "out of range", 1.2), _raised(1, "out of range", 1.1)], 1),
        ([RankOutcome(0, State.STOPPED, ended_s=2.0), _raised(1, BROKEN, 1.1)], 1),
    ],
)
def test_the_cause_is_named_and_not_the_ranks_whose_collectives_broke(outcomes, rank, tmp_path):
    assert failure_of(outcomes, 5.0, stacks_stem=tmp_path / "x").rank == rank


def test_ranks_that_all_hang_alike_are_all_named(tmp_path):
    outcomes = [RankOutcome(r, State.HUNG, stage="in make_step") for r in (0, 1)]
    failure = failure_of(outcomes, 5.0, stacks_stem=tmp_path / "x")
    assert failure.rank is None
    assert str(failure).startswith("gpuperf.ddp: ranks 0, 1 of 2 hung: still running after 5 s")
    assert "rank 0: in make_step; it gave no stack" in str(failure)


def test_a_failed_rank_fails_the_test_with_its_text_once_and_no_traceback_of_ours(pytester):
    pytester.makepyfile(
        """
        def make_step(rank, world_size):
            raise ValueError(f"the cat of rank {rank} is out of the bag")

        def test_it(gpuperf):
            gpuperf.ddp(make_step, world_size=1)
        """
    )
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    text, _, _ = result.stdout.str().partition("short test summary info")
    assert text.count("gpuperf.ddp: rank 0 of 1 raised ValueError in make_step: the cat") == 1
    assert "During handling of the above exception" not in text
    assert "session/fixture.py" not in text
