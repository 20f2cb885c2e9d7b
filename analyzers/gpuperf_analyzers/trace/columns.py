"""Decoded events into columns: blocks of arrays that become the model's at the end."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Raw

from gpuperf_analyzers.trace import schema, tables
from gpuperf_analyzers.trace.interning import Categories, Strings, Tracks, track_part
from gpuperf_analyzers.trace.model import I64, Bool, Category, CollectiveArgs
from gpuperf_analyzers.trace.tables import Table
from gpuperf_analyzers.trace.times import (
    EXACT_FLOAT_US,
    floats,
    nanoseconds,
    nanoseconds_from_digits,
    needs_digits,
)
from gpuperf_analyzers.trace.values import (
    bits,
    collective_record,
    number_in,
    singles,
    small,
    triples,
    wholes,
)

OPEN = -1
"""Duration of a begun event whose end is not seen yet."""

_GPU = (Category.KERNEL, Category.MEMCPY, Category.MEMSET)
_PLACED = (*_GPU, Category.SYNC)
_SHAPED = (Category.CPU_OP, Category.USER_ANNOTATION)
_JOINED = (
    *_PLACED,
    *_SHAPED,
    Category.RUNTIME,
    Category.DRIVER,
    Category.MTIA,
    Category.GPU_USER_ANNOTATION,
)
_UNSIGNED_NONE = 2**32 - 1
"""A stream of -1 as CUPTI's unsigned 32-bit number."""

_INT_COLUMNS = {
    "correlation": _JOINED,
    "external_id": _JOINED,
    "device": _PLACED,
    "stream": _PLACED,
    "bytes": (Category.MEMCPY, Category.MEMSET),
    "sequence": _SHAPED,
    "fwd_thread": _SHAPED,
}
_RAW_COLUMNS = ("dims", "dtypes", "concrete", "strides")


_FINISHED = attrgetter("finished")
_COLLECTIVE = attrgetter("collective")


class DigitsNeeded(Exception):  # noqa: N818  # a signal to decode once more, not an error
    """Times of this block lost digits as floats."""


def _mask(categories: Iterable[Category]) -> Bool:
    table = np.zeros(len(Category), dtype=np.bool_)
    table[[int(c) for c in categories]] = True
    return table


_MASKS = {group: _mask(group) for group in {*_INT_COLUMNS.values()}}
_KERNEL = _mask((Category.KERNEL,))
_SYNC = _mask((Category.SYNC,))


