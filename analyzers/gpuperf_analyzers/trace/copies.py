"""Copies between host and device, by direction and kind of host memory."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np

from gpuperf_analyzers.trace.model import I64, Category, Trace
from gpuperf_analyzers.trace.selection import Activity

DTYPE_BYTES = {
    "bool": 1,
    "unsigned char": 1,
    "signed char": 1,
    "char": 1,
    "short": 2,
    "short int": 2,
    "unsigned short": 2,
    "c10::Half": 2,
    "c10::BFloat16": 2,
    "int": 4,
    "unsigned int": 4,
    "float": 4,
    "long": 8,
    "long int": 8,
    "unsigned long": 8,
    "double": 8,
    "c10::complex<float>": 8,
    "c10::complex<double>": 16,
    "c10::complex<c10::Half>": 4,
    "c10::Float8_e4m3fn": 1,
    "c10::Float8_e5m2": 1,
    "c10::Float8_e4m3fnuz": 1,
    "c10::Float8_e5m2fnuz": 1,
}
"""Bytes of one element, by the profiler's name of the dtype."""


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies of one direction and kind, as the trace names them.

    ``time`` is the sum of their durations in ns; ``unsized`` copies carry no byte count and are
    in neither ``bytes`` nor ``gb_s``.
    """

    name: str
    direction: str
    """``HtoD``, ``DtoH``, ``DtoD``, ``PtoP``, ``HtoH`` or ``set``; "" where the name says none."""
    memory: str
    """Host memory: ``pinned``, ``pageable``, or "" where the trace does not say."""
    count: int
    bytes: int
    time: int
    unsized: int
    gb_s: float | None
    """Sum of bytes / sum of durations, GB = 1e9."""


def direction(name: str) -> str:
    """The direction that the name of a memory activity gives."""
    for short, long in (
        ("HtoD", "hosttodevice"),
        ("DtoH", "devicetohost"),
        ("DtoD", "devicetodevice"),
        ("PtoP", "peertopeer"),
        ("HtoH", "hosttohost"),
    ):
        if short in name or long in name.lower():
            return short
    return "set" if "memset" in name.lower() else ""


def host_memory(name: str) -> str:
    """Whether the host side of a copy is pinned or pageable, where its name says so."""
    lower = name.lower()
    return "pinned" if "pinned" in lower else "pageable" if "pageable" in lower else ""


def copies(trace: Trace, found: Activity) -> tuple[Copies, ...]:
    """The copies and fills on one device by name, most bytes first."""
    e = trace.events
    rows = found.memory_rows
    result = []
    for name in np.unique(e.name[rows]).tolist():
        these = rows[e.name[rows] == name]
        sized = these[e.bytes[these] >= 0]
        text = trace.strings[name] if name >= 0 else ""
        moved, time = int(e.bytes[sized].sum()), int(e.dur[sized].sum())
        result.append(
            Copies(
                text, direction(text), host_memory(text), len(these), moved,
                int(e.dur[these].sum()), len(these) - len(sized), moved / time if time else None,
            )
        )  # fmt: skip
    return tuple(sorted(result, key=lambda c: (-c.bytes, -c.time, c.name)))


def rows_of_direction(trace: Trace, rows: I64, wanted: str) -> I64:
    """Those memory activities in `rows` that go in direction `wanted`."""
    names = np.unique(trace.events.name[rows])
    fits = [n for n in names.tolist() if n >= 0 and direction(trace.strings[n]) == wanted]
    return rows[np.isin(trace.events.name[rows], np.array(fits, dtype=np.int32))]


def copied_bytes(trace: Trace, rows: I64) -> I64:
    """Bytes that each ``aten::copy_`` in `rows` writes: its first input's; -1: not recorded."""
    e = trace.events
    pairs = np.column_stack((e.dims[rows], e.dtypes[rows]))
    kinds, which = np.unique(pairs, axis=0, return_inverse=True)
    size = [
        _operand_bytes(trace.strings[dims], trace.strings[dtypes]) if min(dims, dtypes) >= 0 else -1
        for dims, dtypes in kinds.tolist()
    ]
    return np.array(size, dtype=np.int64)[which.ravel()] if len(rows) else e.ts[:0]


def _operand_bytes(dims: str, dtypes: str) -> int:
    """Bytes of the first operand; -1 where its shape or dtype is not known."""
    try:
        shape, dtype = json.loads(dims)[0], json.loads(dtypes)[0]
    except (ValueError, IndexError, TypeError):
        return -1
    size = DTYPE_BYTES.get(str(dtype).removeprefix("struct "))
    if size is None or not isinstance(shape, list) or not all(isinstance(n, int) for n in shape):
        return -1
    total: int = math.prod(shape) * size
    return total if 0 <= total < 2**62 else -1  # a shape that no memory holds is damage


def copy_ops(trace: Trace) -> I64:
    """Rows of ``aten::copy_``."""
    rows = trace.rows(Category.CPU_OP)
    return rows[trace.names_matching(["aten::copy_"])[rows]]
