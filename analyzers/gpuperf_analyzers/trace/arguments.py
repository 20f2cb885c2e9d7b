"""Arguments of a block of complete events into columns.

The events of a block are partitioned by kind, in an order that makes every column's kinds
neighbours: what has a correlation, what is on a device, what has shapes. Each column then takes
one slice, and no field is looked at where its kind has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuperf_analyzers.trace import schema, tables
from gpuperf_analyzers.trace.interning import Strings
from gpuperf_analyzers.trace.model import I32, I64, Category
from gpuperf_analyzers.trace.tables import Table
from gpuperf_analyzers.trace.values import number_in, singles, small, triples, wholes

_UNSIGNED_NONE = 2**32 - 1
"""A stream of -1 as CUPTI's unsigned 32-bit number."""

_OTHER, _MEMORY, _KERNEL, _SYNC, _CALL, _ANNOTATED, _SHAPED, _END = range(8)
_GROUPS: Mapping[Category, int] = {
    Category.MEMCPY: _MEMORY,
    Category.MEMSET: _MEMORY,
    Category.KERNEL: _KERNEL,
    Category.SYNC: _SYNC,
    Category.RUNTIME: _CALL,
    Category.DRIVER: _CALL,
    Category.MTIA: _CALL,
    Category.GPU_USER_ANNOTATION: _ANNOTATED,
    Category.CPU_OP: _SHAPED,
    Category.USER_ANNOTATION: _SHAPED,
}
_GROUP_OF = np.array([_GROUPS.get(c, _OTHER) for c in Category], dtype=np.int8)


class _Column(NamedTuple):
    """An integer column: the first and last kind that has it, and how it is got."""

    first: int
    last: int
    get: Callable[[list[Any]], I32 | I64]


def _getter(attribute: str) -> Callable[[list[Any]], I64]:
    get = attrgetter(attribute)
    return lambda some: wholes(map(get, some), len(some))


def _device(some: list[Any]) -> I32:
    return small(map(_DEVICE, some), len(some))


def _external(some: list[Any]) -> I64:
    found = wholes(map(_EXTERNAL, some), len(some))
    absent = np.flatnonzero(found == -1)
    if len(absent):
        old = [some[i].external_old for i in absent.tolist()]
        found[absent] = wholes(old, len(old))
    return found


_DEVICE = attrgetter("device")
_EXTERNAL = attrgetter("external")
_INTEGERS: Mapping[str, _Column] = {
    "bytes": _Column(_MEMORY, _MEMORY, _getter("bytes")),
    "device": _Column(_MEMORY, _SYNC, _device),
    "stream": _Column(_MEMORY, _SYNC, _getter("stream")),
    "correlation": _Column(_MEMORY, _CALL, _getter("correlation")),
    "external_id": _Column(_MEMORY, _SHAPED, _external),
    "sequence": _Column(_SHAPED, _SHAPED, _getter("sequence")),
    "fwd_thread": _Column(_SHAPED, _SHAPED, _getter("fwd_thread")),
}
_RAWS = {name: attrgetter(name) for name in ("dims", "dtypes", "concrete", "strides")}
_OLD_DIMS = attrgetter("dims_old")


class ArgumentTables:
    """Where the arguments of events go, besides the table of events itself."""

    def __init__(self, events: Table, strings: Strings) -> None:
        self.events = events
        self.strings = strings
        self.kernels = Table(tables.KERNELS)
        self.syncs = Table(tables.SYNCS)

    def add(self, rows: list[Any], args: list[Any], cat: npt.NDArray[np.int8]) -> None:
        """Set the columns of the last ``len(rows)`` events from their `args`."""
        n = len(rows)
        group = _GROUP_OF[cat]
        order = np.argsort(group, kind="stable")
        starts = np.searchsorted(group[order], np.arange(_END + 1)).tolist()
        ordered = list(map(args.__getitem__, order.tolist()))
        for name, column in _INTEGERS.items():
            values = self.events.last(name, n)
            values[:] = -1
            begin, end = starts[column.first], starts[column.last + 1]
            if end > begin:
                values[order[begin:end]] = column.get(ordered[begin:end])
        begin, end = starts[_MEMORY], starts[_SYNC]
        if end > begin:
            self._place(rows, order[begin:end])
        begin, end = starts[_SHAPED], starts[_END]
        self._add_shapes(ordered[begin:end], order[begin:end], n)
        first = self.events.rows - n
        begin, end = starts[_KERNEL], starts[_KERNEL + 1]
        if end > begin:
            self._add_kernels(ordered[begin:end], order[begin:end] + first)
        begin, end = starts[_SYNC], starts[_SYNC + 1]
        if end > begin:
            self._add_syncs(ordered[begin:end], order[begin:end] + first)
            stream = self.events.last("stream", n)
            stream[stream == _UNSIGNED_NONE] = -1

    def _add_shapes(self, some: list[Any], at: I64, n: int) -> None:
        for name, get in _RAWS.items():
            column = self.events.last(name, n)
            column[:] = -1
            raws = list(map(get, some))
            if raws.count(schema.EMPTY_RAW) < len(raws):  # the absent ones are that very object
                column[at] = self.strings.raws(raws, len(raws))
        old = list(map(_OLD_DIMS, some))
        if old.count(schema.EMPTY_RAW) < len(old):
            ids = self.strings.raws(old, len(old))
            dims = self.events.last("dims", n)
            dims[at] = np.where(ids >= 0, ids, dims[at])

    def _place(self, rows: list[Any], at: I64) -> None:
        """Device and stream of GPU activity whose arguments do not give them: its pid and tid."""
        for name, attribute in (("device", "pid"), ("stream", "tid")):
            column = self.events.last(name, len(rows))
            for i in at[column[at] == -1].tolist():
                number = number_in(getattr(rows[i], attribute))
                fits = np.iinfo(column.dtype).min <= number <= np.iinfo(column.dtype).max
                column[i] = number if fits else -1

    def _add_kernels(self, some: list[Any], row: I64) -> None:
        n = len(some)
        self.kernels.append(
            {
                "row": row,
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
        )

    def _add_syncs(self, some: list[Any], row: I64) -> None:
        n = len(some)
        stream = wholes([a.wait_stream for a in some], n)
        stream[stream == _UNSIGNED_NONE] = -1
        record = wholes([a.wait_record for a in some], n)
        self.syncs.append({"row": row, "wait_stream": stream, "wait_record": record})
