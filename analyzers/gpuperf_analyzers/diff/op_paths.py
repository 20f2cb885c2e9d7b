"""Which row of the op table an event belongs to: its place in the call tree, and its shapes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuperf_analyzers.diff.table import RowKey
from gpuperf_analyzers.trace.labels import shapes_label, types_label
from gpuperf_analyzers.trace.links import nesting
from gpuperf_analyzers.trace.model import I64, Trace

NO_LAUNCH = "(no launch record)"


@dataclass(frozen=True, slots=True, eq=False)
class OpKeys:
    """Row of the op table for every CPU op of a trace.

    ``of`` has, for each event, an index into ``keys``; -1 where the event is no CPU op.
    """

    keys: tuple[RowKey, ...]
    of: I64


def op_keys(trace: Trace, rows: I64) -> OpKeys:
    """Keys of the CPU ops in `rows` (-1 is left out): path, shapes and dtypes as text."""
    e = trace.events
    paths, path_of = _paths(trace)
    wanted = np.unique(rows[rows >= 0])
    first, group = grouped(path_of[wanted], e.dims[wanted], e.dtypes[wanted])
    made: dict[RowKey, int] = {}
    # Texts that look alike are one row: an index tells scalars apart that a label leaves out.
    number = [
        made.setdefault(
            (
                paths[path_of[row]] if path_of[row] >= 0 else (trace.name_of(row),),
                shapes_label(trace, int(e.dims[row])),
                types_label(trace, int(e.dtypes[row])),
            ),
            len(made),
        )
        for row in wanted[first].tolist()
    ]
    of = np.full(len(e), -1, dtype=np.int64)
    of[wanted] = np.array(number, dtype=np.int64)[group]
    return OpKeys(tuple(made), of)


def grouped(*columns: I64 | np.ndarray[tuple[int], np.dtype[np.int32]]) -> tuple[I64, I64]:
    """Equal rows of `columns` (numbers of -1 or more) as groups.

    Returns the index of one member of each group, and the group of each row.
    """
    group = np.zeros(len(columns[0]), dtype=np.int64)
    first = np.zeros(min(len(group), 1), dtype=np.int64)
    for column in columns:
        width = int(column.max(initial=-1)) + 2
        _, first, inverse = np.unique(
            group * width + column + 1, return_index=True, return_inverse=True
        )
        group = inverse.reshape(-1).astype(np.int64)
    return first, group


def _paths(trace: Trace) -> tuple[list[tuple[str, ...]], I64]:
    """Every path of the call tree, and its number for each CPU op (-1: an op without length)."""
    nest = nesting(trace)
    names = trace.events.name[nest.rows].astype(np.int64)
    number = np.full(len(nest.rows), -1, dtype=np.int64)
    paths: list[tuple[str, ...]] = []
    for depth in range(int(nest.depth.max(initial=-1)) + 1):
        at = np.flatnonzero(nest.depth == depth)
        parent = nest.parent[at]
        above = np.where(parent >= 0, number[parent], -1)
        first, group = grouped(above, names[at])
        number[at] = len(paths) + group
        for i in first.tolist():
            around = paths[above[i]] if above[i] >= 0 else ()
            paths.append((*around, trace.strings[int(names[at[i]])]))
    of = np.full(len(trace.events), -1, dtype=np.int64)
    of[nest.rows] = number
    return paths, of
