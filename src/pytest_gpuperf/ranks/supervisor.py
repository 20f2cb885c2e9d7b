"""The process between the caller and the ranks: starts them, watches, ends them all.

It is a process of its own because only that can promise that nothing stays behind: it outlives
the caller by the time it takes to clean up, it adopts what a rank leaves, and its death is told
to the ranks by the kernel.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from pytest_gpuperf.ranks.files import RankFiles, read_json, tail, write_json
from pytest_gpuperf.ranks.lifeline import (
    adopt_orphans,
    end_all_children,
    kill_group,
    signal_at_parent_death,
)
from pytest_gpuperf.ranks.outcome import RankError, RankOutcome, State
from pytest_gpuperf.ranks.progress import read_progress

BOOT = (
    "import sys; sys.path[:] = [p for p in sys.path if p];"  # no module of the caller's folder
    "import json, pathlib; request = json.loads(pathlib.Path(sys.argv[1]).read_text());"
    "sys.path[:] = request['sys_path']; from importlib import import_module;"
    "sys.exit(import_module('pytest_gpuperf.ranks.' + sys.argv[2]).main(request))"
)
"""Program text that starts a module of this package with the caller's sys.path."""

OUTCOMES = "outcomes.json"
PIDS = "pids.json"

_GRACE_S = 1.0
"""How long the other ranks may go on after one failed: one of them may be the cause."""
_EXIT_GRACE_S = 3.0
"""How long a rank that has left its value may take to end."""
_DUMP_S = 2.0
"""How long hung ranks have to write their stacks."""
_SWEEP_S = 5.0
_LOOK_S = 1.0
"""How often the size of the outputs is looked at."""
_OUTPUT_LIMIT = 16 * 1024 * 1024
_TAIL = 16 * 1024
_STACKS_TAIL = 64 * 1024


@dataclass(slots=True)
class _Rank:
    """One running rank."""

    number: int
    files: RankFiles
    process: subprocess.Popen[bytes]
    ended_at: float | None = None
    stopped_as: State | None = None
    cut_bytes: int = 0
    kept: str = ""
    value_seen_at: float | None = None


@dataclass(slots=True)
class Supervisor:
    """Runs the ranks of one request to their outcomes."""

    request: Mapping[str, Any]
    workdir: Path
    began: float = field(default_factory=time.monotonic)
    ranks: list[_Rank] = field(default_factory=list)
    parent_gone: bool = False
    wakeup: int = -1

    def run(self) -> int:
        """Start, watch and end the ranks; 0 when their outcomes are written."""
        self._hear_signals()
        lifeline_read, lifeline_write = os.pipe()
        try:
            for number in range(self.request["world_size"]):
                self.ranks.append(self._start(number, lifeline_read))
            os.close(lifeline_read)
            write_json(self.workdir / PIDS, [r.process.pid for r in self.ranks])
            self._watch()
        finally:
            for rank in self.ranks:
                kill_group(rank.process.pid)
            for rank in self.ranks:
                rank.process.wait()
            end_all_children(_SWEEP_S)
            os.close(lifeline_write)
        if self.parent_gone:
            shutil.rmtree(self.workdir, ignore_errors=True)
            return 1
        write_json(self.workdir / OUTCOMES, [self._outcome(r).to_json() for r in self.ranks])
        return 0

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

    def _start(self, number: int, lifeline: int) -> _Rank:
        """Start one rank in a session of its own."""
        files = RankFiles.of(self.workdir, number)
        world_size = str(self.request["world_size"])
        write_json(files.request, {**self.request, "rank": number, "supervisor": os.getpid()})
        with files.output.open("ab") as output:  # appending, so that it can be cut under the rank
            process = subprocess.Popen(
                [sys.executable, "-c", BOOT, str(files.request), "child"],
                stdin=lifeline,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={
                    **os.environ,
                    "RANK": str(number),
                    "LOCAL_RANK": str(number),
                    "WORLD_SIZE": world_size,
                    "LOCAL_WORLD_SIZE": world_size,
                },
            )
        return _Rank(number, files, process)

    def _watch(self) -> None:
        """Return when every rank has ended, or has been marked to be ended and why."""
        deadline = self.began + self.request["timeout_s"]
        while True:
            self._look()
            running = [r for r in self.ranks if r.ended_at is None]
            if not running or self.parent_gone:
                return
            now = time.monotonic()
            failures = [
                r.ended_at for r in self.ranks if r.ended_at is not None and self._failed(r)
            ]
            stop_at = min([deadline, *(f + _GRACE_S for f in failures)])
            if now >= stop_at:
                self._stop(running, State.STOPPED if failures else State.HUNG)
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
        """Note who has ended, end who lingers with its value written, cut long outputs."""
        now = time.monotonic()
        for rank in self.ranks:
            if rank.ended_at is not None:
                continue
            if rank.process.poll() is not None:
                rank.ended_at = now
            elif rank.files.result.exists():
                rank.value_seen_at = rank.value_seen_at or now
                if now - rank.value_seen_at > _EXIT_GRACE_S:
                    kill_group(rank.process.pid)
            if _size(rank.files.output) > _OUTPUT_LIMIT:
                rank.kept = tail(rank.files.output, _TAIL)
                rank.cut_bytes += _size(rank.files.output)
                os.truncate(rank.files.output, 0)

    def _failed(self, rank: _Rank) -> bool:
        """Whether an ended rank left no value."""
        result = read_json(rank.files.result)
        return result is None or "error" in result

    def _stop(self, running: list[_Rank], state: State) -> None:
        """Ask the running ranks for their stacks and mark them; :meth:`run` ends them."""
        now = time.monotonic()
        sizes = {}
        for rank in running:
            rank.stopped_as, rank.ended_at = state, now
            sizes[rank.number] = _size(rank.files.stacks)
            rank.process.send_signal(signal.SIGUSR1)
        until, settled = now + _DUMP_S, False
        while time.monotonic() < until and not settled:
            before = [_size(r.files.stacks) for r in running]
            time.sleep(0.1)
            after = [_size(r.files.stacks) for r in running]
            settled = before == after and all(
                _size(r.files.stacks) > sizes[r.number] for r in running
            )

    def _outcome(self, rank: _Rank) -> RankOutcome:
        """What became of a rank that has ended."""
        result = read_json(rank.files.result) or {}
        status = rank.process.returncode
        error = RankError(**result["error"]) if "error" in result else None
        if "value" in result:
            state = State.DONE
        elif error is not None:
            state = State.RAISED
        elif rank.stopped_as is not None:
            state = rank.stopped_as
        else:
            state = State.KILLED if status < 0 else State.EXITED
        stage, begun, done = read_progress(rank.files.progress)
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
