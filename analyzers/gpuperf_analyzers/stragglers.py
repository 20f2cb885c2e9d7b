"""Across ranks: who is late, by how much, since which step, and in what.

With collectives matched over the ranks, a rank is late where it starts one after the median of
the others: they wait for it there. It may be early at the next; what counts is the sum, so that
ranks that take turns are not called late. What made it late is what it did, more than the others,
since the matched collective before. Without them the ranks do not meet in the trace, and a rank
is late by what its steps take longer than the others'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpuperf_analyzers import stats
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.matched_collectives import MatchedResult, Meeting
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.thresholds import Thresholds
from gpuperf_analyzers.trace.classify import Device, devices
from gpuperf_analyzers.trace.model import I64, Trace
from gpuperf_analyzers.trace.parts import Part, PartTimes, part_spans, part_times, parts_between

if TYPE_CHECKING:
    import pandas as pd

F64 = npt.NDArray[np.float64]
COLLECTIVES = "matched collectives"
STEP_TIMES = "step times"
WINDOW = "window"
EARLIER = "before its first activity in the trace"
"""What made a rank late that came late from the start."""


@dataclass(frozen=True, slots=True)
class RankLateness:
    """How late one rank is.

    ``by_step_us`` has a row a step (one for the window without steps): the sum over its
    collectives of how long after the median of the others it starts each, or what its step takes
    longer; below 0 where it is early. ``late_us`` is their median and ``share`` that over the
    median step. ``last`` counts the collectives that it was the last to start. ``grown`` has what
    it spent more time on than the others before it met them, the most first, by name of the part,
    µs in all.
    """

    rank: int
    late_us: float
    share: float
    by_step_us: tuple[float, ...]
    last: int
    grown: tuple[tuple[str, float], ...]

    @property
    def reason(self) -> str:
        """The part that made it late, "" where none grew."""
        return self.grown[0][0] if self.grown else ""


@dataclass(frozen=True, slots=True)
class StragglersResult:
    """The ranks of a set, by lateness.

    ``basis`` says what lateness was taken from, "" where nothing can be said (``absent_reason``).
    ``straggler`` is the latest rank where it is late enough to say so, None else; ``since`` the
    first step from which on it is late in every one, "" where the last step is not late.
    """

    basis: str
    steps: tuple[str, ...]
    step_us: float
    collectives: int
    ranks: tuple[RankLateness, ...]
    straggler: int | None
    since: str
    late_steps: int
    absent_reason: str

    def of(self, rank: int) -> RankLateness:
        """The row of `rank`.

        Raises
        ------
        KeyError
            The set has no such rank.
        """
        for row in self.ranks:
            if row.rank == rank:
                return row
        raise KeyError(rank)

    def metrics(self) -> Iterator[Value]:
        """``straggler_lateness``: the latest rank's."""
        if self.absent_reason:
            yield absent("straggler_lateness", self.absent_reason)
            return
        worst = max(self.ranks, key=lambda r: r.late_us)
        yield stats.median_value(
            "straggler_lateness", worst.by_step_us, f"from {self.basis}", at=f"rank {worst.rank}"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a rank and step: lateness in µs."""
        import pandas as pd

        rows = [
            {"rank": r.rank, "step": step, "late_us": late}
            for r in self.ranks
            for step, late in zip(self.steps, r.by_step_us, strict=True)
        ]
        return pd.DataFrame(rows, columns=["rank", "step", "late_us"])

    def ranks_frame(self) -> pd.DataFrame:
        """One row a rank, the latest first: lateness, its share of the step, what made it late."""
        import pandas as pd

        rows = [
            {"rank": r.rank, "late_us": r.late_us, "share": r.share, "last": r.last,
             "reason": r.reason, "reason_us": r.grown[0][1] if r.grown else 0.0}
            for r in sorted(self.ranks, key=lambda r: -r.late_us)
        ]  # fmt: skip
        columns = ["rank", "late_us", "share", "last", "reason", "reason_us"]
        return pd.DataFrame(rows, columns=columns)


@dataclass(frozen=True, slots=True)
class _Rank:
    rank: int
    trace: Trace
    device: Device
    parts: tuple[PartTimes, ...]


def find_stragglers(
    traces: Sequence[Trace], config: Config, matched: MatchedResult
) -> StragglersResult:
    """Who is late among `traces`, one a rank, whose collectives are `matched`."""
    ranks = []
    for i, trace in enumerate(traces):
        there = devices(trace)
        if len(there) == 1:  # of several devices in one file, none stands for the rank
            parts = part_times(trace, there[0], config)
            number = i if trace.rank is None else trace.rank
            ranks.append(_Rank(number, trace, there[0], parts))
    names = _common_steps(ranks)
    reason = _why_not(ranks, names)
    if reason:
        return StragglersResult("", (), 0.0, 0, (), None, "", 0, reason)
    lengths = np.array([[_length(r, n) for n in names] for r in ranks])
    step_us = float(np.median(lengths))
    rows = _by_meetings(ranks, names, config, matched.meetings, step_us)
    basis = COLLECTIVES if rows else STEP_TIMES
    rows = rows or _by_steps(ranks, names, lengths, step_us)
    return _judged(basis, names, step_us, len(matched.meetings), rows, config.thresholds)


def _common_steps(ranks: Sequence[_Rank]) -> tuple[str, ...]:
    """Steps that every rank has, in time order; the window where they have none."""
    if not ranks:
        return ()
    shared = set.intersection(*({p.name for p in r.parts} for r in ranks))
    return tuple(p.name for p in ranks[0].parts if p.name in shared)


def _why_not(ranks: Sequence[_Rank], names: Sequence[str]) -> str:
    if len(ranks) < 2:
        return "one rank has no other to be late for"
    if len({r.rank for r in ranks}) < len(ranks):
        return "two traces claim one rank"
    if len({r.trace.world_size for r in ranks if r.trace.world_size}) > 1:
        return "the traces are of different jobs: their world sizes differ"
    return "" if names else "the ranks have no step in common"


def _length(rank: _Rank, name: str) -> float:
    return next(p.length_ns for p in rank.parts if p.name == name) / 1e3


def _by_meetings(
    ranks: Sequence[_Rank],
    names: tuple[str, ...],
    config: Config,
    meetings: Sequence[Meeting],
    step_us: float,
) -> tuple[RankLateness, ...]:
    """Lateness where ranks meet; none where they do not, or not all of them."""
    numbers = [r.rank for r in ranks]
    met = [m for m in meetings if m.step in names or names == (WINDOW,)]
    if not met or {r for m in met for r in m.ranks} != set(numbers):
        return ()
    late = np.zeros((len(ranks), len(names)))
    last = dict.fromkeys(numbers, 0)
    grown: dict[int, dict[str, float]] = {n: {} for n in numbers}
    runs = _run_ups(ranks, config, met)
    for m in met:
        start = np.array(m.start_ns, dtype=np.float64)
        behind = _over_others(start)
        last[m.ranks[int(np.argmax(start))]] += 1
        column = names.index(m.step) if m.step in names else 0
        for rank, ns in zip(m.ranks, behind.tolist(), strict=True):
            late[numbers.index(rank), column] += ns / 1e3
        for kind in _KINDS:
            more = _over_others(np.array([runs[m, r].get(kind, 0.0) for r in m.ranks])) / 1e3
            for rank, us in zip(m.ranks, more.tolist(), strict=True):
                grown[rank][kind] = grown[rank].get(kind, 0.0) + us
    return tuple(
        _row(number, late[i], step_us, last[number], grown[number])
        for i, number in enumerate(numbers)
    )


_KINDS = (*(p.value for p in Part), EARLIER)


def _over_others(values: F64) -> F64:
    """Each of two or more values less the median of the others."""
    order = np.argsort(values, kind="stable")
    place = np.empty(len(values), dtype=np.int64)
    place[order] = np.arange(len(values))
    in_order = values[order]
    # Without the value at `place`, what stood behind it moves up by one.
    low, high = (len(values) - 2) // 2, (len(values) - 1) // 2
    middle = (in_order[low + (place <= low)] + in_order[high + (place <= high)]) / 2
    return np.asarray(values - middle)


def _run_ups(
    ranks: Sequence[_Rank], config: Config, met: Sequence[Meeting]
) -> Mapping[tuple[Meeting, int], dict[str, float]]:
    """What each rank did between one meeting's end and the next one's start, ns by part.

    Before the first meeting: since its first activity, and how much later than the first rank's
    that was.
    """
    result: dict[tuple[Meeting, int], dict[str, float]] = {}
    for rank in ranks:
        mine = sorted(
            (m.own_ns[m.ranks.index(rank.rank)], m) for m in met if rank.rank in m.ranks
        )  # fmt: skip
        if not mine:
            continue
        spans = part_spans(rank.trace, rank.device, config)
        begin = min((int(s[0, 0]) for s in spans.values() if len(s)), default=0)
        starts = np.array([start for (start, _), _ in mine], dtype=np.int64)
        ends = np.maximum.accumulate(np.array([end for (_, end), _ in mine], dtype=np.int64))
        since: I64 = np.minimum(np.append([begin], ends[:-1]), starts)
        split = parts_between(spans, since, starts)
        for i, (_, meeting) in enumerate(mine):
            did = {part.value: float(times[i]) for part, times in split.items()}
            if i == 0:
                # On the common clock: where this rank's own clock stands is in the difference.
                shift = meeting.start_ns[meeting.ranks.index(rank.rank)] - starts[0]
                did[EARLIER] = float(begin + shift)
            result[meeting, rank.rank] = did
    return result


def _by_steps(
    ranks: Sequence[_Rank], names: tuple[str, ...], lengths: F64, step_us: float
) -> tuple[RankLateness, ...]:
    """Lateness as what a rank's steps take longer than the others'."""
    behind = _each_step(lengths)
    more = {
        part.value: _each_step(np.array([[_of(r, n, part) for n in names] for r in ranks]))
        for part in Part
    }
    return tuple(
        _row(r.rank, behind[i], step_us, 0, {k: float(us[i].sum()) for k, us in more.items()})
        for i, r in enumerate(ranks)
    )


def _each_step(times: F64) -> F64:
    """A row a rank and a column a step: each less the median of the other ranks."""
    return np.stack([_over_others(column) for column in times.T], axis=1)


def _of(rank: _Rank, name: str, part: Part) -> float:
    return next(p.by_part[part] for p in rank.parts if p.name == name) / 1e3


def _row(
    rank: int, late: F64, step_us: float, last: int, grown: Mapping[str, float]
) -> RankLateness:
    middle = float(np.median(late))
    more = sorted(((k, v) for k, v in grown.items() if v > 0), key=lambda pair: -pair[1])
    share = middle / step_us if step_us else 0.0
    return RankLateness(rank, middle, share, tuple(late.tolist()), last, tuple(more))


def _judged(
    basis: str,
    names: tuple[str, ...],
    step_us: float,
    meetings: int,
    rows: tuple[RankLateness, ...],
    limits: Thresholds,
) -> StragglersResult:
    worst = max(rows, key=lambda r: (sum(r.by_step_us), r.last))
    least = limits.straggler * step_us
    late = [us > 0 and us >= least for us in worst.by_step_us]
    unbroken = 0
    while unbroken < len(late) and late[-1 - unbroken]:
        unbroken += 1
    # Early in some steps and late in others, or no later than the others in all, is taking turns.
    total = np.array([sum(r.by_step_us) for r in rows])
    named = any(late) and min(total.max(), _over_others(total).max()) >= least
    named = named and _no_chance(rows, worst, least, limits)
    return StragglersResult(
        basis=basis,
        steps=names,
        step_us=step_us,
        collectives=meetings if basis == COLLECTIVES else 0,
        ranks=rows,
        straggler=worst.rank if named else None,
        since=names[len(names) - unbroken] if named and unbroken else "",
        late_steps=sum(late) if named else 0,
        absent_reason="",
    )


_FEW_STEPS = 5


def _no_chance(
    rows: Sequence[RankLateness], worst: RankLateness, least: float, limits: Thresholds
) -> bool:
    """Whether `worst` is late for more than chance, where ranks vary from step to step anyway.

    It is late and the last one in every step; or is the last one in so many that of ranks which
    are last by turns one would be as often in a set of twenty at most (binomial, over as many
    ranks as there are); or its late steps stand out of what the other ranks and the other steps
    show.
    """
    from scipy.special import bdtrc

    table = np.array([r.by_step_us for r in rows])
    own = rows.index(worst)
    ranks, steps = table.shape
    late = table >= least
    last = int((np.argmax(table, axis=0) == own).sum())
    if late[own].all() and last == steps:
        return True
    if ranks * bdtrc(last - 1, steps, 1 / ranks) <= limits.straggler_chance:
        return True
    lateness = np.where(late, table, 0.0).sum(axis=1)
    elsewhere = np.abs(table[:, ~late[own]]).max(initial=0.0)
    few = steps < _FEW_STEPS
    times = limits.straggler_stands_out_of_few if few else limits.straggler_stands_out
    return bool(
        lateness[own] >= limits.straggler_stands_out * np.delete(lateness, own).max()
        and table[own].max() >= times * elsewhere
    )
