"""A regression in words: how much, what explains it, and counts that moved with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from gpuperf_analyzers.diff.changes import Change, Cost, Diff, PartChange
from gpuperf_analyzers.diff.slow_steps import SLOW, slow_steps
from gpuperf_analyzers.display import harmless, short_names, show

_NAME = 60
_KERNEL = 48
_SHAPES = 48
_NOTICES = 2
_STEPS = 3
_OPS = 3
_COUNTS: tuple[tuple[str, str, Callable[[Cost], Fraction], str], ...] = (
    ("host syncs", "host syncs", lambda c: c.syncs, "count"),
    ("launches", "op calls", lambda c: c.launches, "count"),
    ("bytes copied or communicated", "bytes copied", lambda c: c.bytes, "bytes"),
)
"""What is counted, what that is on a CPU, how, and its unit."""


def regression_text(found: Diff, top: int = 3) -> str:
    """What a failing gate prints: the change in mean step time and the `top` parts that explain it.

    These and the line of the other parts add up to the change. Ops that came and went follow,
    counts that differ (host syncs, launches, bytes) with the op that moved them most, slow steps,
    and what makes the two sides less comparable.
    """
    if found.empty:
        return "nothing changed: every op has the same time, kernels and counts"
    lines = [headline(found)]
    leading = _leading(found, top)
    names = labels(leading)
    lines += [f"  {change_line(found, c, n)}" for c, n in zip(leading, names, strict=True)]
    rest = found.delta - sum((c.delta for c in leading), Fraction(0))
    others = sum(1 for c in found.changes if c.delta) - len(leading)
    if others > 0:
        word = "other part" if others == 1 else "other parts"
        lines.append(f"  {signed_us(rest)}{_share(found, rest)}  {others} {word}")
    lines += [f"  {line}" for line in (*structure_lines(found), *count_lines(found))]
    lines += [f"  {line}" for line in step_lines(found)]
    lines += [f"  ! {harmless(text, 200)}" for text in found.notices[:_NOTICES]]
    return "\n".join(lines)


def headline(found: Diff) -> str:
    """``step time 12.30 ms → 13.10 ms: +800.0 µs (+6.5%), means of 3 and 3 steps``."""
    old, new = found.before.mean_step_ns, found.after.mean_step_ns
    by = "" if found.relative is None else f" ({signed(found.relative, 'fraction')})"
    n, m = len(found.before.steps), len(found.after.steps)
    what = "step time" if found.before.stepped and found.after.stepped else "window"
    means = f"means of {n} and {m} {'steps' if what == 'step time' else 'windows'}"
    if not found.delta:
        return f"{what} {_us(old)} before and after, {means}"
    return f"{what} {_us(old)} → {_us(new)}: {signed_us(found.delta)}{by}, {means}"


def change_line(found: Diff, change: Change, name: str) -> str:
    """``+500.0 µs (62%)  aten::mm 64x64 64x64: 1.000 ms → 1.500 ms; calls 1 → 2``."""
    text = f"{signed_us(change.delta)}{_share(found, change.delta)}  {name}: "
    if change.before is None or change.after is None:
        text += "new" if change.before is None else "gone"
    else:
        text += f"{_us(change.before.ns)} → {_us(change.after.ns)}"
    return "; ".join([text, *details(change)])


def label(change: Change, width: int = _NAME) -> str:
    """The op with its shapes, or the cause of idle time, no longer than `width` and its shapes."""
    if change.idle:
        return f"idle, {change.name}"
    shapes = change.shapes_after or change.shapes_before
    known = [s for s in shapes if s]
    more = f" (and {len(known) - 1} more)" if len(known) > 1 else ""
    name = short_names([change.name], width)[0]
    return f"{name} {harmless(known[0], _SHAPES)}{more}" if known else name


def labels(changes: Sequence[Change], width: int = _NAME) -> list[str]:
    """The label of each; ops that would look alike are told apart by where they are called."""
    plain = [label(c, width) for c in changes]
    twice = {text for text in plain if plain.count(text) > 1}
    return [
        f"{text} in {short_names([_around(c.path)], width)[0]}" if text in twice else text
        for text, c in zip(plain, changes, strict=True)
    ]


def _around(path: Sequence[str]) -> str:
    """The ops around one, outermost first, each name once."""
    return " > ".join(dict.fromkeys(path[:-1])) or "no other op"


def details(change: Change) -> list[str]:
    """How it was matched where not plainly, calls that differ, kernels that came and went."""
    found = []
    if change.how in ("moved", "other shapes"):
        was = f" (was {harmless(change.shapes_before[0], 40)})" if change.shapes_before else ""
        found.append("called from elsewhere" if change.how == "moved" else f"other shapes{was}")
    if change.idle or change.before is None or change.after is None:
        return found
    if change.before.count != change.after.count:
        found.append(f"calls {_each(change.before.count)} → {_each(change.after.count)}")
    gone = [p for p in change.parts if p.after is None and p.name]
    new = [p for p in change.parts if p.before is None and p.name]
    if gone and new:
        old_name, new_name = short_names([_largest(gone).name, _largest(new).name], _KERNEL)
        found.append(f"{new_name} instead of {old_name}")
    elif new or gone:
        name = short_names([_largest(new or gone).name], _KERNEL)[0]
        found.append(f"{'new' if new else 'no more'}: {name}")
    return found


def _largest(parts: Sequence[PartChange]) -> PartChange:
    return max(parts, key=lambda p: abs(p.delta))


def structure_lines(found: Diff) -> list[str]:
    """Ops that are new and gone, the longest first: they tell a change of the code from noise."""
    lines = []
    for word in ("new", "gone"):
        ops = [c for c in found.changes if c.word == word and not c.idle]
        if ops:
            more = f" and {len(ops) - _OPS} more" if len(ops) > _OPS else ""
            lines.append(f"{word}: {', '.join(labels(ops[:_OPS]))}{more}")
    return lines


def count_lines(found: Diff) -> list[str]:
    """Counts per step that differ, with the op that moved each most."""
    lines = []
    cpu = found.after.device_type == "cpu"
    for on_gpu, on_cpu, of, unit in _COUNTS:
        old, new = (
            sum((of(c) for c in costs if c is not None), Fraction(0))
            for costs in ([c.before for c in found.changes], [c.after for c in found.changes])
        )
        if old == new:
            continue
        way = 1 if new > old else -1
        moved = max(found.changes, key=lambda c: way * _moved(c, of))
        was, now = (
            (_each(old), _each(new))
            if unit == "count"
            else (show(float(old), unit), show(float(new), unit))
        )
        title = on_cpu if cpu else on_gpu
        place = f" in {short_names([_around(moved.path)], _NAME)[0]}" if moved.path[1:] else ""
        lines.append(f"{title} {was} → {now} a step: above all {label(moved)}{place}")
    return lines


def _moved(change: Change, of: Callable[[Cost], Fraction]) -> Fraction:
    old, new = ((Fraction(0) if c is None else of(c)) for c in (change.before, change.after))
    return new - old


def step_lines(found: Diff) -> list[str]:
    """The slowest steps after and what took their time; one line where all of them are slow."""
    slow = slow_steps(found)
    if not slow or len(found.after.steps) == 1:
        return []
    if len(slow) == len(found.after.steps) and slow[0].times < SLOW * slow[-1].times:
        return [f"all {len(slow)} steps take {SLOW} times the median step before, or more"]
    lines = [
        f"{harmless(s.at + ' ' if s.at else '', 40)}{harmless(s.name, 40)} takes {s.times:.2g} "
        f"times the median step before: above all {label(s.cause)} "
        f"({signed(s.cause_us, 'us')})"
        for s in slow[:_STEPS]
    ]
    if len(slow) > _STEPS:
        lines.append(f"and {len(slow) - _STEPS} more of {len(found.after.steps)} steps")
    return lines


def _leading(found: Diff, top: int) -> list[Change]:
    """The parts that go furthest the way the whole goes."""
    way = -1 if found.delta < 0 else 1
    ranked = [c for c in found.changes if c.delta]
    if found.delta:
        ranked = [c for c in ranked if c.delta * way > 0]
    return sorted(ranked, key=lambda c: -abs(c.delta))[:top]


def _share(found: Diff, delta: Fraction) -> str:
    share = found.share(delta)
    return "" if share is None else f" ({100 * share:.0f}%)".replace("-", "−")


def _us(ns: Fraction) -> str:
    return show(float(ns / 1000), "us")


def signed_us(ns: Fraction) -> str:
    """A change of time with its sign."""
    return signed(float(ns / 1000), "us")


def signed(value: float, unit: str) -> str:
    """`value` with its sign, plus too."""
    return f"{'−' if value < 0 else '+'}{show(abs(value), unit)}"


def _each(count: Fraction) -> str:
    """A count per step: whole where it is."""
    return f"{int(count):,}" if count.denominator == 1 else f"{float(count):,.2f}"
