"""The history: one line a run and metric, only ever added to.

A line is JSON of its own, so that a crash in the middle costs the line that was being written and
no other; the next line begins on a line of its own all the same.
"""

from __future__ import annotations

import datetime as dt
import errno
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_gpuperf.baselines.environment import stem
from pytest_gpuperf.baselines.observation import Observation

LARGEST = 512 << 20
"""Bytes of a history that is read."""
SCHEMA = 1
# 1: first version.

DEFAULT_FILE = "history.jsonl"


@dataclass(frozen=True, slots=True)
class Line:
    """One metric of one measurement in one run.

    Attributes
    ----------
    at
        When, ISO 8601, UTC.
    commit
        With ``+dirty`` where tracked files differed; "" outside git.
    environment
        The stem of the environment's baseline file.
    test, name, metric
        What was measured.
    value
        In the metric's unit; the median of samples, or a count.
    exact
        Whether it is a count that did not vary.
    n
        Number of samples.
    """

    at: str
    commit: str
    environment: str
    test: str
    name: str
    metric: str
    value: float
    exact: bool
    n: int


def lines_of(observed: Iterable[Observation], *, at: str = "") -> list[Line]:
    """The lines of one run."""
    at = at or dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
    made = []
    for o in observed:
        where = stem(o.key)
        for metric, (_, high, reason) in o.counts.items():
            made.append(Line(at, o.commit, where, o.test, o.name, metric, high, not reason, 1))
        for metric, (value, _, n) in o.sampled.items():
            made.append(Line(at, o.commit, where, o.test, o.name, metric, value, False, n))
    return made


def append(path: Path, lines: Sequence[Line]) -> int:
    """Add `lines` to the file in one write, and return how many.

    Raises
    ------
    OSError
        It cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps({"v": SCHEMA, **asdict(line)}) + "\n" for line in lines)
    # Appended in one write: several processes may add at once, and each keeps its lines whole.
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        end = os.lseek(handle, 0, os.SEEK_END)
        torn = bool(end) and os.pread(handle, 1, end - 1) != b"\n"
        content = (("\n" if torn else "") + text).encode("ascii")
        while content:
            content = content[os.write(handle, content) :]
    finally:
        os.close(handle)
    return len(lines)


@dataclass(frozen=True, slots=True)
class History:
    """The lines of a file in its order; ``skipped`` could not be read (torn, or of newer)."""

    lines: tuple[Line, ...]
    skipped: int
    newer: int


def read(path: Path) -> History:
    """The history in `path`.

    Raises
    ------
    OSError
        It cannot be read, or is larger than :data:`LARGEST`.
    """
    lines, skipped, newer = [], 0, 0
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise OSError(errno.EFBIG, f"larger than {LARGEST >> 20} MiB: begin a new one", str(path))
    for raw in content.splitlines():
        if not raw.strip():
            continue
        try:
            found = json.loads(raw)
            if isinstance(found, dict) and isinstance(found.get("v"), int) and found["v"] > SCHEMA:
                newer += 1
                continue
            lines.append(_line(found))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            skipped += 1
    return History(tuple(lines), skipped, newer)


def _line(raw: dict[str, Any]) -> Line:
    value = raw["value"]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("a value that is no number")
    texts = {k: raw[k] for k in ("at", "commit", "environment", "test", "name", "metric")}
    if not all(isinstance(text, str) for text in texts.values()):
        raise TypeError("a text that is none")
    return Line(**texts, value=float(value), exact=bool(raw["exact"]), n=int(raw["n"]))


SeriesName = tuple[str, str, str, str]
"""Environment, test, measurement's name, metric."""


def series(history: History) -> Iterator[tuple[SeriesName, tuple[Line, ...]]]:
    """The lines of each metric of each measurement, in the order in which they were added.

    Not by their times: a clock may go backwards.
    """
    grouped: dict[SeriesName, list[Line]] = {}
    for line in history.lines:
        name = (line.environment, line.test, line.name, line.metric)
        grouped.setdefault(name, []).append(line)
    for name in sorted(grouped):
        yield name, tuple(grouped[name])