class EventColumns:
    """The growing columns of one trace."""

    def __init__(self) -> None:
        self.strings = Strings()
        self.tracks = Tracks()
        self.categories = Categories()
        self.phases: Tally[str] = Tally()
        self.exact = False
        self.events = Table(tables.EVENTS)
        self.kernels = Table(tables.KERNELS)
        self.syncs = Table(tables.SYNCS)
        self.memory = Table(tables.MEMORY)
        self.counter_rows: list[tuple[int, int, int, float]] = []
        self.collectives: list[CollectiveArgs] = []
        self.ends: list[tuple[int, int, int]] = []
        self.process_names: dict[int | str, str] = {}
        self.thread_names: dict[tuple[int | str, int | str], str] = {}
        self.without_dur = 0
        self.negative_dur = 0
        self.bad_times = 0
        self.bad_time_example = ""
        self.unfinished: list[str] = []
        self.has_begins = False

    # ------------------------------------------------------------------ one block
    def add(self, events: Sequence[Any]) -> None:
        """Append decoded events.

        Raises
        ------
        DigitsNeeded
            The times are absolute with fractions and were decoded as floats: nothing was
            added; decode with digits and set ``exact``.
        """
        kinds = Tally(map(type, events))
        rows = self._rows_of(events, kinds)
        if not self.exact:
            others = kinds.keys() & _TIMED_OTHERS
            timed = [e for e in events if type(e) in others] if others else []
            if not _exact_as_floats([e.ts for e in rows] + [e.ts for e in timed]):
                raise DigitsNeeded
        for kind, count in kinds.items():
            self.phases[schema.PHASE_OF[kind]] += count
        if schema.Begin in kinds or schema.End in kinds:
            self.has_begins = True
            self._note_ends(events)
        if rows:
            self._add_rows(rows)
        handlers: tuple[tuple[type, Callable[[list[Any]], None]], ...] = (
            (schema.Instant, self._add_instants),
            (schema.OldInstant, self._add_instants),
            (schema.Counter, self._add_counters),
            (schema.Meta, self._add_meta),
        )
        for kind, handler in handlers:
            if kind in kinds:
                handler([e for e in events if type(e) is kind])

    @staticmethod
    def _rows_of(events: Sequence[Any], kinds: Tally[type]) -> list[Any]:
        if schema.Begin in kinds:
            return [e for e in events if type(e) in _ROWS]
        if schema.Complete not in kinds:
            return []
        if len(kinds) == 1:
            return list(events)
        return [e for e in events if type(e) is schema.Complete]

    def _times(self, events: Sequence[Any]) -> tuple[I64, Bool]:
        values: list[Any] = [e.ts for e in events]
        if self.exact:
            return nanoseconds_from_digits(
                [bytes(v) if isinstance(v, Raw) else b"" for v in values]
            )
        return nanoseconds(floats(values))

    def _durations(self, events: Sequence[Any]) -> I64:
        us = floats([e.dur for e in events])
        if np.isnan(us).any():
            for i in np.flatnonzero(np.isnan(us)).tolist():
                self.without_dur += type(events[i]) is schema.Complete
            us = np.nan_to_num(us, nan=0.0)
        ns, good = nanoseconds(us)
        wrong = (ns < 0) | (us >= EXACT_FLOAT_US) | ~good
        if wrong.any():
            self.negative_dur += int(wrong.sum())
            ns[wrong] = 0
        return ns

    def _add_rows(self, rows: list[Any]) -> None:
        ts, good = self._times(rows)
        if not good.all():
            bad = np.flatnonzero(~good).tolist()
            self.bad_times += len(bad)
            self.bad_time_example = self.bad_time_example or str(rows[bad[0]].name)
            rows, ts = list(compress(rows, good.tolist())), ts[good]
        n = len(rows)
        if not n:
            return
        dur = self._durations(rows)
        if self.has_begins:
            begun = [type(e) is schema.Begin for e in rows]
            dur[np.array(begun)] = OPEN
        cat = self.categories.codes([e.cat for e in rows])
        self.events.grow(n)
        last = self.events.last
        last("ts", n)[:] = ts
        last("dur", n)[:] = dur
        last("cat", n)[:] = cat
        last("name", n)[:] = self.strings.texts([e.name for e in rows])
        last("track", n)[:] = self.tracks.ids([e.pid for e in rows], [e.tid for e in rows])
        self._add_args(rows, [e.args for e in rows], cat)

    # ------------------------------------------------------------------ arguments
    def _add_args(self, rows: list[Any], args: list[Any], cat: npt.NDArray[np.int8]) -> None:
        n = len(rows)
        if set(map(type, args)) != {schema.Args}:
            args = [a if type(a) is schema.Args else schema.NO_ARGS for a in args]
        chosen = {group: _select(table[cat], args) for group, table in _MASKS.items()}
        for name, group in _INT_COLUMNS.items():
            at, some = chosen[group]
            column = self.events.last(name, n)
            column[:] = -1
            if some:
                column[at] = _INT_GETTERS[name](some)
        at, some = chosen[_PLACED]
        if some:
            self._place(rows, cat, at)
        self._add_shapes(*chosen[_SHAPED], n)
        at, some = _select(_KERNEL[cat], args)
        if some:
            self._add_kernels(some, at, n)
        at, some = _select(_SYNC[cat], args)
        if some:
            self._add_syncs(some, at, n)
        self._add_rare(rows, args)

    def _add_shapes(self, at: I64, some: list[Any], n: int) -> None:
        for name in _RAW_COLUMNS:
            column = self.events.last(name, n)
            column[:] = -1
            if some:
                column[at] = self.strings.raws(map(attrgetter(name), some), len(some))
        if some and (old := [a.dims_old for a in some]) and any(map(bytes, old)):
            ids = self.strings.raws(old, len(old))
            dims = self.events.last("dims", n)
            dims[at] = np.where(ids >= 0, ids, dims[at])

    def _place(self, rows: list[Any], cat: npt.NDArray[np.int8], at: I64) -> None:
        """Device and stream of GPU activity whose arguments do not give them: its pid and tid."""
        n = len(rows)
        device, stream = self.events.last("device", n), self.events.last("stream", n)
        for column, attribute in ((device, "pid"), (stream, "tid")):
            for i in at[column[at] == -1].tolist():
                if cat[i] != Category.SYNC:
                    column[i] = number_in(getattr(rows[i], attribute))
        stream[stream == _UNSIGNED_NONE] = -1

    def _add_kernels(self, some: list[Any], at: I64, count: int) -> None:
        n = len(some)
        columns: dict[str, npt.NDArray[Any]] = {
            "row": at + (self.events.rows - count),
            "grid": triples([a.grid for a in some]),
            "block": triples([a.block for a in some]),
            "blocks_per_sm": singles([a.blocks_per_sm for a in some]),
            "warps_per_sm": singles([a.warps_per_sm for a in some]),
            "occupancy": singles([a.occupancy for a in some]) / np.float32(100),
            "registers": small([a.registers for a in some], n),
            "shared_memory": wholes([a.shared_memory for a in some], n),
            "graph_id": wholes([a.graph for a in some], n),
            "graph_node_id": wholes([a.graph_node for a in some], n),
        }
        self.kernels.append(columns)

    def _add_syncs(self, some: list[Any], at: I64, count: int) -> None:
        n = len(some)
        stream = wholes([a.wait_stream for a in some], n)
        stream[stream == _UNSIGNED_NONE] = -1
        columns: dict[str, npt.NDArray[Any]] = {
            "row": at + (self.events.rows - count),
            "wait_stream": stream,
            "wait_record": wholes([a.wait_record for a in some], n),
        }
        self.syncs.append(columns)

    def _add_rare(self, rows: list[Any], args: list[Any]) -> None:
        if not all(map(_FINISHED, args)):
            self.unfinished += [
                str(e.name) for e, a in zip(rows, args, strict=True) if a.finished is False
            ]
        if any(map(_COLLECTIVE, args)):
            first = self.events.rows - len(args)
            self.collectives += [
                collective_record(first + i, a) for i, a in enumerate(args) if a.collective
            ]

    # ------------------------------------------------------------------ other phases
    def _note_ends(self, events: Sequence[Any]) -> None:
        row = self.events.rows
        for e in events:
            if type(e) is schema.End:
                ts, good = self._times([e])
                if good[0]:
                    track = int(self.tracks.ids([e.pid], [e.tid])[0])
                    self.ends.append((int(ts[0]), row, track))
                else:
                    self.bad_times += 1
            elif type(e) in _ROWS:
                row += 1

    def _add_instants(self, instants: list[Any]) -> None:
        some = [e for e in instants if e.name == "[memory]" and type(e.args) is schema.MemoryArgs]
        if not some:
            return
        ts, good = self._times(some)
        if not good.all():
            self.bad_times += int((~good).sum())
            some, ts = list(compress(some, good.tolist())), ts[good]
        args, n = [e.args for e in some], len(some)
        columns: dict[str, npt.NDArray[Any]] = {
            "ts": ts,
            "track": self.tracks.ids([e.pid for e in some], [e.tid for e in some]),
            "bytes": wholes([0 if a.bytes is None else a.bytes for a in args], n),
            "address": np.fromiter((bits(a.address) for a in args), np.int64, n),
            "total_allocated": wholes([a.total_allocated for a in args], n),
            "total_reserved": wholes([a.total_reserved for a in args], n),
            "device_type": small([a.device_type for a in args], n),
            "device": small([a.device for a in args], n),
        }
        self.memory.append(columns)

    def _add_counters(self, counters: list[Any]) -> None:
        ts, good = self._times(counters)
        names = self.strings.texts([e.name for e in counters])
        for i, event in enumerate(counters):
            if not good[i]:
                self.bad_times += 1
            elif isinstance(event.args, dict):
                for key, value in event.args.items():
                    number = floats([value])[0] if not isinstance(value, bool) else np.nan
                    if np.isfinite(number):
                        ids = self.strings.texts([key])
                        self.counter_rows.append(
                            (int(ts[i]), int(names[i]), int(ids[0]), float(number))
                        )

    def _add_meta(self, metas: list[Any]) -> None:
        for e in metas:
            label = e.args.get("name") if isinstance(e.args, dict) else None
            if label is None:
                continue
            if e.name == "process_name":
                self.process_names[track_part(e.pid)] = str(label)
            elif e.name == "thread_name":
                self.thread_names[track_part(e.pid), track_part(e.tid)] = str(label)


