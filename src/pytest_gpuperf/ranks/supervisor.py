"""The process between the caller and torch's launcher: time limit, stacks, outcomes, clean-up.

It is a process of its own because only that can promise that nothing stays behind: it outlives
the caller by the time it takes to clean up, it adopts what a rank leaves, and its death is told
to the launcher, and the launcher's to the ranks, by the kernel.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from pytest_gpuperf.ranks.elastic import BOOT, STATUSES
from pytest_gpuperf.ranks.files import RankFiles, read_json, tail, write_json
from pytest_gpuperf.ranks.lifeline import (
    adopt_orphans,
    end_all_children,
    kill_group,
    signal_at_parent_death,
)
from pytest_gpuperf.ranks.outcome import RankError, RankOutcome, State
from pytest_gpuperf.ranks.progress import read_progress

OUTCOMES = "outcomes.json"
AGENT = "agent.json"
"""Process id of torch's launcher, which leads its process group."""

_GRACE_S = 1.0
"""How long the other ranks may go on after one failed: one of them may be the cause."""
_EXIT_GRACE_S = 5.0
"""How long ranks that have all left their values may take to end; each tries for 3 s itself."""
_DUMP_S = 2.0
"""How long hung ranks have to write their stacks."""
_STATUS_S = 3.0
"""How long torch's launcher has to tell how the ranks ended."""
_SWEEP_S = 5.0
_LOOK_S = 0.05
"""How often is looked at who has ended and how long the outputs are: the ranks are not our own
children, so that no signal tells us."""
_OUTPUT_LIMIT = 16 * 1024 * 1024
_TAIL = 16 * 1024
_STACKS_TAIL = 64 * 1024


@dataclass(slots=True)
class _Rank:
    """One rank; its process id is known once it runs."""

    number: int
    files: RankFiles
    pid: int = 0
    ended_at: float | None = None
    stopped_as: State | None = None
    stood: tuple[str, int, int] | None = None
    """How far it was when its stacks were asked for: it may go on until it is ended."""
    cut_bytes: int = 0
    kept: str = ""


