"""What was timed, line by line as it is timed, so that a search can go on where it ended.

The first line says what is searched and where; each further one is one answer. A search with the
same options asks the same questions in the same order, so a resumed one is the same search with
the known answers read instead of timed. A process that is killed loses the shape in hand.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from pytest_gpuperf.mamf.ranges import Shape
from pytest_gpuperf.recording.line_journal import JournalError, LineJournal

__all__ = ["SCHEMA", "Answer", "Journal", "JournalError", "ShapeTimer"]

SCHEMA = 1
# 1: first version.


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
        self.replayed = 0
        self.spent_s = 0.0
        self._timer = timer
        self._lines = LineJournal(path, {"schema": SCHEMA, **header}, "search")
        self._known: dict[tuple[Shape, int], deque[Answer]] = defaultdict(deque)

    def begin(self) -> Path | None:
        """Start anew; where an unfinished journal was moved aside to, if there was one.

        Raises
        ------
        JournalError
            Another process writes it.
        OSError
            The file cannot be written.
        """
        return self._lines.begin()

    def resume(self) -> None:
        """Read the file, and go on behind its last whole line.

        Raises
        ------
        JournalError
            It is not there, not a journal, of another search or device, or damaged.
        OSError
            It cannot be read or written.
        """
        for number, line in self._lines.resume():
            answer = _answer(line)
            if answer is None:
                raise self._lines.damaged(number)
            self._known[answer.shape, answer.calls].append(answer)

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
        self._lines.write(
            {"shape": shape, "calls": calls, "seconds": seconds, "failed": failed,
             "took_s": took_s, "disturbed": shape in self._timer.disturbed}
        )  # fmt: skip
        return seconds

    def close(self, *, finished: bool) -> None:
        """Close the file; a search that came to its end needs it no more."""
        self._lines.close(finished=finished)


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
