"""Quantities as people write them: ``"3ms"``, ``"12GiB"``, ``"60%"``, ``"350GB/s"``.

A metric stores one unit (µs, bytes, a fraction); what is written is turned into it. Standard
library only: this module is imported at pytest's collection.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from numbers import Real

from gpuperf_analyzers.display import harmless
from gpuperf_analyzers.metrics import Unit

_US_PER_S = 1e6
_LONGEST = 80
"""Characters of a wrong value that an error repeats."""

SUFFIXES: dict[Unit, dict[str, float]] = {
    "us": {"ns": 1e-3, "us": 1.0, "µs": 1.0, "μs": 1.0, "ms": 1e3, "s": _US_PER_S,
           "min": 60 * _US_PER_S},
    "fraction": {"%": 0.01},
    "count": {},
    "bytes": {"B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
              "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40},
    "TFLOPS": {"FLOPS": 1e-12, "MFLOPS": 1e-6, "GFLOPS": 1e-3, "TFLOPS": 1.0, "PFLOPS": 1e3},
    "FLOP": {"FLOP": 1, "MFLOP": 1e6, "GFLOP": 1e9, "TFLOP": 1e12, "PFLOP": 1e15},
    "GB/s": {"B/s": 1e-9, "kB/s": 1e-6, "KB/s": 1e-6, "MB/s": 1e-3, "GB/s": 1.0, "TB/s": 1e3,
             "KiB/s": 2**10 / 1e9, "MiB/s": 2**20 / 1e9, "GiB/s": 2**30 / 1e9},
    "items/s": {"/s": 1.0, "items/s": 1.0, "tokens/s": 1.0},
    "W": {"mW": 1e-3, "W": 1.0, "kW": 1e3},
    "J": {"mJ": 1e-3, "J": 1.0, "kJ": 1e3, "Wh": 3600.0},
    "celsius": {"C": 1.0, "°C": 1.0},
    "MHz": {"kHz": 1e-3, "MHz": 1.0, "GHz": 1e3},
    "x": {"x": 1.0, "×": 1.0},
}  # fmt: skip
"""How many of a metric's own unit one of each written suffix is."""

_EXAMPLE: dict[Unit, str] = {
    "us": '"3ms" or "50us"',
    "fraction": '0.6 or "60%"',
    "count": "a whole number",
    "bytes": '"12GiB" or "350MB"',
    "TFLOPS": '"1.2TFLOPS"',
    "FLOP": '"3GFLOP"',
    "GB/s": '"350GB/s"',
    "items/s": '"1000/s" or "1000tokens/s"',
    "W": '"300W"',
    "J": '"12J"',
    "celsius": '"85C"',
    "MHz": '"1.4GHz"',
    "x": '2 or "2x"',
}

BARE_UNITS: frozenset[Unit] = frozenset({"fraction", "count", "x"})
"""Units without a dimension: a bare number says all there is to say."""

_QUANTITY = re.compile(
    r"\s*(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<suffix>\S*)\s*\Z"
)


class QuantityError(ValueError):
    """A text or number that is no quantity of the unit asked for: one line with the mend."""


def shown(written: object) -> str:
    """What a user wrote, as an error names it: on one line, cut where it is long.

    Whatever it is, a test's marker can hold it, so that nothing about it may raise.
    """
    try:
        text = repr(written)
    except Exception:  # noqa: BLE001 - an object of the user's, or more digits than Python writes
        text = f"<{type(written).__name__}>"
    return harmless(text, _LONGEST)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in a metric's own unit; ``bare`` where it was written without a unit."""

    value: float
    bare: bool


def parse_quantity(written: object, unit: Unit, *, bare_allowed: bool = False) -> Quantity:
    """What the user wrote as a number in `unit`.

    A text without a suffix counts as a bare number, so that a command line and an ini file say
    the same as Python. `bare_allowed` lets a bare number stand for a dimensioned unit, in that
    unit.

    Raises
    ------
    QuantityError
        Not a number or text, a unit of another kind, a bare number where a unit is needed, a
        negative or infinite number, a fraction above 1, a count that is not whole.
    """
    number, suffix = _split(written, unit)
    if not math.isfinite(number) or number < 0:
        raise QuantityError(f"{shown(written)} is not a finite number of 0 or more")
    if not suffix:
        if unit not in BARE_UNITS and not bare_allowed:
            raise QuantityError(f"{shown(written)} needs a unit: write {_EXAMPLE[unit]}")
        value = number
    else:
        factor = SUFFIXES[unit].get(suffix)
        if factor is None:
            raise QuantityError(_wrong_suffix(written, suffix, unit))
        value = number * factor
    if unit == "fraction" and value > 1:
        raise QuantityError(f"{shown(written)} is above 100%: write {_EXAMPLE[unit]}")
    if unit == "count" and value != int(value):
        raise QuantityError(f"{shown(written)} is not a whole number, and a count is one")
    return Quantity(value, bare=not suffix)


def parse_seconds(written: object) -> float:
    """A duration such as ``"2s"`` or ``"500ms"`` in seconds; a bare number is refused.

    Raises
    ------
    QuantityError
        As for :func:`parse_quantity`.
    """
    return parse_quantity(written, "us").value / _US_PER_S


def _split(written: object, unit: Unit) -> tuple[float, str]:
    # Numbers of numpy are numbers; its and Python's truth values are none here.
    if isinstance(written, bool) or not isinstance(written, (Real, str)):
        raise QuantityError(f"{shown(written)} is not a quantity: write {_EXAMPLE[unit]}")
    if not isinstance(written, str):
        try:
            return float(written), ""
        except OverflowError:
            return math.inf, ""
    match = _QUANTITY.match(written)
    if match is None:
        raise QuantityError(f"{shown(written)} is not a quantity: write {_EXAMPLE[unit]}")
    return float(match["number"]), match["suffix"]


def _wrong_suffix(written: object, suffix: str, unit: Unit) -> str:
    known = list(SUFFIXES[unit])
    if not known:
        return f"{shown(written)} has a unit, and a count has none: write {_EXAMPLE[unit]}"
    other = next((u for u, table in SUFFIXES.items() if suffix in table), None)
    kind = f"is in {other}, not in {unit}" if other else f"has the unknown unit {shown(suffix)}"
    nearest = [s for s in known if s.lower() == suffix.lower()] or known
    return f"{shown(written)} {kind}: write {_EXAMPLE[unit]} (units: {', '.join(nearest)})"
