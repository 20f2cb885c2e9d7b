"""Decoded JSON values as the numbers that belong there, tolerant of what is written in the wild."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np

from gpuperf_analyzers.trace import schema
from gpuperf_analyzers.trace.model import F32, I32, I64, CollectiveArgs
from gpuperf_analyzers.trace.times import floats


def whole(value: Any) -> int:
    """`value` as an int64, -1 where it is none: numbers, and strings of numbers in any base."""
    try:
        number = int(value, 0) if isinstance(value, str) else int(value)
    except (TypeError, ValueError, OverflowError):
        return -1
    return number if -(2**63) <= number < 2**63 else -1


def wholes(values: Iterable[Any], count: int) -> I64:
    """`values` as int64; -1 where one is not a whole number that fits."""
    values = list(values)
    try:
        return np.fromiter(values, np.int64, count)
    except (TypeError, ValueError, OverflowError):
        return np.fromiter(map(whole, values), np.int64, count)


def triples(values: list[Any]) -> I64:
    """Grids or blocks as (n, 3); -1 where one is not three whole numbers."""
    if set(map(type, values)) == {list} and set(map(len, values)) == {3}:
        try:
            flat = np.fromiter(chain.from_iterable(values), np.int64, 3 * len(values))
        except (TypeError, ValueError, OverflowError):
            pass
        else:
            return flat.reshape(len(values), 3)
    rows = [
        [whole(x) for x in v] if isinstance(v, list) and len(v) == 3 else [-1, -1, -1]
        for v in values
    ]
    return np.array(rows, dtype=np.int64).reshape(len(values), 3)


def number_in(value: Any) -> int:
    """The number in a pid or tid: itself, or the digits of ``stream 7``."""
    if isinstance(value, str):
        return whole(value.rsplit(" ", 1)[-1])
    return whole(value)


def singles(values: list[Any]) -> F32:
    """`values` as float32; NaN where one is no number or out of its range."""
    wide = floats(values)
    return np.where(np.abs(wide) < np.finfo(np.float32).max, wide, np.nan).astype(np.float32)


def bits(value: Any) -> int:
    """The bit pattern of an unsigned 64-bit address as an int64."""
    if isinstance(value, int) and 2**63 <= value < 2**64:
        return value - 2**64
    return whole(value)


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _optional(value: Any) -> int | None:
    return None if value is None or (number := whole(value)) == -1 else number


def collective_record(row: int, a: schema.Args) -> CollectiveArgs:
    """NCCL's metadata in `a` as the model holds it, for the event in `row`."""
    return CollectiveArgs(
        row=row,
        name=_text(a.collective),
        in_elements=_optional(a.in_elements),
        out_elements=_optional(a.out_elements),
        dtype=_text(a.dtype),
        group_size=_optional(a.group_size),
        group_name=_text(a.group_name),
        group_description=_text(a.group_description),
        group_ranks=_text(a.group_ranks),
        sequence=_optional(a.collective_sequence),
        in_split=_text(a.in_split),
        out_split=_text(a.out_split),
        source_rank=_optional(a.source_rank),
        destination_rank=_optional(a.destination_rank),
    )


def small(values: Iterable[Any], count: int) -> I32:
    """`values` as int32; -1 where one is not a whole number that fits."""
    wide = wholes(values, count)
    fits = (wide >= -(2**31)) & (wide < 2**31)
    return np.where(fits, wide, -1).astype(np.int32)
