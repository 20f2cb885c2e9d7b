"""What changed between two op tables, and how much of the change in step time each explains.

Everything is a mean over the steps: means add up, medians do not. The difference of the two
means of step time is the sum of the differences of the parts, as exact fractions: there is no
residual.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from gpuperf_analyzers.diff.matching import How, Match, match
from gpuperf_analyzers.diff.notices import notices
from gpuperf_analyzers.diff.table import KINDS, Kind, OpRow, OpTable, Part

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
# 1: first version.

Word = Literal["slower", "faster", "same", "new", "gone"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What an op (or kernel) costs in a step: means over the steps, exact.

    ``ns`` is exclusive time. ``count`` is of activities for a kernel, of calls for an op.
    """

    ns: Fraction
    count: Fraction
    bytes: Fraction
    launches: Fraction = Fraction(0)
    syncs: Fraction = Fraction(0)

    @property
    def us(self) -> float:
        """Exclusive time, µs."""
        return float(self.ns / 1000)

    def to_json(self) -> dict[str, float]:
        """Per step, as plain JSON types."""
        return {
            "exclusive_us": self.us,
            "count": float(self.count),
            "launches": float(self.launches),
            "syncs": float(self.syncs),
            "bytes": float(self.bytes),
        }


@dataclass(frozen=True, slots=True)
class PartChange:
    """One kernel (copy, collective, cause of idle time), before and after; None: not there."""

    kind: Kind
    name: str
    before: Cost | None
    after: Cost | None

    @property
    def delta(self) -> Fraction:
        """Change of the mean exclusive time, ns."""
        return _ns(self.after) - _ns(self.before)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"kind": self.kind, "name": self.name, **_sides_json(self)}


@dataclass(frozen=True, slots=True)
class Change:
    """One op, or one cause of idle time (``path`` is empty), before and after.

    Attributes
    ----------
    name, path
        The op after (before, where it is gone).
    how
        How the two sides were matched.
    shapes_before, shapes_after
        Of each row that was matched.
    before, after
        What it costs; None where it is not there.
    parts
        Its kernels, the largest change first.
    steps_before, steps_after
        Exclusive time in each step, ns; empty where it is not there.
    """

    name: str
    path: tuple[str, ...]
    how: How
    shapes_before: tuple[str, ...]
    shapes_after: tuple[str, ...]
    before: Cost | None
    after: Cost | None
    parts: tuple[PartChange, ...]
    steps_before: tuple[int, ...]
    steps_after: tuple[int, ...]

    @property
    def idle(self) -> bool:
        """Whether this is a cause of idle time and no op."""
        return not self.path

    @property
    def delta(self) -> Fraction:
        """Change of the mean exclusive time, ns: its part of the change in mean step time."""
        return _ns(self.after) - _ns(self.before)

    @property
    def word(self) -> Word:
        """``slower``, ``faster``, ``same``, ``new`` or ``gone``."""
        if self.before is None or self.after is None:
            return "new" if self.before is None else "gone"
        return "slower" if self.delta > 0 else "faster" if self.delta < 0 else "same"

    @property
    def unchanged(self) -> bool:
        """Whether nothing differs: neither time nor counts nor place nor shapes nor kernels."""
        return (
            self.how == "same"
            and self.before == self.after
            and all(p.before == p.after for p in self.parts)
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "op": self.name,
            "path": list(self.path),
            "change": self.word,
            "matched": self.how,
            "idle": self.idle,
            "shapes_before": list(self.shapes_before),
            "shapes_after": list(self.shapes_after),
            **_sides_json(self),
            "kernels": [p.to_json() for p in self.parts],
        }


