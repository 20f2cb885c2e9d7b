"""Which ops add to a count (or take from it) between two op tables, in words.

For a count that is compared exactly: the op that adds the launch, the sync, the copy, the
collective, with its place in the call tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpuperf_analyzers.diff.changes import Change, Cost, Diff
from gpuperf_analyzers.display import harmless, short_names, show

_NAMED = 3
_NAME = 60
_SHAPES = 48


@dataclass(frozen=True, slots=True)
class Moved:
    """One op's part in the change of a count, in a step: above 0 it adds.

    ``depth`` is how many ops are around it: of equals the outermost is named first.
    """

    op: str
    by: Fraction
    depth: int = 0


def moved_by(found: Diff, metric: str) -> list[Moved]:
    """The ops that change `metric`, those that add most first; empty where the tables do not tell.

    ``kernel_launches``, ``host_syncs``, ``host_to_device``, ``device_to_host``, ``collectives``
    and ``collective_bytes`` are in the tables themselves; for ``allocations`` and memory these are
    the ops whose number of calls changed.
    """
    on_cpu = found.after.device_type == "cpu"
    of = _READERS.get(metric)
    if of is None:
        return []
    made = [
        Moved(_label(c), _change(c, lambda x: of(x, on_cpu)), len(c.path)) for c in found.changes
    ]
    return sorted((m for m in made if m.by), key=_order)


def moved_flops(before: Mapping[str, float], after: Mapping[str, float]) -> list[Moved]:
    """The ops whose FLOP changed, as the live counter saw them."""
    names = sorted({*before, *after})
    made = [Moved(n, Fraction(after.get(n, 0)) - Fraction(before.get(n, 0))) for n in names]
    return sorted((m for m in made if m.by), key=_order)


def _order(moved: Moved) -> tuple[Fraction, int, str]:
    return -abs(moved.by), moved.depth, moved.op


def moved_text(moved: list[Moved], unit: str, *, worse: bool = True) -> str:
    """``aten::item (+1 a step), aten::copy_ (+1 a step) and 2 more``; "" where nothing moved.

    Ops that go the way of the whole come first; `worse` says that it went up.
    """
    way = [m for m in moved if (m.by > 0) == worse]
    ordered = sorted(way, key=_order) or moved
    shown = [f"{m.op} ({_signed(m.by, unit)} a step)" for m in ordered[:_NAMED]]
    more = len(ordered) - _NAMED
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _signed(by: Fraction, unit: str) -> str:
    sign = "−" if by < 0 else "+"
    value = abs(by)
    if unit == "count":
        shown = f"{int(value):,}" if value.denominator == 1 else f"{float(value):,.2f}"
    elif unit == "FLOP" and value.denominator == 1:
        shown = f"{int(value):,} FLOP"  # 1% of a large number must not be rounded away
    else:
        shown = show(float(value), unit)
    return f"{sign}{shown}"


def _label(change: Change) -> str:
    """The op with its shapes, and the op around it where there is one."""
    if change.idle:
        return f"idle, {change.name}"
    name = short_names([change.name], _NAME)[0]
    shapes = next((s for s in (*change.shapes_after, *change.shapes_before) if s), "")
    text = f"{name} {harmless(shapes, _SHAPES)}" if shapes else name
    around = [n for n in dict.fromkeys(change.path[:-1]) if n != change.name]
    return f"{text} in {short_names([around[-1]], _NAME)[0]}" if around else text


def _change(change: Change, of: Callable[[Change], tuple[Fraction, Fraction]]) -> Fraction:
    before, after = of(change)
    return after - before


def _of_op(read: Callable[[Cost], Fraction]) -> Callable[[Change, bool], tuple[Fraction, Fraction]]:
    def sides(change: Change, on_cpu: bool) -> tuple[Fraction, Fraction]:  # noqa: ARG001 - one signature
        zero = Fraction(0)
        return (
            zero if change.before is None else read(change.before),
            zero if change.after is None else read(change.after),
        )

    return sides


def _of_parts(
    kind: str, read: Callable[[Cost], Fraction], direction: str = ""
) -> Callable[[Change, bool], tuple[Fraction, Fraction]]:
    def sides(change: Change, on_cpu: bool) -> tuple[Fraction, Fraction]:
        wanted = "compute" if kind == "memory" and on_cpu else kind
        parts = [p for p in change.parts if p.kind == wanted and (on_cpu or direction in p.name)]
        return _total((p.before for p in parts), read), _total((p.after for p in parts), read)

    return sides


def _total(costs: Iterator[Cost | None], read: Callable[[Cost], Fraction]) -> Fraction:
    return sum((read(c) for c in costs if c is not None), Fraction(0))


_READERS: Mapping[str, Callable[[Change, bool], tuple[Fraction, Fraction]]] = {
    "kernel_launches": _of_op(lambda c: c.launches),
    "host_syncs": _of_op(lambda c: c.syncs),
    "host_to_device": _of_parts("memory", lambda c: c.bytes, "HtoD"),
    "device_to_host": _of_parts("memory", lambda c: c.bytes, "DtoH"),
    "collectives": _of_parts("communication", lambda c: c.count),
    "collective_bytes": _of_parts("communication", lambda c: c.count),
    "allocations": _of_op(lambda c: c.count),
    "peak_memory": _of_op(lambda c: c.count),
    "peak_memory_growth": _of_op(lambda c: c.count),
}
"""How a change's two sides tell of a metric; of bytes that a table does not hold, by counts."""

MOVED_UNIT: Mapping[str, str] = {
    "host_to_device": "bytes",
    "device_to_host": "bytes",
    "flops": "FLOP",
}
"""The unit that :func:`moved_by` speaks in, where it is not a number of calls."""
