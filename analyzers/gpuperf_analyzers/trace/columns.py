"""Decoded events into columns: blocks of arrays that become the model's at the end."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Sequence
from itertools import compress
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Raw

from gpuperf_analyzers.trace import schema, tables
from gpuperf_analyzers.trace.arguments import ArgumentTables
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
    small,
    wholes,
)

OPEN = -1
"""Duration of a begun event whose end is not seen yet."""

_FINISHED = attrgetter("finished")
_COLLECTIVE = attrgetter("collective")


_LARGEST_BYTES = 2**56
"""No allocation is of 64 PiB: what says so is damage, and sums of it would overflow."""


DECODE_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)
"""What decoders raise for text that is not what they decode."""


class DigitsNeeded(Exception):  # noqa: N818  # a signal to decode once more, not an error
    """Times of this block lost digits as floats."""


class EventColumns:
    """The growing columns of one trace."""

    def __init__(self) -> None:
        self.strings = Strings()
        self.tracks = Tracks()
        self.categories = Categories()
        self.phases: Tally[str] = Tally()
        self.exact = False
        self.events = Table(tables.EVENTS)
        self.arguments = ArgumentTables(self.events, self.strings)
        self.memory = Table(tables.MEMORY)
        self.counter_rows: list[tuple[int, int, int, float]] = []
        self.range_rows: list[tuple[int, int, int, float]] = []
        self.has_ranges = False
        self.ranges = 0
        self.collectives: list[CollectiveArgs] = []
        self.ends: list[tuple[int, int, int]] = []
        self.labels: list[tuple[tuple[int | str, ...], str]] = []
        self.without_dur = 0
        self.negative_dur = 0
        self.bad_times = 0
        self.bad_time_example = ""
        self.bad_sizes = 0
        self.unfinished: list[str] = []
        self.has_begins = False

    @property
    def process_names(self) -> dict[int | str, str]:
        """Names of processes by pid; the last one given counts."""
        return {key[0]: label for key, label in self.labels if len(key) == 1}

    @property
    def thread_names(self) -> dict[tuple[int | str, int | str], str]:
        """Names of threads by (pid, tid); the last one given counts."""
        return {(key[0], key[1]): label for key, label in self.labels if len(key) == 2}

    @property
    def odd(self) -> bool:
        """Whether something was seen that is told with its place in the file."""
        return bool(
            self.without_dur
            or self.negative_dur
            or self.bad_times
            or self.bad_sizes
            or self.has_ranges
            or self.range_rows
        )

    # ------------------------------------------------------------------ one block
    def decode(self, block: bytes) -> bool:
        """Append the events of `block`, a JSON list; False where it is none of whole events."""
        decoder = schema.exact_block_decoder if self.exact else schema.block_decoder
        try:
            events = decoder.decode(block)
        except DECODE_ERRORS:
            return False
        try:
            self.add(events)
        except DigitsNeeded:
            self.exact = True
            self.add(schema.exact_block_decoder.decode(block))
        return True

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
        times: list[Any] = [e.ts for e in rows]
        if not self.exact:
            others = kinds.keys() & _TIMED_OTHERS
            timed = [e for e in events if type(e) in others] if others else []
            if not _exact_as_floats(times + [e.ts for e in timed]):
                raise DigitsNeeded
        for kind, count in kinds.items():
            self.phases[schema.PHASE_OF[kind]] += count
        if schema.Begin in kinds or schema.End in kinds:
            self.has_begins = True
            self._note_ends(events)
        if rows:
            self._add_rows(rows, times)
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

    def _times(self, values: list[Any]) -> tuple[I64, Bool]:
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

    def _add_rows(self, rows: list[Any], times: list[Any]) -> None:
        ts, good = self._times(times)
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
        self.has_ranges = self.has_ranges or bool(np.any(cat == Category.COUNTER_RANGE))
        self.events.grow(n)
        last = self.events.last
        last("ts", n)[:] = ts
        last("dur", n)[:] = dur
        last("cat", n)[:] = cat
        last("name", n)[:] = self.strings.names([e.name for e in rows])
        last("track", n)[:] = self.tracks.ids([e.pid for e in rows], [e.tid for e in rows])
        args = _arguments(rows)
        self.arguments.add(rows, args, cat)
        self._add_rare(rows, args)

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
                ts, good = self._times([e.ts])
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
        ts, good = self._times([e.ts for e in some])
        if not good.all():
            self.bad_times += int((~good).sum())
            some, ts = list(compress(some, good.tolist())), ts[good]
        sizes = wholes([0 if e.args.bytes is None else e.args.bytes for e in some], len(some))
        possible = (sizes > -_LARGEST_BYTES) & (sizes < _LARGEST_BYTES)
        if not possible.all():
            self.bad_sizes += int((~possible).sum())
            some, ts = list(compress(some, possible.tolist())), ts[possible]
            sizes = sizes[possible]
        args, n = [e.args for e in some], len(some)
        columns: dict[str, npt.NDArray[Any]] = {
            "ts": ts,
            "track": self.tracks.ids([e.pid for e in some], [e.tid for e in some]),
            "bytes": sizes,
            "address": np.fromiter((bits(a.address) for a in args), np.int64, n),
            "total_allocated": _sizes([a.total_allocated for a in args]),
            "total_reserved": _sizes([a.total_reserved for a in args]),
            "device_type": small([a.device_type for a in args], n),
            "device": small([a.device for a in args], n),
        }
        self.memory.append(columns)

    def _add_counters(self, counters: list[Any]) -> None:
        ts, good = self._times([e.ts for e in counters])
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

    def add_ranges(self, block: bytes) -> None:
        """The counters of the ranges in a block whose events have been added."""
        for event in schema.range_decoder.decode(block):
            code = self.categories.codes([event.cat])[0]
            if code != Category.COUNTER_RANGE or not isinstance(event.args, dict):
                continue
            name = int(self.strings.names([event.name])[0])
            keys = self.strings.texts(list(event.args))
            numbers = floats(list(event.args.values()))
            self.range_rows += [
                (self.ranges, name, key, number)
                for key, number in zip(keys.tolist(), numbers.tolist(), strict=True)
                if np.isfinite(number)
            ]
            self.ranges += 1
        self.has_ranges = False

    def _add_meta(self, metas: list[Any]) -> None:
        for e in metas:
            label = e.args.get("name") if isinstance(e.args, dict) else None
            if label is None:
                continue
            if e.name == "process_name":
                self.labels.append(((track_part(e.pid),), str(label)))
            elif e.name == "thread_name":
                self.labels.append(((track_part(e.pid), track_part(e.tid)), str(label)))


_ROWS = frozenset((schema.Complete, schema.Begin))
_TIMED_OTHERS = frozenset((schema.End, schema.Instant, schema.OldInstant, schema.Counter))


def _sizes(values: list[Any]) -> I64:
    """Totals of memory; -1 where one is impossible."""
    sizes = wholes(values, len(values))
    return np.where((sizes >= 0) & (sizes < _LARGEST_BYTES), sizes, -1)


def _exact_as_floats(times: list[Any]) -> bool:
    """Whether floats hold the times: small ones, or whole numbers of µs."""
    kinds = set(map(type, times))
    if float not in kinds:
        return True
    if kinds == {float}:
        return bool(max(times) < EXACT_FLOAT_US and min(times) > -EXACT_FLOAT_US)
    return not needs_digits(times, floats(times))


def _arguments(rows: list[Any]) -> list[Any]:
    args = [e.args for e in rows]
    if set(map(type, args)) != {schema.Args}:
        args = [a if type(a) is schema.Args else schema.NO_ARGS for a in args]
    return args
