"""What was timed, line by line as it is timed, so that a search can go on where it ended.

The first line says what is searched and where; each further one is one answer. A search with the
same options asks the same questions in the same order, so a resumed one is the same search with
the known answers read instead of timed. A process that is killed loses the shape in hand.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import IO, Any, Protocol

from pytest_gpuperf.mamf.ranges import Shape

SCHEMA = 1
# 1: first version.


class JournalError(Exception):
    """The journal cannot be continued: one line that names it, and the mend."""


class ShapeTimer(Protocol):
    """What answers what is not in the journal."""

    failures: dict[Shape, str]
    disturbed: set[Shape]

    def time(self, shape: Shape, calls: int) -> tuple[float, ...]:
        """Seconds of each call."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One line: seconds of each call of a shape, or why it could not be run; and what it took.

    `disturbed`: other processes disturbed all of these calls.
    """

    shape: Shape
    calls: int
    seconds: tuple[float, ...]
    failed: str
    took_s: float
    disturbed: bool


class Journal:
    """Answers from the file first, then from `timer`, each written down.

    Attributes
    ----------
    replayed
        Answers that came from the file.
    spent_s
        Seconds spent on all answers, those of earlier runs too.
    """

    def __init__(self, path: Path, header: Mapping[str, Any], timer: ShapeTimer) -> None:
        self.path = path
        self.replayed = 0
        self.spent_s = 0.0
        self._timer = timer
        self._header = {"schema": SCHEMA, **header}
        self._known: dict[tuple[Shape, int], deque[Answer]] = defaultdict(deque)
        self._file: IO[str] | None = None

    def begin(self) -> Path | None:
        """Start anew; where an unfinished journal was moved aside to, if there was one.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        aside = None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            aside = self.path.with_name(f"{self.path.name}.old")
            self.path.replace(aside)
        self._file = self.path.open("w", encoding="utf-8")
        self._write(self._header)
        return aside

    def resume(self) -> None:
        """Read the file, and go on behind its last whole line.

        Raises
        ------
        JournalError
            It is not there, not a journal, or of another search or device.
        OSError
            It cannot be read or written.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            raise JournalError(
                f"there is nothing to resume: {self.path} is not there (a search that came to its "
                "end removes it): leave --resume out"
            ) from None
        whole = data[: data.rfind(b"\n") + 1]
        lines = whole.decode("utf-8", "replace").splitlines()
        self._check(_object(lines[0]) if lines else None)
        for number, line in enumerate(lines[1:], 2):
            answer = _answer(_object(line))
            if answer is None:
                raise JournalError(
                    f"{self.path}: line {number} is damaged: remove it, or leave --resume out"
                )
            self._known[answer.shape, answer.calls].append(answer)
        # What a killed process left of its last line goes.
        with self.path.open("r+b") as file:
            file.truncate(len(whole))
        self._file = self.path.open("a", encoding="utf-8")

    def _check(self, there: Mapping[str, Any] | None) -> None:
        if there is None or "schema" not in there:
            raise JournalError(f"{self.path} is no journal of a search: leave --resume out")
        wanted = json.loads(json.dumps(self._header))
        other = [key for key in wanted if there.get(key) != wanted[key]]
        if other:
            told = "; ".join(
                f"{k} was {_short(there.get(k))}, now {_short(wanted[k])}" for k in other
            )
            raise JournalError(
                f"{self.path} is of another search ({told}): give the same options on the same "
                "device, or leave --resume out"
            )

    def time(self, shape: Shape, calls: int) -> tuple[float, ...]:
        """Seconds of each call, from the file where they are there."""
        known = self._known.get((shape, calls))
        if known:
            answer = known.popleft()
            self.replayed += 1
            self.spent_s += answer.took_s
            if answer.failed:
                self._timer.failures[shape] = answer.failed
            (self._timer.disturbed.add if answer.disturbed else self._timer.disturbed.discard)(
                shape
            )
            return answer.seconds
        begin = perf_counter()
        seconds = self._timer.time(shape, calls)
        took_s = perf_counter() - begin
        self.spent_s += took_s
        failed = "" if seconds else self._timer.failures.get(shape, "no time was taken")
        self._write({"shape": shape, "calls": calls, "seconds": seconds, "failed": failed,
                     "took_s": took_s, "disturbed": shape in self._timer.disturbed})  # fmt: skip
        return seconds

    def _write(self, line: Mapping[str, Any]) -> None:
        assert self._file is not None  # noqa: S101 - begin or resume comes first
        self._file.write(json.dumps(line) + "\n")
        # With the system, that is: the end of this process cannot take it back.
        self._file.flush()

    def close(self, *, finished: bool) -> None:
        """Close the file; a search that came to its end needs it no more."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if finished:
            self.path.unlink(missing_ok=True)


def _object(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _answer(line: Mapping[str, Any] | None) -> Answer | None:
    """The answer on a line; None where there is none."""
    if line is None:
        return None
    try:
        m, n, k = (int(x) for x in line["shape"])
        seconds = tuple(float(s) for s in line["seconds"])
        answer = Answer((m, n, k), int(line["calls"]), seconds, str(line["failed"]),
                        float(line["took_s"]), bool(line["disturbed"]))  # fmt: skip
    except (KeyError, TypeError, ValueError):
        return None
    right = all(math.isfinite(s) and s > 0 for s in seconds) and math.isfinite(answer.took_s)
    return answer if right and (seconds or answer.failed) else None


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