_ROWS = frozenset((schema.Complete, schema.Begin))
_TIMED_OTHERS = frozenset((schema.End, schema.Instant, schema.OldInstant, schema.Counter))


def _exact_as_floats(times: list[Any]) -> bool:
    """Whether floats hold the times: small ones, or whole numbers of µs."""
    kinds = set(map(type, times))
    if float not in kinds:
        return True
    if kinds == {float}:
        return bool(max(times) < EXACT_FLOAT_US and min(times) > -EXACT_FLOAT_US)
    return not needs_digits(times, floats(times))


def _select(mask: Bool, values: list[Any]) -> tuple[I64, list[Any]]:
    at = np.flatnonzero(mask)
    if len(at) == len(values):
        return at, values
    return at, list(compress(values, mask.tolist()))


def _getter(attribute: str) -> Callable[[list[Any]], I64]:
    get = attrgetter(attribute)
    return lambda some: wholes(map(get, some), len(some))


def _external(some: list[Any]) -> I64:
    new = wholes([a.external for a in some], len(some))
    if (new == -1).any():
        old = wholes([a.external_old for a in some], len(some))
        new = np.where(new == -1, old, new)
    return new


_INT_GETTERS: dict[str, Callable[[list[Any]], I64]] = {
    name: _external if name == "external_id" else _getter(name) for name in _INT_COLUMNS
}