@dataclass(frozen=True, slots=True)
class Diff:
    """Two op tables, matched.

    Attributes
    ----------
    before, after
        The tables.
    changes
        Every op and every cause of idle time, the largest change first. Their deltas add up to
        :attr:`delta` exactly.
    notices
        What makes the two sides less comparable, in words.
    """

    before: OpTable
    after: OpTable
    changes: tuple[Change, ...]
    notices: tuple[str, ...]

    @property
    def delta(self) -> Fraction:
        """Change of the mean step time, ns."""
        return self.after.mean_step_ns - self.before.mean_step_ns

    @property
    def relative(self) -> float | None:
        """Change of the mean step time over that before; None where that is 0."""
        whole = self.before.mean_step_ns
        return float(self.delta / whole) if whole else None

    @property
    def empty(self) -> bool:
        """Whether nothing changed."""
        return self.delta == 0 and all(c.unchanged for c in self.changes)

    def share(self, delta: Fraction) -> float | None:
        """`delta` as a share of the change in mean step time; None where that did not change."""
        return float(delta / self.delta) if self.delta else None

    def kinds(self) -> tuple[PartChange, ...]:
        """Compute, exposed communication, exposed memory and each cause of idle time."""
        return _summed(
            ((p.kind, p.name if p.kind == "idle" else "") for p in self.before.parts()),
            ((p.kind, p.name if p.kind == "idle" else "") for p in self.after.parts()),
            self,
        )

    def kernels(self) -> tuple[PartChange, ...]:
        """Every kernel whatever op launched it, and every cause of idle time, by whole names."""
        return _summed(
            ((p.kind, p.name) for p in self.before.parts()),
            ((p.kind, p.name) for p in self.after.parts()),
            self,
        )

    def to_frame(self) -> pd.DataFrame:
        """One row an op and cause of idle time, the largest change first; µs a step."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "op": c.name,
                    "path": " > ".join(c.path),
                    "change": c.word,
                    "matched": c.how,
                    "shapes_before": "; ".join(c.shapes_before),
                    "shapes_after": "; ".join(c.shapes_after),
                    "before_us": float(_ns(c.before) / 1000),
                    "after_us": float(_ns(c.after) / 1000),
                    "delta_us": float(c.delta / 1000),
                    "share": self.share(c.delta),
                }
                for c in self.changes
            ]
        )

    def to_json(self, top: int | None = None) -> dict[str, Any]:
        """The change in step time with what explains it (the first `top`) as plain JSON types."""
        shown = self.changes[:top]
        return {
            "schema": SCHEMA,
            "statistic": "mean over steps",
            "before_us": float(self.before.mean_step_ns / 1000),
            "after_us": float(self.after.mean_step_ns / 1000),
            "delta_us": float(self.delta / 1000),
            "relative": self.relative,
            "notices": list(self.notices),
            "kinds": [k.to_json() for k in self.kinds()],
            "changes": [{**c.to_json(), "share": self.share(c.delta)} for c in shown],
            "other_changes": len(self.changes) - len(shown),
            "other_delta_us": float((self.delta - sum(c.delta for c in shown)) / 1000),
            "kernels": [k.to_json() for k in self.kernels()[:top]],
            "steps_before": [[s.at, s.name, s.ns / 1e3] for s in self.before.steps],
            "steps_after": [[s.at, s.name, s.ns / 1e3] for s in self.after.steps],
        }


def diff(before: OpTable, after: OpTable) -> Diff:
    """Match the ops of two tables, and attribute the change in mean step time to them."""
    matched = match(
        before.rows, after.rows, shapes=before.shapes_recorded and after.shapes_recorded
    )
    n, m = len(before.steps), len(after.steps)
    changes = [_change(found, n, m) for found in matched]
    changes += [_idle(part, before, after) for part in _parts(before.idle, after.idle, n, m)]
    ordered = sorted(changes, key=lambda c: (-abs(c.delta), c.path, c.name, c.shapes_after))
    return Diff(before, after, tuple(ordered), notices(before, after, matched))


def _change(found: Match, n: int, m: int) -> Change:
    shown = (found.after or found.before)[0]
    old = [p for r in found.before for p in r.parts]
    new = [p for r in found.after for p in r.parts]
    return Change(
        name=shown.name,
        path=shown.path,
        how=found.how,
        shapes_before=tuple(r.shapes for r in found.before),
        shapes_after=tuple(r.shapes for r in found.after),
        before=_row_cost(found.before, n),
        after=_row_cost(found.after, m),
        parts=_parts(old, new, n, m),
        steps_before=_by_step(old),
        steps_after=_by_step(new),
    )


def _idle(part: PartChange, before: OpTable, after: OpTable) -> Change:
    how: How = "new" if part.before is None else "gone" if part.after is None else "same"
    old, new = (tuple(p for p in t.idle if p.name == part.name) for t in (before, after))
    return Change(
        part.name, (), how, (), (), part.before, part.after, (part,), _by_step(old), _by_step(new)
    )


def _by_step(parts: Iterable[Part]) -> tuple[int, ...]:
    """Sum of the parts in each step."""
    return tuple(sum(times) for times in zip(*(p.ns for p in parts), strict=True))


def _row_cost(rows: tuple[OpRow, ...], steps: int) -> Cost | None:
    if not rows:
        return None
    return Cost(
        ns=Fraction(sum(r.total_ns for r in rows), steps),
        count=Fraction(sum(r.calls for r in rows), steps),
        bytes=Fraction(sum(r.bytes for r in rows), steps),
        launches=Fraction(sum(r.launches for r in rows), steps),
        syncs=Fraction(sum(r.syncs for r in rows), steps),
    )


def _parts(before: Iterable[Part], after: Iterable[Part], n: int, m: int) -> tuple[PartChange, ...]:
    """Kernels of the same kind and whole name, the largest change first."""
    old, new = _by_name(before, n), _by_name(after, m)
    made = [PartChange(*key, old.get(key), new.get(key)) for key in dict.fromkeys((*old, *new))]
    return tuple(sorted(made, key=lambda p: (-abs(p.delta), p.kind, p.name)))


def _by_name(parts: Iterable[Part], steps: int) -> dict[tuple[Kind, str], Cost]:
    return _costs((((p.kind, p.name), p) for p in parts), steps)


def _costs(
    keyed: Iterable[tuple[tuple[Kind, str], Part]], steps: int
) -> dict[tuple[Kind, str], Cost]:
    totals: dict[tuple[Kind, str], list[int]] = {}
    for key, part in keyed:
        total = totals.setdefault(key, [0, 0, 0])
        total[0] += part.total_ns
        total[1] += part.count
        total[2] += part.bytes
    return {key: Cost(*(Fraction(t, steps) for t in total)) for key, total in totals.items()}


def _summed(
    before: Iterator[tuple[Kind, str]], after: Iterator[tuple[Kind, str]], of: Diff
) -> tuple[PartChange, ...]:
    """All parts of both tables joined under the given keys; kinds in order, then by change."""
    old = _costs(zip(before, of.before.parts(), strict=True), len(of.before.steps))
    new = _costs(zip(after, of.after.parts(), strict=True), len(of.after.steps))
    made = [PartChange(*key, old.get(key), new.get(key)) for key in dict.fromkeys((*old, *new))]
    return tuple(sorted(made, key=lambda p: (-abs(p.delta), KINDS.index(p.kind), p.name)))


def _ns(cost: Cost | None) -> Fraction:
    return Fraction(0) if cost is None else cost.ns


def _sides_json(change: Change | PartChange) -> dict[str, Any]:
    return {
        "before": None if change.before is None else change.before.to_json(),
        "after": None if change.after is None else change.after.to_json(),
        "delta_us": float(change.delta / 1000),
    }
