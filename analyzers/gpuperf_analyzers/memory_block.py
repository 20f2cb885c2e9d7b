"""What a live run knows of memory by category, as it stands in the trace's live block.

Like the rest of that block it comes from a file and is not trusted: every field is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

CATEGORIES = (
    "parameter", "gradient", "optimizer", "activation", "input", "temporary", "unknown",
)  # fmt: skip
"""Categories of memory, in the order of tables; ``optimizer`` is the optimizer's state."""
_LARGEST = 2**63


@dataclass(frozen=True, slots=True)
class Cause:
    """Memory of one category that one place holds: bytes, and in how many allocations."""

    category: str
    where: str
    bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """Memory by category of a few profiled steps, and after each of some steps more.

    Attributes
    ----------
    start_bytes, peak_bytes
        Alive when the steps began, and at most while they ran.
    at_peak
        Bytes by category when the most was alive; they sum to ``peak_bytes``.
    largest
        The most that each category had at any time.
    time_us, over_time
        Moments since the steps began, and the bytes of each category then; some of all moments,
        the peak among them.
    causes
        What was alive at the peak by category and place, the most first.
    at_largest
        The largest of each category when it had the most.
    levels
        Bytes alive after each of some steps in a row, for the trend; empty where not asked for.
    growth
        What those steps made and nobody freed, by place, bytes a step.
    """

    start_bytes: int = 0
    peak_bytes: int = 0
    at_peak: Mapping[str, int] = field(default_factory=dict)
    largest: Mapping[str, int] = field(default_factory=dict)
    time_us: tuple[float, ...] = ()
    over_time: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    causes: tuple[Cause, ...] = ()
    at_largest: tuple[Cause, ...] = ()
    levels: tuple[int, ...] = ()
    growth: tuple[Cause, ...] = ()


def parse_memory_block(raw: object) -> MemoryBlock:
    """The memory block that `raw`, from a file, is.

    Raises
    ------
    ValueError
        A field of the wrong type, or a number that is no number of bytes.
    """
    if not isinstance(raw, Mapping):
        raise ValueError("the gpuperf block's 'memory' is not an object")
    known = {f.name for f in fields(MemoryBlock)}
    return MemoryBlock(**{str(k): _checked(str(k), v) for k, v in raw.items() if k in known})


def _checked(key: str, value: object) -> Any:
    if key in {"start_bytes", "peak_bytes"}:
        return _bytes(key, value)
    if key in {"at_peak", "largest"}:
        return {_category(key, k): _bytes(key, v) for k, v in _mapping(key, value).items()}
    if key == "over_time":
        return {
            _category(key, k): tuple(_bytes(key, v) for v in _list(key, series))
            for k, series in _mapping(key, value).items()
        }
    if key == "levels":
        return tuple(_bytes(key, v) for v in _list(key, value))
    if key == "time_us":
        return tuple(_time(key, v) for v in _list(key, value))
    return tuple(_cause(key, each) for each in _list(key, value))


def _cause(key: str, value: object) -> Cause:
    raw = _mapping(key, value)
    where = raw.get("where")
    if not isinstance(where, str):
        raise _wrong(key, where)
    category = _category(key, raw.get("category"))
    return Cause(category, where, _bytes(key, raw.get("bytes")), _bytes(key, raw.get("count")))


def _bytes(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST:
        raise _wrong(key, value)
    return value


def _time(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _LARGEST:
        raise _wrong(key, value)
    return float(value)


def _category(key: str, value: object) -> str:
    if value not in CATEGORIES:
        raise _wrong(key, value)
    return str(value)


def _mapping(key: str, value: object) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(key, value)
    return value


def _list(key: str, value: object) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise _wrong(key, value)
    return value


def _wrong(key: str, value: object) -> ValueError:
    return ValueError(f"the gpuperf block's memory has {str(value)[:40]!r} in {key!r}")
