"""Values taken out of plain dicts that nobody vouches for, each checked on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_LARGEST = 2**63 - 1


class FieldError(ValueError):
    """A field that a snapshot must have is missing, or is not what it must be."""


@dataclass(slots=True)
class Budget:
    """How many entries may be visited: a list that is referred to often is not longer for it."""

    left: int

    def entries(self, holder: Mapping[str, Any], key: str, what: str) -> Iterator[dict[str, Any]]:
        """The dicts in the list `key` of `holder`; none where there is no such key."""
        found = holder.get(key)
        if found is None:
            return
        yield from self.dicts(found, what)

    def dicts(self, found: object, what: str) -> Iterator[dict[str, Any]]:
        """The dicts in the list `found`."""
        if not isinstance(found, (list, tuple)):
            raise FieldError(f"{what} are {type(found).__name__}, not a list")
        self.spend(len(found))
        for entry in found:
            if not isinstance(entry, dict):
                raise FieldError(f"one of {what} is {type(entry).__name__}, not a dict")
            yield entry

    def spend(self, count: int) -> None:
        """Note `count` visits."""
        self.left -= count
        if self.left < 0:
            raise FieldError("it names the same lists over and over: more entries than it holds")


def whole(entry: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """The number `key` of `entry`, 0 or more and within 63 bits."""
    value = entry.get(key, default)
    if value is None:
        raise FieldError(f"{key!r} is missing")
    if isinstance(value, bool) or not isinstance(value, int):
        raise FieldError(f"{key!r} is {type(value).__name__}, not a whole number")
    if not 0 <= value <= _LARGEST:
        raise FieldError(f"{key!r} is {value}, which is no size and no address")
    return value


def text(entry: Mapping[str, Any], key: str, default: str = "") -> str:
    """The text `key` of `entry`."""
    value = entry.get(key, default)
    if not isinstance(value, str):
        raise FieldError(f"{key!r} is {type(value).__name__}, not text")
    return value


def pair(entry: Mapping[str, Any], key: str) -> tuple[int, int]:
    """The two numbers `key` of `entry`, ``(0, 0)`` where there are none."""
    value = entry.get(key)
    if value is None:
        return 0, 0
    if (
        isinstance(value, (tuple, list))
        and len(value) == 2
        and all(type(v) is int and abs(v) <= _LARGEST for v in value)
    ):
        return int(value[0]), int(value[1])
    raise FieldError(f"{key!r} is not two whole numbers")
