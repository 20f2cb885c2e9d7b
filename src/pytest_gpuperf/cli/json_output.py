"""JSON on the standard output: always valid, whatever the terminal and the locale."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any


def print_json(document: Mapping[str, Any]) -> None:
    """Write `document` and a line end.

    Only ASCII is written: a name from a trace is escaped, so that it comes through any locale
    as it is and can send nothing to a terminal. A number that is not finite is null, for which
    alone JSON has a word.
    """
    sys.stdout.write(json.dumps(_finite(document), indent=1, allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
