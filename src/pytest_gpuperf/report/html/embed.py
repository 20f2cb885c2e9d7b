"""Data inside the page: JSON that no name can break out of, and arrays in few bytes."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

_PLAIN_UP_TO = 48
"""Arrays up to this length stand as JSON numbers: packing them would not make them smaller."""
_KINDS = {"u1": np.uint8, "u2": np.uint16, "u4": np.uint32, "f4": np.float32, "f8": np.float64}


def script_json(document: Mapping[str, Any]) -> Markup:
    """`document` as JSON for a ``<script type="application/json">``.

    ``<``, ``>`` and ``&`` are written as escapes, so that neither ``</script>`` nor ``<!--`` can
    stand in it, and all but ASCII too, U+2028 and direction marks included.
    """
    text = json.dumps(document, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - JSON in a data block; escaped above


def packed(
    values: npt.ArrayLike, kind: str = "f8", *, delta: bool = False
) -> dict[str, Any] | list[float]:
    """`values` for the page's decoder: type, length, and bytes deflated and in base64.

    The bytes of equal weight stand together, which deflate makes much less of; with `delta` an
    ascending column of whole numbers is stored as its differences.

    Raises
    ------
    ValueError
        A value is outside of `kind`'s range.
    """
    array = np.asarray(values)
    if kind[0] == "f":
        array = array.astype(_KINDS[kind])
        if not np.isfinite(array).all():
            raise ValueError("a not finite number cannot stand in the page")
    else:
        largest = 2 ** (8 * int(kind[1])) - 1
        if len(array) and (array.min() < 0 or array.max() > largest):
            raise ValueError(f"a value does not fit {kind}")
        array = array.astype(_KINDS[kind])
    if len(array) <= _PLAIN_UP_TO:
        return list(array.tolist())
    stored = np.diff(array, prepend=array.dtype.type(0)) if delta else array
    width = stored.dtype.itemsize
    rows = np.frombuffer(stored.tobytes(), np.uint8).reshape(-1, width)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = deflate.compress(np.ascontiguousarray(rows.T).tobytes()) + deflate.flush()
    return {
        "t": kind,
        "n": len(array),
        "d": int(delta),
        "z": base64.b64encode(body).decode("ascii"),
    }
