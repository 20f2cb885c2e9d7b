"""No process outlives the one that started it, however that one ends."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    """Linux's prctl; nothing elsewhere, and nothing where a sandbox refuses it."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def signal_at_parent_death(parent: int, number: signal.Signals) -> None:
    """Have the kernel send us `number` when the parent dies; end at once if it already has.

    ``parent`` is the process id that the parent gave as its own.
    """
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that it can be ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_group_at_eof(fd: int) -> None:
    """Kill our own process group when `fd`, a pipe that nobody writes to, is closed.

    The way that works on every POSIX system; where the kernel has a parent-death signal it is
    the second net.
    """

    def watch() -> None:
        while True:
            try:
                if not os.read(fd, 64):
                    break
            except InterruptedError:
                continue
            except OSError:
                break
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, name="gpuperf-lifeline", daemon=True).start()


def kill_group(pgid: int) -> None:
    """SIGKILL to a process group; nothing where it is gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pgid, signal.SIGKILL)


def end_all_children(within_s: float) -> None:
    """Kill and reap every child of ours, adopted ones too, until there is none.

    A killed child's own children come to us (:func:`adopt_orphans`), hence the rounds.
    """
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        for child in _children():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def _children() -> list[int]:
    """Process ids of our children, as Linux tells them; empty elsewhere."""
    own = os.getpid()
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The command's name may hold anything; the fields after its last bracket are fixed.
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError) as error:
            if getattr(error, "errno", None) == errno.EMFILE:
                raise
            continue
        if parent == own:
            found.append(int(stat.parent.name))
    return found
