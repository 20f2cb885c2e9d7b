"""Op tables as a baseline keeps them: exact in their means, small, without the steps one by one.

A baseline explains a regression by means over steps, so that of each part the sum over the steps
is all it needs. Read back, the sum is spread evenly: every mean is what it was, to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuperf_analyzers.diff import OpTable


def packed(table: OpTable) -> dict[str, Any]:
    """`table` as JSON types: for each part one sum, for the steps their number."""
    raw = table.to_json()
    for parts in (*(row[-1] for row in raw["rows"]), raw["idle"]):
        for part in parts:
            part[-1] = sum(part[-1])
    raw["steps"] = len(table.steps)
    # Versions and commits stand once in the file, not in each test.
    raw["conditions"] = {k: v for k, v in raw["conditions"].items() if k in _PROFILER}
    return raw


def unpacked(raw: Mapping[str, Any]) -> OpTable:
    """The table that :func:`packed` wrote, with steps of one length.

    Raises
    ------
    ValueError
        It is damaged, or of a newer schema.
    """
    from gpuperf_analyzers.diff import OpTable

    try:
        count = raw["steps"]
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST_STEPS:
            raise ValueError("a damaged op table: it has no steps")
        rows = [[*row[:-1], [_spread(p, count) for p in row[-1]]] for row in raw["rows"]]
        idle = [_spread(part, count) for part in raw["idle"]]
        times = [part[-1] for row in rows for part in row[-1]] + [part[-1] for part in idle]
        lengths = [sum(column) for column in zip(*times, strict=True)] or [0] * count
        steps = [[f"step {i + 1}", "", ns] for i, ns in enumerate(lengths)]
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"a damaged op table: {type(error).__name__}") from None
    return OpTable.from_json({**raw, "rows": rows, "idle": idle, "steps": steps})


_MOST_STEPS = 100_000
_PROFILER = ("with_stack", "profile_memory", "with_modules", "with_flops")


def _spread(part: list[Any], count: int) -> list[Any]:
    """`part` with its sum spread over `count` steps, in whole nanoseconds."""
    total = part[-1]
    if isinstance(total, bool) or not isinstance(total, int) or total < 0:
        raise TypeError(f"{total!r:.40} is not a time")
    each, more = divmod(total, count)
    return [*part[:-1], [each + 1] * more + [each] * (count - more)]
