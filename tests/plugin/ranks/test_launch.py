"""Ranks are real processes here; what they do is seconds at most."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from pytest_gpuperf.ranks import LaunchError, RankContext, State, Target, launch
from pytest_gpuperf.ranks.files import RankFiles

LONG = 300
"""Seconds that a process would stay if nobody ended it."""
LIMIT_S = 120.0
"""What a launch may take on a busy machine; one that failed does not wait for it."""


def _forget(pid):
    """A process that is none of its parent's group any more: the hardest to find."""
    return subprocess.Popen(
        [sys.executable, "-c", f"import time; time.sleep({LONG})"], start_new_session=True
    ).pid


def says_who_it_is(context: RankContext, payload):
    return [
        context.rank,
        context.world_size,
        payload["word"],
        os.environ["RANK"],
        os.environ["WORLD_SIZE"],
        os.environ.get("ADDED"),
        os.environ.get("REMOVED"),
        # What torchrun sets and a script reads.
        os.environ["LOCAL_RANK"],
        os.environ["LOCAL_WORLD_SIZE"],
        os.environ["MASTER_ADDR"],
        "TORCHELASTIC_RUN_ID" in os.environ,
    ]


def rank_one_raises(context, payload):
    if context.rank == 1:
        context.progress.stage("in the middle")
        context.progress.begin()
        raise KeyError("missing piece")
    time.sleep(LONG)


def rank_one_is_killed(context, payload):
    if context.rank == 1:
        os.write(1, b"last words\n")
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(LONG)


def rank_one_leaves(context, payload):
    if context.rank == 1:
        os._exit(0)
    time.sleep(LONG)


def rank_one_sleeps(context, payload):
    if context.rank == 1:
        context.progress.stage("asleep")
        time.sleep(LONG)
    return "done"


def rank_one_stands_still(context, payload):
    if context.rank == 1:
        context.progress.stage("about to stop")
        os.kill(os.getpid(), signal.SIGSTOP)


def goes_on_after_its_stack(context, payload):
    stacks = RankFiles.of(context.workdir, context.rank).stacks
    before = stacks.stat().st_size
    context.progress.stage("in its work")
    while stacks.stat().st_size == before:
        time.sleep(0.005)
    context.progress.begin()
    time.sleep(LONG)


def crashes(context, payload):
    import ctypes

    ctypes.string_at(0)


def writes_much(context, payload):
    for _ in range(40):
        os.write(2, b"x" * (1 << 20))
    os.write(2, b"\nthe end\n")


def returns_no_json(context, payload):
    return {1, 2}


def leaves_processes(context, payload):
    return _forget(context)


def hangs_with_processes(context, payload):
    Path(payload["pids"], str(context.rank)).write_text(
        json.dumps([os.getpid(), os.getppid(), _forget(context)])
    )
    time.sleep(LONG)


def exits_slowly(context, payload):
    import threading

    threading.Thread(target=time.sleep, args=(LONG,)).start()
    return "value"


def _launch(function, tmp_path, *, size=2, timeout_s=LIMIT_S, **payload):
    return launch(
        Target.of(function),
        size,
        payload=payload,
        timeout_s=timeout_s,
        workdir=tmp_path,
        env={"ADDED": "yes", "REMOVED": None},
    )


def _gone(pids, within_s=10.0):
    """Whether none of `pids` lives on (a zombie has ended)."""
    until = time.monotonic() + within_s
    while alive := [pid for pid in pids if not _ended(pid)]:
        if time.monotonic() > until:
            break
        time.sleep(0.02)
    return not alive


