"""Kineto's microseconds as exact integer nanoseconds.

A time stands in the file as an integer, or with up to three decimals, relative to
``baseTimeNanoseconds`` or absolute. A float64 holds a relative one to the nanosecond, an
absolute one (1.7e15 µs) only to 0.25 µs: those are read from their digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuperf_analyzers.trace.model import I64, Bool

EXACT_FLOAT_US = float(2**43)
"""Below this many µs a float64 resolves better than 1 ns (2**43 * 2**-52 = 0.98 ns / 2)."""

_EARLIEST_US, _LATEST_US = -1.0e15, 4.0e15
"""Up to the year 2096. The difference of two, and a duration on top, still fit int64 ns."""


def needs_digits(values: Sequence[Any], us: npt.NDArray[np.float64]) -> bool:
    """Whether `values` (as decoded) lost nanoseconds when they became the floats `us`."""
    large = np.abs(us) >= EXACT_FLOAT_US
    return bool(large.any()) and float in set(map(type, values))


def floats(values: Sequence[Any]) -> npt.NDArray[np.float64]:
    """`values` as float64; NaN where one is not a number (strings of numbers are)."""
    try:
        return np.fromiter(values, np.float64, len(values))
    except (TypeError, ValueError, OverflowError):
        return np.fromiter(map(_float, values), np.float64, len(values))


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def nanoseconds(us: npt.NDArray[np.float64]) -> tuple[I64, Bool]:
    """`us` as ns, exact below :data:`EXACT_FLOAT_US` and for whole µs; and where it is a time.

    ``floor + rint(fraction * 1000)``: multiplying the whole by 1000 first would round.
    """
    good: Bool = (us > _EARLIEST_US) & (us < _LATEST_US)
    if not good.all():
        us = np.where(good, us, 0.0)
    whole = np.floor(us)
    ns = whole.astype(np.int64) * 1000 + np.rint((us - whole) * 1000).astype(np.int64)
    return ns, good


def nanoseconds_from_digits(texts: Sequence[bytes]) -> tuple[I64, Bool]:
    """JSON numbers (or strings) of µs as exact ns, rounding what is finer to the nearest."""
    if all(text[-4:-3] == b"." for text in texts):
        try:
            digits = b",".join(texts).replace(b".", b"").split(b",")
            ns = np.fromiter(map(int, digits), np.int64, len(texts))
        except (ValueError, OverflowError):
            pass
        else:
            return _checked(ns)
    return _checked(np.fromiter(map(_exact, texts), np.int64, len(texts)))


def _checked(ns: I64) -> tuple[I64, Bool]:
    good: Bool = (ns > int(_EARLIEST_US) * 1000) & (ns < int(_LATEST_US) * 1000)
    return np.where(good, ns, 0), good


_NO_TIME = np.iinfo(np.int64).min


def _exact(text: bytes) -> int:
    """The ns of one number, :data:`_NO_TIME` where it is none."""
    try:
        value = Decimal(text.strip(b'"').decode("ascii")) * 1000
        if value.is_finite() and abs(value) < 2**62:
            return int(value.to_integral_value())
    except (InvalidOperation, UnicodeDecodeError):
        pass
    return _NO_TIME
