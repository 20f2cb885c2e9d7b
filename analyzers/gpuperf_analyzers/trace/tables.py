"""Columns that grow in place: no copy of all of them is ever made, so the peak is the columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Dtypes = Mapping[str, Any]
"""Column name to its type, or to (type, width) for rows of several numbers."""

EVENTS: Dtypes = {
    "name": np.int32,
    "cat": np.int8,
    "ts": np.int64,
    "dur": np.int64,
    "track": np.int32,
    "device": np.int32,
    "stream": np.int64,
    "correlation": np.int64,
    "external_id": np.int64,
    "bytes": np.int64,
    "dims": np.int32,
    "dtypes": np.int32,
    "concrete": np.int32,
    "strides": np.int32,
    "sequence": np.int64,
    "fwd_thread": np.int64,
}
KERNELS: Dtypes = {
    "row": np.int64,
    "grid": (np.int64, 3),
    "block": (np.int64, 3),
    "blocks_per_sm": np.float32,
    "warps_per_sm": np.float32,
    "occupancy": np.float32,
    "registers": np.int32,
    "shared_memory": np.int64,
    "graph_id": np.int64,
    "graph_node_id": np.int64,
}
SYNCS: Dtypes = {"row": np.int64, "wait_stream": np.int64, "wait_record": np.int64}
MEMORY: Dtypes = {
    "ts": np.int64,
    "track": np.int32,
    "bytes": np.int64,
    "address": np.int64,
    "total_allocated": np.int64,
    "total_reserved": np.int64,
    "device_type": np.int32,
    "device": np.int32,
}
RANGES: Dtypes = {
    "range": np.int64, "name": np.int32, "key": np.int32, "value": np.float64,
}  # fmt: skip
COUNTERS: Dtypes = {"ts": np.int64, "name": np.int32, "key": np.int32, "value": np.float64}

_FEWEST = 32_768
_GROWTH = 16
"""A full column grows by a sixteenth: large blocks are moved by the kernel's page tables alone."""


class Table:
    """Columns of equal length that rows are appended to."""

    def __init__(self, dtypes: Dtypes) -> None:
        self.rows = 0
        self._capacity = 0
        self._columns: dict[str, npt.NDArray[Any]] = {}
        for name, kind in dtypes.items():
            dtype, *width = kind if isinstance(kind, tuple) else (kind,)
            self._columns[name] = np.empty((0, *width), dtype=dtype)

    @classmethod
    def holding(cls, columns: Mapping[str, npt.NDArray[Any]]) -> Table:
        """A table of finished columns."""
        table = cls({})
        table._columns = dict(columns)
        table.rows = table._capacity = len(next(iter(columns.values())))
        return table

    def grow(self, count: int) -> None:
        """Add `count` rows, their values not set yet; :meth:`last` gives them."""
        self.rows += count
        if self.rows > self._capacity:
            self._resize(max(self.rows, _FEWEST) + self.rows // _GROWTH)

    def append(self, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Add rows with a value for every column."""
        count = len(next(iter(columns.values())))
        self.grow(count)
        for name, values in columns.items():
            self.last(name, count)[:] = values

    def last(self, name: str, count: int) -> npt.NDArray[Any]:
        """The last `count` values of a column, to be written to before the table grows again."""
        return self._columns[name][self.rows - count : self.rows]

    def take(self, name: str) -> npt.NDArray[Any]:
        """A whole column; the table is not to grow any more."""
        if self._capacity != self.rows:
            self._resize(self.rows)
        return self._columns[name]

    def drop(self, name: str) -> npt.NDArray[Any]:
        """As :meth:`take`, and the table forgets it, so that its memory goes with the caller's."""
        column = self.take(name)
        del self._columns[name]
        return column

    def _resize(self, capacity: int) -> None:
        for column in self._columns.values():
            # No view of it lives on: `last` is for use on the spot.
            column.resize((capacity, *column.shape[1:]), refcheck=False)
        self._capacity = capacity