def _ended(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _hung(function, tmp_path, stage):
    """Both outcomes where rank 1 hangs, and the limit: doubled until it reaches its `stage`."""
    for timeout_s in (8.0, 16.0, 32.0, 64.0, 128.0):
        folder = tmp_path / f"{timeout_s:g}"
        folder.mkdir()
        began = time.monotonic()
        fine, hung = _launch(function, folder, timeout_s=timeout_s)
        assert time.monotonic() - began >= timeout_s
        if hung.stage == stage and fine.state is State.DONE:
            break
    return fine, hung


def test_every_rank_gets_its_number_the_payload_and_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("REMOVED", "still here")
    outcomes = _launch(says_who_it_is, tmp_path, size=3, word="hello")
    assert [o.value for o in outcomes] == [
        [r, 3, "hello", str(r), "3", "yes", None, str(r), "3", "127.0.0.1", True] for r in range(3)
    ]
    assert {o.state for o in outcomes} == {State.DONE}


def test_an_exception_ends_the_other_ranks_and_comes_with_the_users_frames_only(tmp_path):
    other, failed = _launch(rank_one_raises, tmp_path)
    assert other.ended_s < LIMIT_S / 2
    assert (other.state, failed.state) == (State.STOPPED, State.RAISED)
    assert (failed.error.type, failed.error.message) == ("KeyError", "'missing piece'")
    assert 'raise KeyError("missing piece")' in failed.error.traceback
    assert "pytest_gpuperf" not in failed.error.traceback
    assert failed.error.at.startswith(f"{__file__}:")
    assert (failed.stage, failed.calls_begun, failed.calls_done) == ("in the middle", 1, 0)


def test_a_killed_rank_is_told_by_its_signal_and_its_last_words(tmp_path):
    other, failed = _launch(rank_one_is_killed, tmp_path)
    assert (failed.state, failed.signal) == (State.KILLED, "SIGKILL")
    assert failed.output == "last words\n"
    assert other.state is State.STOPPED


def test_a_rank_that_ends_its_process_with_status_zero_has_not_come_through(tmp_path):
    _, failed = _launch(rank_one_leaves, tmp_path)
    assert (failed.state, failed.exit_status) == (State.EXITED, 0)


def test_a_crash_leaves_the_stack_of_its_python_code(tmp_path):
    (failed,) = _launch(crashes, tmp_path, size=1)
    assert (failed.state, failed.signal) == (State.KILLED, "SIGSEGV")
    assert "in crashes" in failed.stacks


def test_a_hung_rank_is_ended_at_the_time_limit_with_its_stacks(tmp_path):
    fine, hung = _hung(rank_one_sleeps, tmp_path, "asleep")
    assert (fine.state, fine.value) == (State.DONE, "done")
    assert hung.state is State.HUNG
    assert "in rank_one_sleeps" in hung.stacks


def test_a_stopped_process_is_ended_too_though_it_gives_no_stack(tmp_path):
    _, hung = _hung(rank_one_stands_still, tmp_path, "about to stop")
    assert (hung.state, hung.stacks) == (State.HUNG, "")


def test_how_far_a_hung_rank_was_is_of_the_moment_of_its_stack(tmp_path):
    for timeout_s in (8.0, 16.0, 32.0, 64.0, 128.0):
        folder = tmp_path / f"{timeout_s:g}"
        folder.mkdir()
        (hung,) = _launch(goes_on_after_its_stack, folder, size=1, timeout_s=timeout_s)
        if hung.stage == "in its work":
            break
    assert (hung.state, hung.stage, hung.calls_begun) == (State.HUNG, "in its work", 0)
    assert "in goes_on_after_its_stack" in hung.stacks


def test_megabytes_on_stderr_neither_block_the_rank_nor_fill_the_disk(tmp_path):
    (fine,) = _launch(writes_much, tmp_path, size=1)
    assert fine.state is State.DONE
    assert fine.output.endswith("x\nthe end\n")
    assert len(fine.output) <= 16 * 1024


def test_a_value_that_is_not_json_is_that_ranks_error(tmp_path):
    (failed,) = _launch(returns_no_json, tmp_path, size=1)
    assert (failed.state, failed.error.type) == (State.RAISED, "TypeError")
    assert not list(tmp_path.glob("*.partial"))


def test_processes_that_a_rank_started_do_not_outlive_it(tmp_path):
    outcomes = _launch(leaves_processes, tmp_path)
    assert _gone([o.value for o in outcomes], within_s=0.5)


def test_a_value_counts_though_the_process_does_not_end_by_itself(tmp_path):
    (fine,) = _launch(exits_slowly, tmp_path, size=1)
    assert (fine.state, fine.value) == (State.DONE, "value")


@pytest.fixture
def launching(tmp_path):
    """A process of its own that has launched two hanging ranks; with every process id below it."""
    pids, workdir = tmp_path / "pids", tmp_path / "work"
    pids.mkdir()
    workdir.mkdir()
    code = textwrap.dedent(f"""
        import signal
        from pathlib import Path
        # A job in the background has it ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from pytest_gpuperf.ranks import Target, launch
        target = Target({__file__!r}, "hangs_with_processes")
        try:
            launch(target, 2, payload={{"pids": {str(pids)!r}}}, timeout_s={LONG},
                   workdir=Path({str(workdir)!r}))
        except BaseException as error:
            print(type(error).__name__, error)
    """)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + LIMIT_S
    while len([p for p in pids.iterdir() if p.stat().st_size]) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    found = [json.loads(p.read_text()) for p in sorted(pids.iterdir())]
    assert len(found) == 2
    launcher = found[0][1]
    supervisor = psutil.Process(launcher).ppid()
    assert psutil.Process(supervisor).ppid() == process.pid
    yield process, supervisor, {supervisor, *(pid for each in found for pid in each)}, workdir
    process.kill()
    process.communicate()


def test_killing_the_caller_leaves_no_process_and_no_file(launching):
    caller, _, pids, workdir = launching
    caller.kill()
    assert _gone(pids)
    assert not workdir.exists()


def test_ctrl_c_ends_every_process_before_the_caller_goes_on(launching):
    caller, _, pids, _ = launching
    caller.send_signal(signal.SIGINT)
    said, _ = caller.communicate(timeout=LIMIT_S)
    assert said.startswith("KeyboardInterrupt")
    assert _gone(pids, within_s=0.5)


def _launcher(supervisor, pids):
    """Torch's launcher, which the ranks are the children of."""
    (launcher,) = {p for p in pids if psutil.Process(p).ppid() == supervisor}
    return launcher


def test_killing_the_supervisor_ends_the_ranks_and_is_an_error_of_its_own(launching):
    caller, supervisor, pids, _ = launching
    launcher = _launcher(supervisor, pids)
    ranks = {p for p in pids if psutil.Process(p).ppid() == launcher}
    assert len(ranks) == 2
    os.kill(supervisor, signal.SIGKILL)
    said, _ = caller.communicate(timeout=LIMIT_S)
    assert said.startswith("LaunchError the process that supervises the ranks ended")
    assert _gone(ranks | {launcher})
    for orphan in pids - ranks - {supervisor, launcher}:
        os.kill(orphan, signal.SIGKILL)


def test_killing_torchs_launcher_ends_everything_and_is_an_error_of_its_own(launching):
    caller, supervisor, pids, _ = launching
    os.kill(_launcher(supervisor, pids), signal.SIGKILL)
    said, _ = caller.communicate(timeout=LIMIT_S)
    assert said.startswith("LaunchError the process that supervises the ranks ended with status 1")
    assert _gone(pids, within_s=0.5)


def test_sigterm_to_the_caller_leaves_no_process_and_no_file(launching):
    caller, _, pids, workdir = launching
    caller.terminate()
    assert _gone(pids)
    assert not workdir.exists()


@pytest.mark.parametrize(("size", "timeout_s"), [(0, 1.0), (1, 0.0), (1, float("nan"))])
def test_a_launch_of_nothing_or_without_time_is_refused(tmp_path, size, timeout_s):
    with pytest.raises(ValueError, match=r"world_size is 0|timeout is"):
        _launch(says_who_it_is, tmp_path, size=size, timeout_s=timeout_s)


def test_a_supervisor_that_cannot_start_is_told_with_what_it_said(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(LaunchError, match=r"(?s)no outcome: .*Error"):
        _launch(says_who_it_is, tmp_path)
