"""Distinct whole numbers and tuples of them, without sorting where their range is small.

Names, tracks and shapes are ids out of a few thousand, repeated by hundreds of thousands of events:
marking which occur is many times faster than the sort of ``np.unique``, and gives the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.signedinteger[Any]]
I64 = npt.NDArray[np.int64]

_ROOM = 65_536
"""A table of this many marks costs nothing beside the call itself."""


def distinct(values: Ints) -> tuple[I64, I64]:
    """The distinct `values` in rising order, and for each of `values` its place among them.

    What ``np.unique(values, return_inverse=True)`` gives for one dimension.
    """
    if not len(values):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low > _ROOM + 4 * len(values):
        found, place = np.unique(values, return_inverse=True)
        return found.astype(np.int64), place.reshape(-1)
    at = values.astype(np.int64) - low
    there = np.zeros(high - low + 1, dtype=np.bool_)
    there[at] = True
    return np.flatnonzero(there) + low, (np.cumsum(there) - 1)[at]


def distinct_tuples(first: Ints, *others: Ints) -> tuple[tuple[I64, ...], I64]:
    """The distinct tuples of the columns in rising order, by column; and each row's place.

    What ``np.unique(np.stack(columns, 1), axis=0, return_inverse=True)`` gives.
    """
    values, place = distinct(first)
    columns: tuple[I64, ...] = (values,)
    for other in others:
        more, which = distinct(other)
        if len(more) == 1:  # the same everywhere: it tells nothing apart
            columns = (*columns, np.full(len(columns[0]), more[0]))
            continue
        # Fewer than rows squared, so int64 holds it.
        keys, place = distinct(place * len(more) + which)
        before, here = np.divmod(keys, max(len(more), 1))
        columns = (*(c[before] for c in columns), more[here])
    return columns, place
