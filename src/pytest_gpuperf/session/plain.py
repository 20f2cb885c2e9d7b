"""Whatever a record holds, as plain types that JSON and a parallel run's wire can carry."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any


def plain(value: object) -> Any:
    """`value` as dicts, lists, strings, numbers, booleans and None.

    A number of numpy or torch becomes Python's own, a key its text, and anything else its text.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    item = getattr(value, "item", None)
    if callable(item):
        with contextlib.suppress(TypeError, ValueError, RuntimeError):  # it holds several numbers
            number = item()
            if isinstance(number, (bool, int, float, str)):
                return number
    return str(value)
