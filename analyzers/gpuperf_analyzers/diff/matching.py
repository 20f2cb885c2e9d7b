"""Which rows of two op tables are the same op: by place and shapes, then by either alone.

Nothing is guessed: where several rows on both sides could belong together they are compared as
one group. What is left has no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Literal

from gpuperf_analyzers.diff.table import OpRow

How = Literal["same", "moved", "other shapes", "new", "gone"]


@dataclass(frozen=True, slots=True)
class Match:
    """Rows that are one op before and after.

    ``how``: ``same`` place in the call tree with the same shapes and types; ``moved`` to another
    place; the same place with ``other shapes`` (or types); ``new`` or ``gone`` without a
    counterpart.
    """

    how: How
    before: tuple[OpRow, ...]
    after: tuple[OpRow, ...]


def match(before: Iterable[OpRow], after: Iterable[OpRow], *, shapes: bool) -> tuple[Match, ...]:
    """Every row of both sides in exactly one match.

    Parameters
    ----------
    before, after
        Rows of the two tables.
    shapes
        Whether both sides have shapes; else ops are told apart by their place alone.
    """
    left, right = list(before), list(after)
    stages: list[tuple[How, Callable[[OpRow], Hashable]]] = [
        ("same", (lambda r: r.key) if shapes else (lambda r: r.path)),
        ("moved", (lambda r: (r.name, r.shapes, r.dtypes)) if shapes else (lambda r: r.name)),
        ("other shapes", lambda r: r.path),
    ]
    found: list[Match] = []
    for how, key in stages:
        paired, left, right = _paired(how, left, right, key)
        found += paired
    found += [Match("gone", (row,), ()) for row in left]
    found += [Match("new", (), (row,)) for row in right]
    return tuple(found)


def _paired(
    how: How, left: list[OpRow], right: list[OpRow], key: Callable[[OpRow], Hashable]
) -> tuple[list[Match], list[OpRow], list[OpRow]]:
    """The groups that both sides have, and what is left of each side."""
    first, second = _by(left, key), _by(right, key)
    paired = [Match(how, tuple(first[k]), tuple(second[k])) for k in first if k in second]
    return (
        paired,
        [row for k, rows in first.items() if k not in second for row in rows],
        [row for k, rows in second.items() if k not in first for row in rows],
    )


def _by(rows: list[OpRow], key: Callable[[OpRow], Hashable]) -> dict[Hashable, list[OpRow]]:
    groups: dict[Hashable, list[OpRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups
