"""A copy of a trace with its critical path as tracks of its own, for Perfetto."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO

from gpuperf_analyzers.critical_path.kinds import PathClass
from gpuperf_analyzers.critical_path.result import BETWEEN, CriticalPaths
from gpuperf_analyzers.critical_path.result import Path as CriticalPath
from gpuperf_analyzers.trace.bounds import DEFAULT_BOUNDS, Bounds
from gpuperf_analyzers.trace.containers import Unpacked
from gpuperf_analyzers.trace.damage import Damage
from gpuperf_analyzers.trace.files import open_trace
from gpuperf_analyzers.trace.metadata import read_head
from gpuperf_analyzers.trace.model import Trace, TraceError
from gpuperf_analyzers.trace.text import Text
from gpuperf_analyzers.trace.values import whole

CATEGORY = "critical_path"
"""``cat`` of the added events, which no reader takes for activity."""

_FIRST_PID = 1_000_000
_DAMAGE = frozenset({"truncated", "damaged-container", "events-lost", "repaired", "trailing-data"})


def mark_trace(
    trace: Trace,
    found: Sequence[CriticalPaths],
    destination: str | os.PathLike[str],
    *,
    bounds: Bounds = DEFAULT_BOUNDS,
) -> None:
    """Write the file of `trace` once more, with the paths of its devices as further tracks.

    The file's own text is copied as it is, and the events are put ahead of its own. A track holds
    the window's path, and a second one those of the steps. The copy appears whole or not at all,
    packed with gzip where the destination's name ends in ``.gz``; the source is only read.

    Raises
    ------
    TraceError
        The source was damaged (its copy would not open), or is the destination.
    OSError
        The destination cannot be written.
    """
    copy_with_events(trace, lambda: path_events(trace, found), destination, bounds=bounds)


def copy_with_events(
    trace: Trace,
    events: Callable[[], Iterator[str]],
    destination: str | os.PathLike[str],
    *,
    bounds: Bounds = DEFAULT_BOUNDS,
) -> None:
    """Write the file of `trace` once more with `events` (texts of JSON) ahead of its own.

    Raises
    ------
    TraceError
        The source was damaged (its copy would not open), or is the destination.
    OSError
        The destination cannot be written.
    """
    refuse_damaged(trace)
    target = Path(destination)
    if target.exists() and Path(trace.path).exists() and target.samefile(trace.path):
        raise TraceError(f"{trace.path}: the marked copy needs a name of its own")
    with written_whole(target) as file:
        _copy(trace, events(), file, bounds)


def refuse_damaged(trace: Trace) -> None:
    """Refuse a trace whose copy would not open.

    Raises
    ------
    TraceError
        The source was damaged.
    """
    damage = sorted({f.code for f in trace.findings} & _DAMAGE)
    if damage:
        raise TraceError(
            f"{trace.path}: {', '.join(damage)}: a marked copy would not open; record it again"
        )


@contextmanager
def written_whole(target: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """A file that appears at `target` whole or not at all, packed where its name ends in .gz."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            if target.suffix == ".gz":
                with gzip.GzipFile(target.stem, "wb", 1, file, mtime=0) as packed:
                    yield packed
            else:
                yield file
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _copy(
    trace: Trace, events: Iterator[str], out: IO[bytes] | gzip.GzipFile, bounds: Bounds
) -> None:
    with open_trace(trace.path) as file:
        text = Text(Unpacked(file, trace.path, bounds))
        head = read_head(text, bounds, Damage(trace.path, salvage=True))
        before = text.given - len(head.pending)
    with open_trace(trace.path) as file:
        text = Text(Unpacked(file, trace.path, bounds))
        start = text.read(before + 1)
        out.write(start[:before])
        rest = start[before:]
        while not rest.strip() and (more := text.read()):
            rest += more
        for i, event in enumerate(events):
            out.write(b",\n" if i else b"\n")
            out.write(event.encode("ascii"))
        out.write(b"\n" if rest.lstrip()[:1] == b"]" else b",\n")
        while rest:
            out.write(rest)
            rest = text.read()


def free_pid(trace: Trace) -> int:
    """A process number that no event of `trace` has."""
    used = {pid for pid, _ in trace.tracks}
    return next(number for number in count(_FIRST_PID) if number not in used)


def path_events(trace: Trace, found: Sequence[CriticalPaths]) -> Iterator[str]:
    """The critical paths as events, as JSON text."""
    pid = free_pid(trace)
    yield _meta("process_name", pid, 0, {"name": "critical path"})
    yield _meta("process_sort_index", pid, 0, {"sort_index": -1})
    base = max(whole(trace.metadata.get("baseTimeNanoseconds")), 0)
    origin = trace.start_ns - base
    tid = 0
    for paths in found:
        device = "cpu" if paths.device == "cpu" else f"device {paths.device}"
        for label, several in (("window", (paths.window,)), ("steps", paths.steps)):
            if several:
                yield _meta("thread_name", pid, tid, {"name": f"{label}, {device}"})
                for path in several:
                    yield from _slices(trace, path, pid, tid, origin)
                tid += 1


def _meta(name: str, pid: int, tid: int, args: dict[str, object]) -> str:
    return json.dumps({"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args})


def _slices(trace: Trace, path: CriticalPath, pid: int, tid: int, origin: int) -> Iterator[str]:
    """One slice a stretch; times in the file's own µs, digit by digit."""
    s = path.segments
    columns = (s.start, s.end, s.path_class, s.row, s.track, s.waiting)
    for start, end, number, row, track, waiting in zip(*(c.tolist() for c in columns), strict=True):
        name = trace.name_of(row) if row >= 0 else BETWEEN
        kind = PathClass(number).name.lower()
        args: dict[str, object] = {"path": path.name, "class": kind}
        if track >= 0:
            args["of pid"], args["of tid"] = trace.tracks[track]
        body = json.dumps(
            {
                "ph": "X",
                "cat": CATEGORY,
                "name": f"start of {name}" if waiting else name,
                "pid": pid,
                "tid": tid,
                "args": args,
            }
        )
        yield f'{body[:-1]}, "ts": {_us(origin + start)}, "dur": {_us(end - start)}}}'


def _us(ns: int) -> str:
    """Whole nanoseconds as µs with three decimals, exactly."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"
