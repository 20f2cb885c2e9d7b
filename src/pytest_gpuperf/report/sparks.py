"""Pictures in letters: the samples as a sparkline, the step as a split bar."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from pytest_gpuperf.report.columns import Record

LEVELS = "▁▂▃▄▅▆▇█"
PARTS: Mapping[str, str] = {"compute": "█", "exposed_comm": "▒", "idle": "░"}
"""Part of the step, as the evidence names it, and its letter."""

LEGEND = "samples in the order taken; the step: █ compute ▒ exposed communication ░ idle"
SPARK_WIDTH = 13
BAR_WIDTH = 15


def sparkline(samples: Sequence[float], width: int = SPARK_WIDTH) -> str:
    """The samples in their order, each letter the mean of as many; "" of fewer than two.

    The lowest letter is the fastest mean, the highest the slowest; all in the middle where they
    are equal.
    """
    if len(samples) < 2 or width < 1:
        return ""
    count = min(width, len(samples))
    edges = [round(i * len(samples) / count) for i in range(count + 1)]
    means = [sum(samples[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    if not high > low:
        return LEVELS[3] * count
    top = len(LEVELS) - 1
    return "".join(LEVELS[round((mean - low) / (high - low) * top)] for mean in means)


def split_bar(evidence: Mapping[str, Any], width: int = BAR_WIDTH) -> str:
    """The step's parts as letters, `width` for the whole; "" where the parts are not known.

    What is none of the three (exposed copies) stays blank. Letters are given by the largest
    remainders, so that they are as near to the shares as whole letters can be.
    """
    shares = {part: evidence.get(part) for part in PARTS}
    known = {part: min(max(float(s), 0.0), 1.0) for part, s in shares.items() if s is not None}
    if not known:
        return ""
    rest = max(1.0 - sum(known.values()), 0.0)
    exact = [*(share * width for share in known.values()), rest * width]
    letters = [*(PARTS[part] for part in known), " "]
    counts = [int(part) for part in exact]
    left = sorted(range(len(exact)), key=lambda i: counts[i] - exact[i])
    for index in left[: max(width - sum(counts), 0)]:
        counts[index] += 1
    return "".join(letter * n for letter, n in zip(letters, counts, strict=True))[:width]


def pictures(record: Record) -> str:
    """Both in one line, as wide for every result; "" where neither is known."""
    spark = sparkline([float(s) for s in record.get("samples_us") or ()])
    bar = split_bar(record.get("evidence") or {})
    return f"{spark:<{SPARK_WIDTH}} {bar}".rstrip() if spark or bar else ""


def can_be_shown() -> bool:
    """Whether the standard output's encoding has these letters."""
    encoding = getattr(sys.__stdout__, "encoding", None) or "ascii"
    try:
        (LEVELS + "".join(PARTS.values())).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
