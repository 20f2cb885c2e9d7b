"""What makes two op tables less comparable than they look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpuperf_analyzers.diff.matching import Match
from gpuperf_analyzers.diff.table import OpRow, OpTable

_FEW_MATCHED = 0.8
"""Below this share of op time in ops of both sides, the two may not be the same job."""


def notices(before: OpTable, after: OpTable, matched: Sequence[Match]) -> tuple[str, ...]:
    """One clause for each difference that is not the code's, the gravest first."""
    return (
        *_hardware(before, after),
        *_ranks(before, after),
        *_steps(before, after),
        *_recording(before, after),
        *_coverage(before, after, matched),
    )


def _hardware(before: OpTable, after: OpTable) -> Iterator[str]:
    if before.device_type != after.device_type:
        yield f"a {before.device_type} run before, a {after.device_type} run after"
    elif before.device_name != after.device_name:
        old, new = (t.device_name or "an unnamed device" for t in (before, after))
        yield f"other hardware: {old} before, {new} after"


def _ranks(before: OpTable, after: OpTable) -> Iterator[str]:
    old, new = before.world_size, after.world_size
    if old is not None and new is not None and old != new:
        yield f"other world size: {old} ranks before, {new} after: the means are over ranks read"
    for table, side in ((before, "before"), (after, "after")):
        size, read = table.world_size, len(table.ranks)
        if size is not None and 0 < read < size:
            which = ", ".join(map(str, table.ranks[:8]))
            yield f"{side}: {read} of {size} ranks read ({which})"
    alike = old == new and len(before.ranks) == len(after.ranks)
    if alike and before.ranks != after.ranks:
        yield "other ranks were read before than after"


def _steps(before: OpTable, after: OpTable) -> Iterator[str]:
    for table, side in ((before, "before"), (after, "after")):
        if not table.stepped:
            yield f"{side}: no steps are annotated: its whole window counts as one"


def _recording(before: OpTable, after: OpTable) -> Iterator[str]:
    if before.shapes_recorded != after.shapes_recorded:
        side = "before" if before.shapes_recorded else "after"
        yield f"shapes are recorded {side} only: ops are matched by their place alone"
    for name in sorted({*before.conditions, *after.conditions}):
        old, new = before.conditions.get(name), after.conditions.get(name)
        if old is not None and new is not None and old != new:
            yield f"{name}: {old} before, {new} after"


def _coverage(before: OpTable, after: OpTable, matched: Sequence[Match]) -> Iterator[str]:
    both = [m for m in matched if m.before and m.after]
    for table, rows, side in (
        (before, [r for m in both for r in m.before], "before"),
        (after, [r for m in both for r in m.after], "after"),
    ):
        whole = _time(table.rows)
        if whole and _time(rows) / whole < _FEW_MATCHED:
            share = 100 * _time(rows) / whole
            yield f"{share:.0f}% of the time in ops {side} is in ops that both sides have"


def _time(rows: Iterable[OpRow]) -> int:
    return sum(r.total_ns for r in rows)