@dataclass(slots=True)
class Supervisor:
    """Runs the ranks of one request to their outcomes."""

    request: Mapping[str, Any]
    workdir: Path
    began: float = field(default_factory=time.monotonic)
    ranks: list[_Rank] = field(default_factory=list)
    agent: subprocess.Popen[bytes] | None = None
    agent_ended_at: float | None = None
    parent_gone: bool = False
    wakeup: int = -1

    def run(self) -> int:
        """Start, watch and end the ranks; 0 when their outcomes are written."""
        self._hear_signals()
        for number in range(self.request["world_size"]):
            self.ranks.append(_Rank(number, RankFiles.of(self.workdir, number)))
        lifeline_read, lifeline_write = os.pipe()
        try:
            self.agent = self._start(lifeline_read)
            os.close(lifeline_read)
            write_json(self.workdir / AGENT, self.agent.pid)
            self._watch()
        finally:
            self._end_all()
            os.close(lifeline_write)
        if self.parent_gone:
            shutil.rmtree(self.workdir, ignore_errors=True)
            return 1
        statuses = read_json(self.workdir / STATUSES)
        if self.agent_ended_at is not None and (
            statuses is None or not any(rank.pid for rank in self.ranks)
        ):
            return 1  # torch's launcher failed, or no rank began: what was said is in our output
        outcomes = [self._outcome(rank, statuses or ()).to_json() for rank in self.ranks]
        write_json(self.workdir / OUTCOMES, outcomes)
        return 0

    def _end_all(self) -> None:
        """End the ranks, let torch's launcher tell how they ended, then end whatever is left."""
        self._find_pids()
        for rank in self.ranks:
            if rank.pid:
                kill_group(rank.pid)
        if self.agent is not None:
            if not self.parent_gone and all(rank.pid for rank in self.ranks):
                with suppress(subprocess.TimeoutExpired):
                    self.agent.wait(_STATUS_S)
            kill_group(self.agent.pid)
            self.agent.wait()
        end_all_children(_SWEEP_S)

    def _hear_signals(self) -> None:
        """Wake from waiting when a child ends or we are told to end."""
        self.wakeup, write = os.pipe()
        os.set_blocking(self.wakeup, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)

        def told_to_end(_number: int, _frame: FrameType | None) -> None:
            self.parent_gone = True

        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, told_to_end)

    def _start(self, lifeline: int) -> subprocess.Popen[bytes]:
        """Start what starts the ranks in a session of its own; each rank gets another."""
        request = self.workdir / "elastic.json"
        write_json(request, {**self.request, "supervisor": os.getpid()})
        return subprocess.Popen(
            [sys.executable, "-c", BOOT, str(request), self.request["agent"]],
            stdin=lifeline,
            start_new_session=True,
        )

    def _watch(self) -> None:
        """Return when every rank has ended, or has been marked to be ended and why."""
        deadline = self.began + self.request["timeout_s"]
        done_at: float | None = None
        while True:
            self._look()
            running = [r for r in self.ranks if r.ended_at is None]
            if not running or self.parent_gone:
                return
            now = time.monotonic()
            failures = [at for r in self.ranks if (at := self._failed_at(r)) is not None]
            if all(r.ended_at is not None or r.files.result.exists() for r in self.ranks):
                done_at = done_at or now
                if failures or now - done_at > _EXIT_GRACE_S:
                    return
            stop_at = min([deadline, *(f + _GRACE_S for f in failures)])
            if now >= stop_at:
                undone = [r for r in running if not r.files.result.exists()]
                self._stop(undone, State.STOPPED if failures else State.HUNG)
                return
            self._wait(min(stop_at - now, _LOOK_S))

    def _wait(self, seconds: float) -> None:
        """Sleep until a child ends, the caller is gone, a signal comes or the time is over."""
        readable, _, _ = select.select([0, self.wakeup], [], [], seconds)
        if 0 in readable and not os.read(0, 64):
            self.parent_gone = True
        if self.wakeup in readable:
            os.read(self.wakeup, 4096)

    def _look(self) -> None:
        """Note who runs and who has ended, cut long outputs."""
        now = time.monotonic()
        self._find_pids()
        if self.agent is not None and self.agent.poll() is not None:
            self.agent_ended_at = self.agent_ended_at or now
        for rank in self.ranks:
            if rank.ended_at is not None:
                continue
            # Torch's launcher ends only when all ranks have; one without a process id then never
            # ran far enough to leave one.
            if self.agent_ended_at is not None or (rank.pid and not _runs(rank.pid)):
                rank.ended_at = now
            if _size(rank.files.output) > _OUTPUT_LIMIT:
                rank.kept = tail(rank.files.output, _TAIL)
                rank.cut_bytes += _size(rank.files.output)
                os.truncate(rank.files.output, 0)

    def _find_pids(self) -> None:
        """Read the process ids that ranks have told since."""
        for rank in self.ranks:
            rank.pid = rank.pid or int(read_json(rank.files.pid) or 0)

    def _failed(self, rank: _Rank) -> bool:
        """Whether a rank has left an error, or ended without a value."""
        result = read_json(rank.files.result)
        return rank.ended_at is not None if result is None else "error" in result

    def _failed_at(self, rank: _Rank) -> float | None:
        """When a rank was first seen to have failed, None where it has not."""
        if not self._failed(rank):
            return None
        # A rank that raised stays until it is ended, so its end is when it told.
        rank.ended_at = rank.ended_at or time.monotonic()
        return rank.ended_at

    def _stop(self, running: list[_Rank], state: State) -> None:
        """Ask the running ranks for their stacks and mark them; :meth:`run` ends them."""
        now = time.monotonic()
        sizes = {}
        self._find_pids()
        for rank in running:
            rank.stopped_as, rank.ended_at = state, now
            rank.stood = read_progress(rank.files.progress)
            sizes[rank.number] = _size(rank.files.stacks)
            if rank.pid:
                with suppress(ProcessLookupError):
                    os.kill(rank.pid, signal.SIGUSR1)
        until, settled = now + _DUMP_S, False
        while time.monotonic() < until and not settled:
            before = [_size(r.files.stacks) for r in running]
            time.sleep(0.1)
            after = [_size(r.files.stacks) for r in running]
            settled = before == after and all(
                _size(r.files.stacks) > sizes[r.number] for r in running
            )

    def _outcome(self, rank: _Rank, statuses: Sequence[tuple[int, int]]) -> RankOutcome:
        """What became of a rank that has ended."""
        result = read_json(rank.files.result) or {}
        status = dict(statuses).get(rank.number, 0)
        error = RankError(**result["error"]) if "error" in result else None
        if "value" in result:
            state = State.DONE
        elif error is not None:
            state = State.RAISED
        elif rank.stopped_as is not None:
            state = rank.stopped_as
        elif status == -signal.SIGTERM and statuses[0][0] != rank.number:
            state = State.STOPPED  # by torch's launcher, which ends the others when one has failed
        else:
            state = State.KILLED if status < 0 else State.EXITED
        stage, begun, done = rank.stood or read_progress(rank.files.progress)
        stacks = tail(rank.files.stacks, _STACKS_TAIL)
        return RankOutcome(
            rank=rank.number,
            state=state,
            value=result.get("value"),
            error=error,
            exit_status=status if status >= 0 else None,
            signal=_signal_name(-status) if status < 0 and state is State.KILLED else "",
            ended_s=(rank.ended_at or time.monotonic()) - self.began,
            output=(rank.kept + tail(rank.files.output, _TAIL))[-_TAIL:],
            output_bytes=rank.cut_bytes + _size(rank.files.output),
            stacks=stacks if stacks.count("\n") > 1 else "",
            stage=stage,
            calls_begun=begun,
            calls_done=done,
        )


def _runs(pid: int) -> bool:
    """Whether there is such a process; one that has ended and was not waited for counts."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def main(request: Mapping[str, Any]) -> int:
    """Supervise the ranks that the launcher asked for; the process's exit status comes back."""
    adopt_orphans()
    signal_at_parent_death(request["parent"], signal.SIGTERM)
    return Supervisor(request, Path(request["workdir"])).run()
