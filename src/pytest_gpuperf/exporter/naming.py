"""What our metrics and their labels are called in Prometheus.

Base units and suffixes are those of Prometheus' naming page: seconds, bytes, ``_ratio`` for a
share, ``_total`` for a counter alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

UNITS: Mapping[str, tuple[str, float]] = {
    "us": ("seconds", 1e-6),
    "fraction": ("ratio", 1.0),
    "x": ("ratio", 1.0),
    "bytes": ("bytes", 1.0),
    "count": ("", 1.0),
    "FLOP": ("flop", 1.0),
    "TFLOPS": ("flop_per_second", 1e12),
    "GB/s": ("bytes_per_second", 1e9),
    "items/s": ("items_per_second", 1.0),
    "W": ("watts", 1.0),
    "J": ("joules", 1.0),
    "celsius": ("celsius", 1.0),
    "MHz": ("hertz", 1e6),
}
"""Our unit: the suffix of the base unit, and the factor to it."""
LONGEST_LABEL = 300
"""Characters of a label's value; what is longer keeps its begin and a hash of the whole."""
_PREFIX = "gpuperf"
_OWN_UNIT = {"tflops": "", "flops": ""}
"""Metrics whose name is their unit."""
_TYPED = ("_total", "_count", "_sum", "_bucket", "_info", "_created", "_gcount", "_gsum")
"""Endings that Prometheus keeps for other types than a gauge."""


def gauge_name(metric: str, unit: str, part: str = "") -> tuple[str, float]:
    """The name of a gauge, and the factor from our unit to its base unit.

    Parameters
    ----------
    metric
        Our metric's name; letters that Prometheus does not take become ``_``.
    unit
        Our unit; one that is not in :data:`UNITS` is left as it is, without a suffix.
    part
        What of the metric it is: ``limit``, ``interval``.
    """
    suffix, factor = UNITS.get(unit, ("", 1.0))
    words = [_PREFIX, part, _OWN_UNIT.get(metric, metric), suffix]
    name = re.sub(r"[^a-zA-Z0-9_]", "_", "_".join(word for word in words if word))
    return (f"{name}_value" if name.endswith(_TYPED) else name), factor


def label(value: object) -> str:
    """`value` as a label's value: UTF-8, one line, without control characters, bounded.

    Quotes and backslashes are escaped where it is written.
    """
    text = str(value).encode("utf-8", "backslashreplace").decode("utf-8")
    text = "".join(c if c.isprintable() else " " for c in text)
    if len(text) <= LONGEST_LABEL:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{text[: LONGEST_LABEL - 10]}…{digest}"
