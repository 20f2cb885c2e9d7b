"""Ranks that somebody else started tell each other what became of them, one that hangs too.

Results go through the process group's store and not through a collective: a rank that hangs, or
whose connections broke, would hold up or break that. At the time limit each rank leaves the stacks
of its threads there, and then aborts the group, so that those who wait for the one that hangs come
back and fail their test with its name.
"""

from __future__ import annotations

import atexit
import faulthandler
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pytest_gpuperf.ranks import RankError, RankOutcome, State
from pytest_gpuperf.session.ddp_failure import RankFailure

_TOLD_S = 3.0
"""How long after the time limit every rank has to leave its stacks, before groups are aborted."""
_BACK_S = 15.0
"""How long a rank has to come back from an aborted collective before it counts as stuck."""
_LOOK_S = 0.02
_ASK_S = 0.5
"""How often a rank at work asks whether another one has raised."""
_GRACE_S = 1.0
"""How long it may go on then: it may be the cause."""
_ENDED_S = 10.0
"""How long the thread that watches has to come back from the store or from aborting groups."""
_ABORTED_S = 1e6
"""Added to the time of an error that came after the group was aborted: the others come first."""
_BROKEN_KEY = "gpuperf/broken"
_BROKEN: list[str] = []
"""Why no further measurement can be made: the group was aborted, here or on another rank."""
_serial = 0


class Calls:
    """How far this rank is, in memory: what ``ranks.Progress`` is between processes."""

    def __init__(self) -> None:
        self.begun = self.done = 0
        self.told = ""

    def stage(self, text: str) -> None:
        """Tell in words what comes next."""
        self.told = text

    def begin(self) -> None:
        """Count a call that begins."""
        self.begun += 1

    def end(self) -> None:
        """Count a call that ended."""
        self.done += 1


def refuse_broken() -> None:
    """RankFailure where an earlier measurement of this process ended in a hang."""
    if _BROKEN:
        raise RankFailure(f"gpuperf.ddp: not measured: {_BROKEN[0]}")


