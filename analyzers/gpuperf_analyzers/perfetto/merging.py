"""The traces of several ranks as one file on one time axis.

Each rank's processes get numbers of their own and the rank in front of their names, flow arrows
numbers of their own. Times are moved by the ranks' absolute starts, less the skew of their clocks
where collectives tell it; of clocks too far apart for one axis each rank begins at 0.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.critical_path.marking import refuse_damaged, written_whole
from gpuperf_analyzers.perfetto.tracks import added_events
from gpuperf_analyzers.set_analysis import SetAnalysis, rank_labels
from gpuperf_analyzers.trace.bounds import DEFAULT_BOUNDS
from gpuperf_analyzers.trace.containers import Unpacked
from gpuperf_analyzers.trace.files import open_trace
from gpuperf_analyzers.trace.model import Trace, TraceError, TraceSet
from gpuperf_analyzers.trace.text import Text
from gpuperf_analyzers.trace.values import whole

FARTHEST_NS = 3600 * 10**9
"""Starts farther apart than this cannot be of one run: their clocks are not of one time."""
_PER_RANK = 10_000
_FLOWS = frozenset("stfbneO")


class _Document(msgspec.Struct):
    """A trace file, its events undecoded."""

    events: list[msgspec.Raw] = msgspec.field(name="traceEvents", default_factory=list)


def merge_traces(
    traces: TraceSet, found: SetAnalysis, config: Config, destination: str | os.PathLike[str]
) -> str:
    """Write all ranks with their added tracks into one file, and say how they were put together.

    Raises
    ------
    TraceError
        One was damaged or cannot be read as JSON.
    OSError
        The destination cannot be written.
    """
    for trace in traces.traces:
        refuse_damaged(trace)
    shifts, said = _shifts(traces, found)
    base = min(t.start_ns for t in traces.traces)
    labels = rank_labels(found.ranks)
    document = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": base,
        "gpuperf_merged": {"ranks": list(labels), "clocks": said},
    }
    head = json.dumps(document)
    with written_whole(Path(destination)) as out:
        out.write(head[:-1].encode() + b', "traceEvents": [\n')
        first = True
        for index, (trace, analysis, label) in enumerate(
            zip(traces.traces, found.ranks, labels, strict=True)
        ):
            renamed = _Rank(index, label, trace, shifts[index] - base)
            own = (event.encode() for event in added_events(trace, analysis, config))
            for events in (_own_events(trace), own):
                for event in events:
                    out.write((b"" if first else b",\n") + renamed.moved(event))
                    first = False
        out.write(b"\n]}\n")
    return said


def _shifts(traces: TraceSet, found: SetAnalysis) -> tuple[list[int], str]:
    """The absolute time (ns) of each trace's own 0 on the common axis, and how it was found."""
    starts = [t.start_ns for t in traces.traces]
    base = min(starts)
    if max(starts) - base > FARTHEST_NS:
        return [base] * len(starts), "too far apart for one axis: each rank begins at 0"
    skew = {}
    if found.collectives is not None:
        skew = {r.rank: r.skew_us for r in found.collectives.ranks}
    told = [round(skew.get(rank.rank if rank.rank is not None else -1, 0.0) * 1e3)
            for rank in found.ranks]  # fmt: skip
    if any(told):
        return [s - k for s, k in zip(starts, told, strict=True)], (
            "by their absolute times, less the skew that the ends of collectives tell"
        )
    return starts, "by their absolute times"


def _own_events(trace: Trace) -> Iterator[bytes]:
    """Each event of the file, undecoded."""
    with open_trace(trace.path) as file:
        text = b"".join(iter(Text(Unpacked(file, trace.path, DEFAULT_BOUNDS)).read, b""))
    try:
        try:
            events = msgspec.json.decode(text, type=_Document).events
        except msgspec.ValidationError:
            events = msgspec.json.decode(text, type=list[msgspec.Raw])
    except msgspec.MsgspecError as error:
        raise TraceError(f"{trace.path}: {error}: cannot be merged; record it again") from None
    return (bytes(event) for event in events)


class _Rank:
    """Moves the events of one rank to the common numbers and times."""

    def __init__(self, index: int, label: str, trace: Trace, shift: int) -> None:
        self._index, self._label = index, label
        base = max(whole(trace.metadata.get("baseTimeNanoseconds")), 0)
        # A time in the file is absolute once the base is added; `shift` is where the trace's
        # own 0 stands on the axis.
        self._shift_us = Decimal(shift - (trace.start_ns - base)) / 1000
        self._pids: dict[object, int] = {}
        self._decode = msgspec.json.Decoder(float_hook=Decimal).decode
        self._encode = msgspec.json.Encoder(decimal_format="number").encode

    def moved(self, raw: bytes) -> bytes:
        """`raw` with its process, time, flow and names changed, all else as it was."""
        event: Any = self._decode(raw)
        if not isinstance(event, dict):
            return raw
        if "pid" in event:
            event["pid"] = self._pid(event["pid"])
        phase = event.get("ph")
        if "ts" in event and phase != "M" and (ts := _time(event["ts"])) is not None:
            event["ts"] = ts + self._shift_us
        if phase in _FLOWS and "id" in event:
            event["id"] = f"{self._index}.{event['id']}"
        if phase == "M" and isinstance(event.get("args"), dict):
            self._rename(str(event.get("name")), event["args"])
        return bytes(self._encode(event))

    def _pid(self, pid: object) -> int:
        key = json.dumps(pid, default=str)
        return self._pids.setdefault(key, self._index * _PER_RANK + len(self._pids))

    def _rename(self, kind: str, args: dict[str, Any]) -> None:
        if kind == "process_name" and "name" in args:
            args["name"] = f"{self._label}: {args['name']}"
        if kind == "process_sort_index" and isinstance(args.get("sort_index"), int):
            kept = min(max(args["sort_index"], -10), _PER_RANK - 20)
            args["sort_index"] = self._index * _PER_RANK + kept + 10


def _time(value: Any) -> Decimal | None:
    """A time in µs, exact; None where it is none."""
    try:
        found = Decimal(str(value))
    except ArithmeticError:
        return None
    return found if found.is_finite() else None
