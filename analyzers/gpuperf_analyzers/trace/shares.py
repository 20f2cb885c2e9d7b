"""What each of several processes read of one trace, joined in the order of the file.

Each process took some blocks into columns of its own, and noted after each how far they had grown.
Rows, strings and tracks are put where one process alone would have put them, so that the columns
are the same whoever read what.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gpuperf_analyzers.trace import tables
from gpuperf_analyzers.trace.columns import EventColumns
from gpuperf_analyzers.trace.model import I64, CollectiveArgs
from gpuperf_analyzers.trace.tables import Dtypes, Table

Array = npt.NDArray[Any]

TABLES: Mapping[str, Dtypes] = {
    "events": tables.EVENTS,
    "memory": tables.MEMORY,
    "kernels": tables.KERNELS,
    "syncs": tables.SYNCS,
}
"""In the order in which their columns are handed over."""
_STRINGS = frozenset({"name", "dims", "dtypes", "concrete", "strides"})


class Marks(NamedTuple):
    """How many of each there are after a block."""

    events: int = 0
    memory: int = 0
    strings: int = 0
    tracks: int = 0
    counters: int = 0
    labels: int = 0
    unfinished: int = 0


class Share(Struct):
    """What one process read, its tables aside. Fields as in ``EventColumns``."""

    marks: list[Marks]
    strings: list[str]
    tracks: list[tuple[int | str, int | str]]
    phases: dict[str, int]
    counter_rows: list[tuple[int, int, int, float]]
    labels: list[tuple[tuple[int | str, ...], str]]
    unfinished: list[str]
    ends: list[tuple[int, int, int]]
    collectives: list[CollectiveArgs]
    has_begins: bool
    rows: dict[str, int]


class Source(Protocol):
    """Where the columns of a share come from, each asked for once, in the order of ``TABLES``."""

    def column(self, table: str, name: str) -> Array:
        """A whole column."""


class Own:
    """The columns of this process, each let go when it is asked for."""

    def __init__(self, columns: EventColumns) -> None:
        self._tables = tables_of(columns)

    def column(self, table: str, name: str) -> Array:
        """A whole column."""
        return self._tables[table].drop(name)


def bytes_of(column: Array) -> memoryview:
    """The bytes of a column, to be sent or filled."""
    return memoryview(column.reshape(-1).view(np.uint8))  # type: ignore[arg-type]


def tables_of(columns: EventColumns) -> dict[str, Table]:
    """The tables of `columns` by their names in ``TABLES``."""
    arguments = columns.arguments
    return {
        "events": columns.events,
        "memory": columns.memory,
        "kernels": arguments.kernels,
        "syncs": arguments.syncs,
    }


def marks_of(columns: EventColumns) -> Marks:
    """How far `columns` have grown."""
    return Marks(
        columns.events.rows,
        columns.memory.rows,
        len(columns.strings.values),
        len(columns.tracks.values),
        len(columns.counter_rows),
        len(columns.labels),
        len(columns.unfinished),
    )


def share_of(columns: EventColumns, marks: list[Marks]) -> Share:
    """What `columns` hold, their tables aside."""
    return Share(
        marks=marks,
        strings=columns.strings.values,
        tracks=columns.tracks.values,
        phases=dict(columns.phases),
        counter_rows=columns.counter_rows,
        labels=columns.labels,
        unfinished=columns.unfinished,
        ends=columns.ends,
        collectives=columns.collectives,
        has_begins=columns.has_begins,
        rows={name: table.rows for name, table in tables_of(columns).items()},
    )


def join(shares: Sequence[Share], sources: Sequence[Source], order: Sequence[int]) -> EventColumns:
    """One set of columns from `shares`; ``order[i]`` is whose the file's i-th block was."""
    pieces = _Pieces(shares, order)
    joined = EventColumns()
    joined.strings.values, strings = pieces.distinct("strings", attrgetter("strings"))
    joined.tracks.values, tracks = pieces.distinct("tracks", attrgetter("tracks"))
    remap = {**dict.fromkeys(_STRINGS, strings), "track": tracks}
    whole = {name: _table(name, dtypes, sources, pieces, remap) for name, dtypes in TABLES.items()}
    joined.events, joined.memory = whole["events"], whole["memory"]
    joined.arguments.events = joined.events
    joined.arguments.kernels, joined.arguments.syncs = whole["kernels"], whole["syncs"]
    for who, share in enumerate(shares):
        joined.phases += Tally(share.phases)
        joined.has_begins |= share.has_begins
        moved = pieces.moved(who, [c.row for c in share.collectives])
        joined.collectives += [
            replace(c, row=row) for c, row in zip(share.collectives, moved, strict=True)
        ]
        rows = pieces.moved(who, [row for _, row, _ in share.ends])
        joined.ends += [
            (at, row, int(tracks[who][track]))
            for (at, _, track), row in zip(share.ends, rows, strict=True)
        ]
    joined.collectives.sort(key=attrgetter("row"))
    joined.labels = pieces.listed("labels", [s.labels for s in shares])
    joined.unfinished = pieces.listed("unfinished", [s.unfinished for s in shares])
    joined.counter_rows = pieces.listed(
        "counters",
        [
            [(at, int(ids[name]), int(ids[key]), v) for at, name, key, v in share.counter_rows]
            for ids, share in zip(strings, shares, strict=True)
        ],
    )
    return joined