class Exchange:
    """One measurement's exchange between the ranks of a group, with its time limit.

    Parameters
    ----------
    rank, world_size
        Which of how many; every rank makes the same exchanges in the same order.
    timeout_s
        Time limit from now.
    calls
        How far the rank is, for the report of a hang.
    """

    def __init__(self, rank: int, world_size: int, timeout_s: float, calls: Calls) -> None:
        global _serial  # noqa: PLW0603 - a count per process, as the group is
        _serial += 1
        self.serial = _serial
        self.rank, self.ranks = rank, range(world_size)
        self.began = time.monotonic()
        self.until = self.began + timeout_s
        self.calls = calls
        self.store = _own_store()
        self.worked = threading.Event()
        self.over = threading.Event()
        self.fired = threading.Event()
        self.aborted = threading.Event()
        if self.serial == 1:
            atexit.register(_say_over, self.store, rank)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Hold the time limit over the block, which works and then swaps."""
        watch = threading.Thread(target=self._watch, name="gpuperf-time-limit", daemon=True)
        watch.start()
        try:
            yield
        finally:
            self.over.set()
            # Ended within the store's code when the interpreter ends, it would abort the process.
            watch.join(_ENDED_S)

    def swap(self, result: dict[str, Any]) -> list[RankOutcome]:
        """The outcomes of all ranks, from each one's `result` or what it left at the time limit.

        Raises
        ------
        RankFailure
            A rank left neither, or the store is gone.
        """
        self.worked.set()
        try:
            return self._swapped(result)
        except RuntimeError as error:  # torch's DistStoreError and DistNetworkError are some
            _BROKEN.append("an earlier measurement lost the process that held the group's store")
            first = str(error).partition("\n")[0]
            raise RankFailure(
                f"gpuperf.ddp: the process group's store cannot be reached: the process that held "
                f"it, most likely rank 0's, has ended ({first})"
            ) from None

    def _swapped(self, result: dict[str, Any]) -> list[RankOutcome]:
        if not (self.fired.is_set() and "error" in result):
            # An error after the time limit is but the aborted group. One after another rank has
            # raised and the group was aborted may be too, whatever it says: it ended later.
            ended_s = time.monotonic() - self.began + _ABORTED_S * self.aborted.is_set()
            self.store.set(self._key("result"), json.dumps({**result, "ended_s": ended_s}))
            if "error" in result:
                self.store.set(self._key("raised", rank=0), b"1")
        until = self.until + _TOLD_S + 1.0  # a rank that lives has told by then, stuck or not
        while not all(map(self._told, self.ranks)) and time.monotonic() < until:
            time.sleep(_LOOK_S)
        silent = [rank for rank in self.ranks if not self._told(rank)]
        if silent:
            _BROKEN.append("an earlier measurement lost a rank")
            who = ", ".join(map(str, silent))
            raise RankFailure(
                f"gpuperf.ddp: rank {who} of {len(self.ranks)} left neither a result nor its "
                "stacks: its process has ended (killed, or its host gone), or it hangs in a call "
                "that lets no thread run",
                silent[0],
            )
        outcomes = [self._outcome(rank) for rank in self.ranks]
        if self.store.check([_BROKEN_KEY]) and not _BROKEN:
            _BROKEN.append("an earlier measurement failed, and its process group was aborted")
        with suppress(Exception):  # every rank has read what was told before this exchange
            self.store.delete_key(self._key("result", serial=self.serial - 1))
        return outcomes

    def _outcome(self, rank: int) -> RankOutcome:
        if self.store.check([self._key("result", rank)]):
            result = json.loads(self.store.get(self._key("result", rank)))
            ended_s = float(result.pop("ended_s"))
            if "error" in result:
                error = RankError(**result["error"])
                return RankOutcome(rank, State.RAISED, error=error, ended_s=ended_s)
            return RankOutcome(rank, State.DONE, value=result)
        standing = json.loads(self.store.get(self._key("hung", rank)))
        return RankOutcome(rank, State.HUNG, **standing)

    def _told(self, rank: int, store: Any = None) -> bool:
        through = store or self.store
        return any(through.check([self._key(what, rank)]) for what in ("result", "hung"))

    def _key(self, what: str, rank: int | None = None, serial: int | None = None) -> str:
        number = self.serial if serial is None else serial
        return f"gpuperf/{number}/{self.rank if rank is None else rank}/{what}"

    def _watch(self) -> None:
        """The thread that acts at the time limit, or where another rank has raised."""
        store = _cloned(self.store)
        while time.monotonic() < self.until:
            if self.over.wait(min(_ASK_S, max(self.until - time.monotonic(), 0.0))):
                return
            if store.check([self._key("raised", rank=0)]):
                # A rank that waits for it in a collective would wait to the time limit.
                if not self._all_told(store, _GRACE_S):
                    self._break(store)
                break
        if self.over.wait(max(self.until - time.monotonic(), 0.0)):
            return
        self.fired.set()
        if not self.worked.is_set():
            store.set(self._key("hung"), json.dumps(self._standing()))
        self._all_told(store, _TOLD_S)
        self._break(store)
        if not self.over.wait(_BACK_S):
            self._end_with_the_others(store)

    def _break(self, store: Any) -> None:
        """Abort the groups: a collective that waits ends with an error.

        Every rank does so, for what ends gloo's is that the others close their connections. Nothing
        can be measured in these groups any more, on any rank.
        """
        self.aborted.set()
        store.set(_BROKEN_KEY, b"1")
        _abort_groups()

    def _all_told(self, store: Any, within_s: float) -> bool:
        """Whether all ranks have left a result or their stacks, waiting for it."""
        until = time.monotonic() + within_s
        while not all(self._told(rank, store) for rank in self.ranks):
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK_S)
        return True

    def _standing(self) -> dict[str, Any]:
        """The fields of a rank's outcome that say where it is."""
        return {
            "stacks": _stacks(),
            "stage": self.calls.told,
            "calls_begun": self.calls.begun,
            "calls_done": self.calls.done,
        }

    def _end_with_the_others(self, store: Any) -> None:
        """We are the stuck one: end when the other ranks have ended, so that they can report."""
        others = [f"gpuperf/over/{rank}" for rank in self.ranks if rank != self.rank]
        with suppress(Exception):  # the store is gone with who held it
            while not self.over.wait(0.5):
                if store.check(others):
                    break
        if not self.over.is_set():
            os._exit(1)


def _own_store() -> Any:
    """The group's store through a connection of our own, which no other thread's wait holds."""
    import torch.distributed as dist

    return _cloned(dist.distributed_c10d._get_default_store())  # noqa: SLF001 - no public name


def _cloned(store: Any) -> Any:
    return store.clone() if hasattr(store, "clone") else store


def _say_over(store: Any, rank: int) -> None:
    with suppress(Exception):
        store.set(f"gpuperf/over/{rank}", b"1")


def _abort_groups() -> None:
    """End every collective that is waiting, with an error."""
    import torch.distributed as dist

    # Without it (older torch) they end at the group's own timeout.
    abort: Callable[[], object] = getattr(dist.distributed_c10d, "_abort_process_group", int)
    with suppress(Exception):
        abort()


def _stacks() -> str:
    """The stacks of all threads, as a launched rank leaves them."""
    with tempfile.TemporaryFile("w+") as file:
        file.write(f"main thread 0x{threading.main_thread().ident:016x}\n")
        file.flush()
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read()
