"""An op table as JSON: names once, rows as lists, so that a baseline stays small.

What comes back from a file is not trusted: every field is checked, and the table itself checks
that the parts of each step add up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from gpuperf_analyzers.diff.table import KINDS, OpRow, OpTable, Part, StepTime

SCHEMA = 1
# 1: first version.

T = TypeVar("T")


def to_json(table: OpTable) -> dict[str, Any]:
    """`table` as plain JSON types."""
    strings: dict[str, int] = {}

    def number(text: str) -> int:
        return strings.setdefault(text, len(strings))

    def parts(these: tuple[Part, ...]) -> list[list[Any]]:
        return [[KINDS.index(p.kind), number(p.name), p.count, p.bytes, list(p.ns)] for p in these]

    rows = [
        [[number(n) for n in r.path], number(r.shapes), number(r.dtypes), r.calls, r.launches,
         r.syncs, parts(r.parts)]
        for r in table.rows
    ]  # fmt: skip
    return {
        "schema": SCHEMA,
        "device_name": table.device_name,
        "device_type": table.device_type,
        "world_size": table.world_size,
        "ranks": list(table.ranks),
        "stepped": table.stepped,
        "shapes_recorded": table.shapes_recorded,
        "conditions": dict(table.conditions),
        "steps": [[s.name, s.at, s.ns] for s in table.steps],
        "rows": rows,
        "idle": parts(table.idle),
        "strings": list(strings),
    }


def from_json(raw: object) -> OpTable:
    """The table in `raw`.

    Raises
    ------
    ValueError
        `raw` is no op table, of a newer schema, or its parts do not add up.
    """
    if not isinstance(raw, Mapping) or "rows" not in raw:
        raise ValueError("not an op table")
    schema = raw.get("schema")
    if schema != SCHEMA:
        raise ValueError(f"an op table of schema {schema!r}; this version reads {SCHEMA}")
    try:
        return _table(raw)
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"a damaged op table: {type(error).__name__}: {error}") from None


def _table(raw: Mapping[str, Any]) -> OpTable:
    strings = _several(raw["strings"], _text)

    def text(index: object) -> str:
        return strings[_count(index)]

    def part(given: object) -> Part:
        kind, name, count, size, ns = _fields(given, 5)
        return Part(
            KINDS[_count(kind)], text(name), _count(count), _count(size), _several(ns, _count)
        )

    def row(given: object) -> OpRow:
        path, shapes, dtypes, calls, launches, syncs, parts = _fields(given, 7)
        names = _several(path, text)
        if not names:
            raise TypeError("a row without a name")
        return OpRow(
            names, text(shapes), text(dtypes), _count(calls), _count(launches), _count(syncs),
            _several(parts, part),
        )  # fmt: skip

    def step(given: object) -> StepTime:
        name, at, ns = _fields(given, 3)
        return StepTime(_text(name), _text(at), _count(ns))

    return OpTable(
        device_name=_text(raw["device_name"]),
        device_type=_text(raw["device_type"]),
        world_size=None if raw["world_size"] is None else _count(raw["world_size"]),
        ranks=_several(raw["ranks"], _count),
        stepped=_flag(raw["stepped"]),
        shapes_recorded=_flag(raw["shapes_recorded"]),
        steps=_several(raw["steps"], step),
        rows=_several(raw["rows"], row),
        idle=_several(raw["idle"], part),
        conditions={_text(k): _text(v) for k, v in raw["conditions"].items()},
    )


def _several(value: object, each: Callable[[Any], T]) -> tuple[T, ...]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{value!r:.40} is not a list")
    return tuple(each(v) for v in value)


def _fields(value: object, count: int) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)) or len(value) != count:
        raise TypeError(f"{value!r:.40} is not a list of {count}")
    return tuple(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not a text")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r:.40} is not true or false")
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"{value!r:.40} is not a whole number of 0 or more")
    return value