class _Pieces:
    """Runs of blocks in the order of the file: whose each is, and where it goes."""

    def __init__(self, shares: Sequence[Share], order: Sequence[int]) -> None:
        self._shares = shares
        self._who: list[int] = []
        ends = [[Marks(), *s.marks] for s in shares]
        seen = [0] * len(shares)
        begun: list[Marks] = []
        ended: list[Marks] = []
        for who in order:
            if self._who and self._who[-1] == who:
                ended[-1] = ends[who][seen[who] + 1]
            else:
                self._who.append(who)
                begun.append(ends[who][seen[who]])
                ended.append(ends[who][seen[who] + 1])
            seen[who] += 1
        shape = (len(begun), len(Marks()))
        self._begin = np.array(begun, dtype=np.int64).reshape(shape)
        self._end = np.array(ended, dtype=np.int64).reshape(shape)
        sizes = self._end - self._begin
        self._to = np.cumsum(sizes, axis=0) - sizes

    def _walk(self, what: str) -> list[tuple[int, int, int, int]]:
        """Whose, from, to, and where to, of the pieces that hold some of `what`."""
        field = Marks._fields.index(what)
        columns = (self._begin[:, field], self._end[:, field], self._to[:, field])
        walked = zip(self._who, *(c.tolist() for c in columns), strict=True)
        return [piece for piece in walked if piece[2] > piece[1]]

    def placed(self, what: str, parts: Sequence[Array]) -> Array:
        """`parts`, one a process, as one column in the order of the file."""
        whole = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), dtype=parts[0].dtype)
        for who, begin, end, to in self._walk(what):
            whole[to : to + end - begin] = parts[who][begin:end]
        return whole

    def listed(self, what: str, parts: Sequence[list[Any]]) -> list[Any]:
        """As :meth:`placed`, of lists."""
        whole: list[Any] = []
        for who, begin, end, _ in self._walk(what):
            whole += parts[who][begin:end]
        return whole

    def distinct(
        self, what: str, values_of: Callable[[Share], list[Any]]
    ) -> tuple[list[Any], list[npt.NDArray[np.int32]]]:
        """Distinct values in the order of their first block, and each share's ids in them.

        The last id of a share is -1, so that -1 stays what it is.
        """
        parts = [values_of(share) for share in self._shares]
        ids = [np.full(len(part) + 1, -1, dtype=np.int32) for part in parts]
        place: dict[Any, int] = {}
        for who, begin, end, _ in self._walk(what):
            for i in range(begin, end):
                ids[who][i] = place.setdefault(parts[who][i], len(place))
        return list(place), ids

    def moved(self, who: int, rows: Sequence[int]) -> list[int]:
        """Rows of events of a share in the joined table."""
        return [int(row) for row in self.rows(who, np.asarray(rows, dtype=np.int64))]

    def rows(self, who: int, rows: I64) -> I64:
        """As :meth:`moved`, of arrays."""
        own = [(begin, to) for w, begin, _, to in self._walk("events") if w == who]
        if not own:
            return rows
        begins, places = np.array(own, dtype=np.int64).T
        # An end may stand behind the last row.
        piece = np.searchsorted(begins, rows, side="right") - 1
        moved: I64 = rows + (places - begins)[piece]
        return moved


def _table(
    table: str,
    dtypes: Dtypes,
    sources: Sequence[Source],
    pieces: _Pieces,
    remap: Mapping[str, Sequence[npt.NDArray[np.int32]]],
) -> Table:
    """One table, a column at a time, so that little is held twice."""
    columns: dict[str, Array] = {}
    for name in dtypes:
        parts = [source.column(table, name) for source in sources]
        if name in remap:
            parts = [ids[part] for ids, part in zip(remap[name], parts, strict=True)]
        if name == "row":
            parts = [pieces.rows(who, part) for who, part in enumerate(parts)]
        # Rows of the side tables are sorted when all is assembled.
        in_order = table in Marks._fields
        columns[name] = pieces.placed(table, parts) if in_order else np.concatenate(parts)
    return Table.holding(columns)
