"""What the profiler writes to the terminal by itself, which is none of the workload's output."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NOISE = re.compile(r"USDT:.*\bprofiler_(?:start|stop)\s*$")
"""Kineto's trace points; the log level that silences them silences its errors too."""

Section = tuple[str, str]


def without_profiler_noise(sections: Iterable[Section]) -> list[Section]:
    """Captured `sections` less the profiler's own lines; one that held nothing else is gone."""
    kept: list[Section] = []
    for title, text in sections:
        lines = text.splitlines(keepends=True)
        said = [line for line in lines if not _NOISE.match(line)]
        if said or not lines:
            kept.append((title, "".join(said)))
    return kept
