"""One file into one :class:`~gpuperf_analyzers.trace.model.Trace`."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any

from gpuperf_analyzers.trace.assemble import Assembled, assemble
from gpuperf_analyzers.trace.blocks import EventList
from gpuperf_analyzers.trace.bounds import DEFAULT_BOUNDS, Bounds
from gpuperf_analyzers.trace.columns import EventColumns
from gpuperf_analyzers.trace.containers import Unpacked
from gpuperf_analyzers.trace.crew import Crew, Unshared
from gpuperf_analyzers.trace.damage import FROM_EVENTS, Damage
from gpuperf_analyzers.trace.files import open_trace
from gpuperf_analyzers.trace.metadata import read_head, read_tail
from gpuperf_analyzers.trace.model import Finding, Trace, TraceError
from gpuperf_analyzers.trace.text import Text
from gpuperf_analyzers.trace.values import whole

_LONG = 32 << 20
"""Bytes of text for which further processes are started before anything is read."""

READER_VERSION = 3
"""Goes up when the same file gives other columns: it is part of the cache's key."""


def read_trace(
    path: str | os.PathLike[str],
    *,
    salvage: bool = True,
    bounds: Bounds = DEFAULT_BOUNDS,
    processes: int = 1,
) -> Trace:
    """Read a Kineto trace: JSON, plain or packed, streamed into columns.

    Parameters
    ----------
    path
        The file, or a URL that fsspec opens (``s3://…``, ``https://…``; extra ``remote``).
    salvage
        Keep what a broken file still holds, with a finding that names the byte and the reason.
        Otherwise the first thing broken raises.
    bounds
        What the file may cost.
    processes
        How many may decode it, this one among them. More are started where the file's size
        promises 32 MiB of text, or where 8 MiB were read of one that does not tell. What is
        damaged is read again by this one alone.

    Raises
    ------
    TraceError
        Not readable, not a trace, out of bounds, or broken with ``salvage=False``: one line
        that names the file and the mend.
    """
    name = os.fspath(path)
    if processes > 1:
        with suppress(Unshared), Crew(processes - 1) as crew, open_trace(name) as file:
            return read_open(file, name, salvage=salvage, bounds=bounds, crew=crew)
    with open_trace(name) as file:
        return read_open(file, name, salvage=salvage, bounds=bounds)


def read_open(
    file: IO[bytes],
    name: str,
    *,
    salvage: bool = True,
    bounds: Bounds = DEFAULT_BOUNDS,
    crew: Crew | None = None,
) -> Trace:
    """As :func:`read_trace`, from an open binary file.

    Raises
    ------
    Unshared
        Only with a `crew`: the file is to be read once more without.
    """
    damage = Damage(name, salvage)
    try:
        with _no_collection():
            return _read(file, name, damage, bounds, crew)
    except TraceError:
        if crew is not None and crew.shared:
            raise Unshared from None
        raise
    except OSError as error:
        raise TraceError(f"{name}: {error.strerror or error}") from None


@contextmanager
def _no_collection() -> Iterator[None]:
    """No search for cycles: a block's objects have none, and live for milliseconds."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read(file: IO[bytes], name: str, damage: Damage, bounds: Bounds, crew: Crew | None) -> Trace:
    columns = EventColumns()
    unpacked = Unpacked(file, name, bounds)
    if crew is not None and unpacked.expected >= _LONG:
        crew.start()
    text = Text(unpacked)
    head = read_head(text, bounds, damage)
    metadata = dict(head.metadata)
    events = EventList(text, columns, bounds, damage, crew)
    rest = events.read(head.pending, is_object=head.is_object)
    if rest is not None:
        metadata |= read_tail(rest, text, bounds, damage, is_object=head.is_object)
    if crew is not None and crew.shared:
        if damage.tallies:
            raise Unshared
        columns = crew.joined(columns)
    assembled = assemble(columns)
    findings = damage.findings(sum(columns.phases.values()))
    findings += _column_findings(columns, assembled.unmatched)
    return _trace(name, columns, assembled, metadata, tuple(findings))


def _trace(
    name: str,
    columns: EventColumns,
    assembled: Assembled,
    metadata: Mapping[str, Any],
    findings: tuple[Finding, ...],
) -> Trace:
    base = whole(metadata.get("baseTimeNanoseconds"))
    info = metadata.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    return Trace(
        path=name,
        start_ns=assembled.start_ns + max(base, 0),
        strings=tuple(columns.strings.values),
        tracks=tuple(columns.tracks.values),
        events=assembled.events,
        kernel_args=assembled.kernel_args,
        sync_args=assembled.sync_args,
        collective_args=assembled.collective_args,
        memory=assembled.memory,
        counters=assembled.counters,
        range_counters=assembled.range_counters,
        phases=dict(columns.phases),
        metadata=metadata,
        process_names=columns.process_names,
        thread_names=columns.thread_names,
        rank=_count(info.get("rank")),
        world_size=_count(info.get("world_size")),
        device_properties=device_properties(metadata),
        findings=findings,
    )


def device_properties(metadata: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The ``deviceProperties`` of a trace's metadata that are objects."""
    found = metadata.get("deviceProperties")
    return tuple(p for p in (found if isinstance(found, list) else ()) if isinstance(p, dict))


def _count(value: Any) -> int | None:
    return None if (number := whole(value)) < 0 else number


def _column_findings(columns: EventColumns, unmatched: int) -> list[Finding]:
    found = []
    if columns.without_dur:
        found.append(
            Finding(
                "missing-dur",
                f"{columns.without_dur} complete events have no duration; taken as 0",
                columns.without_dur,
            )
        )
    if columns.negative_dur:
        found.append(
            Finding(
                "bad-duration",
                f"{columns.negative_dur} events have a negative or impossible duration; taken as 0",
                columns.negative_dur,
                invalidates=FROM_EVENTS,
            )
        )
    if columns.bad_times:
        found.append(
            Finding(
                "bad-time",
                f"{columns.bad_times} events have no usable time and were left out",
                columns.bad_times,
                example=columns.bad_time_example,
                invalidates=FROM_EVENTS,
            )
        )
    if columns.bad_sizes:
        found.append(
            Finding(
                "bad-size",
                f"{columns.bad_sizes} memory events have an impossible size and were left out",
                columns.bad_sizes,
                invalidates=frozenset({"peak_memory", "peak_memory_growth"}),
            )
        )
    if unmatched:
        found.append(
            Finding(
                "unmatched-begin-end",
                f"{unmatched} begin or end events have no counterpart and were left out",
                unmatched,
            )
        )
    if columns.unfinished:
        found.append(
            Finding(
                "unfinished-annotation",
                f"{len(columns.unfinished)} annotations were still open when the profiler stopped",
                len(columns.unfinished),
                example=columns.unfinished[0],
            )
        )
    return found
