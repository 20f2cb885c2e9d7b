"""Whatever a record holds, as plain types that JSON and a parallel run's wire can carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DEEPEST = 32
_LONGEST_BITS = 4096
_CUT = "…"


def plain(value: object) -> Any:
    """`value` as dicts, lists, strings, numbers, booleans and None.

    A number of numpy or torch becomes Python's own, a key its text, and anything else its text.
    What contains itself, or is nested deeper than any report shows, is cut with ``…``; an object
    without a text of its own is named by its type. Nothing that a test can hand over raises.
    """
    return _plain(value, _DEEPEST)


def _plain(value: object, deeper: int) -> Any:
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        # Python refuses to write the digits of longer ones.
        known = value.bit_length() <= _LONGEST_BITS
        return value if known else f"an integer of {value.bit_length()} bits"
    if isinstance(value, str):
        return _text(value)
    if deeper == 0:
        return _CUT
    try:
        if isinstance(value, Mapping):
            return {_text(key): _plain(item, deeper - 1) for key, item in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [_plain(item, deeper - 1) for item in value]
    except Exception:  # noqa: BLE001 - a mapping of the user's own may raise anything
        return _text(value)
    number = _number(value)
    return _text(value) if number is None else number


def _number(value: object) -> Any:
    """The one number or text that an array or tensor holds, None where it is not one."""
    try:
        item = value.item()  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - it has none, or holds several, or is not here
        return None
    return _plain(item, 1) if isinstance(item, (bool, int, float, str)) else None


def _text(value: object) -> str:
    """The text of `value`, without what no encoding can carry."""
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - the user's own __str__
        text = f"a {type(value).__name__} without a text"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
