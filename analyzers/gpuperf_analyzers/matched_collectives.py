"""Collectives with all ranks at hand: who waited, for whom, and what the transfer itself took.

Collectives are matched by process group and position in the group's sequence (NCCL's number where
recorded). Ranks' clocks differ: those that no rank can leave before all have come end together, so
the median difference of ends is the skew, taken out first where it can be told from 0. Then

    t = last end - last start, wait of a rank = last start - its own start,

and the straggler is the one who starts last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuperf_analyzers import stats
from gpuperf_analyzers.collective_kinds import SYNCHRONIZING, bus_factor
from gpuperf_analyzers.collectives import Collective, analyze
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.trace.classify import devices
from gpuperf_analyzers.trace.model import I64, Finding, Trace

if TYPE_CHECKING:
    import pandas as pd

_Group = tuple[str, str]
"""A process group: its name and its ranks as the metadata has them, "" where it has none."""
TOLD_SKEW_US = 50.0
"""Clocks closer than this are corrected without a word."""
_SIZES = (2**10, 2**15, 2**20, 2**25, 2**30)


@dataclass(frozen=True, slots=True)
class MatchedCollective:
    """One collective across the ranks of its group.

    ``time_us`` is t, from the last start to the last end; ``wait_us`` each rank's wait, in the
    order of ``ranks``; ``straggler`` the rank that started last and ``late_us`` by how much after
    the one before it. ``algbw_gb_s = bytes / t``; ``busbw_gb_s = algbw x factor``, None where the
    kind has none or the bytes are not recorded.
    """

    kind: str
    group: str
    index: int
    bytes: int | None
    dtype: str
    ranks: tuple[int, ...]
    step: str
    time_us: float
    wait_us: tuple[float, ...]
    straggler: int
    late_us: float
    algbw_gb_s: float | None
    busbw_gb_s: float | None
    imbalance: float | None
    """Largest bytes of a rank over the mean of all: above 1 where an all-to-all is uneven."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where the ranks of a group meet: a matched collective that none leaves before all came.

    ``start_ns`` is each rank's start on one clock, skew taken out; ``own_ns`` each rank's start
    and end on its own, ns from its trace's start. In the order of ``ranks``.
    """

    step: str
    ranks: tuple[int, ...]
    start_ns: tuple[float, ...]
    own_ns: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class RankWait:
    """Of one rank: its waiting in all collectives, how often it was the straggler, its clock skew.

    ``skew_us`` is how far its clock is ahead of the median rank's, 0 where that cannot be told.
    """

    rank: int
    wait_us: float
    straggler: int
    skew_us: float


@dataclass(frozen=True, slots=True)
class MatchedResult:
    """Collectives of a set. ``unmatched`` says for each group without a match why."""

    calls: tuple[MatchedCollective, ...]
    ranks: tuple[RankWait, ...]
    unmatched: tuple[str, ...]
    meetings: tuple[Meeting, ...] = ()

    def metrics(self) -> Iterator[Value]:
        """``busbw``: the mean over matched collectives, each weighted by its bytes."""
        sized = [(c.bytes, c.busbw_gb_s) for c in self.calls if c.bytes and c.busbw_gb_s]
        if not sized:
            yield absent("busbw", self._why_none())
            return
        total = sum(size for size, _ in sized)
        mean = sum(size * rate for size, rate in sized) / total
        source = f"{len(sized)} collectives matched over {len(self.ranks)} ranks"
        yield Value("busbw", mean, n=len(sized), source=source)

    def findings(self) -> Iterator[Finding]:
        """Ranks whose clocks do not agree: corrected here, not in traces side by side."""
        skewed = [r for r in self.ranks if abs(r.skew_us) >= TOLD_SKEW_US]
        if skewed:
            worst = max(skewed, key=lambda r: abs(r.skew_us))
            yield Finding(
                "clock-skew",
                f"the clocks of {len(skewed)} of {len(self.ranks)} ranks differ from the median "
                f"rank's, by the ends of their collectives; rank {worst.rank}'s by "
                f"{worst.skew_us:g} µs (waits are corrected for it)",
                len(skewed),
                example=f"rank {worst.rank}: {worst.skew_us:g} µs",
                at=f"rank {worst.rank}",
            )

    def _why_none(self) -> str:
        if self.unmatched:
            return "; ".join(self.unmatched)
        return "no collective has a size and a bandwidth" if self.calls else "no communication"

    def to_frame(self) -> pd.DataFrame:
        """One row per matched collective."""
        import pandas as pd

        columns = list(MatchedCollective.__slots__)
        return pd.DataFrame([[getattr(c, k) for k in columns] for c in self.calls], columns=columns)

    def by_size(self) -> pd.DataFrame:
        """Count, bytes, time and bandwidth by kind and size bucket (upper bound in bytes)."""
        frame = self.to_frame()
        sizes = np.array([c.bytes or 0 for c in self.calls], dtype=np.int64)
        frame["up_to_bytes"] = [_bucket(s) for s in sizes.tolist()]
        grouped = frame.groupby(["kind", "up_to_bytes"], dropna=False, sort=True)
        table = grouped.agg(
            count=("time_us", "size"),
            bytes=("bytes", "sum"),
            time_us=("time_us", "sum"),
            busbw_gb_s=("busbw_gb_s", "median"),
        )
        return table.reset_index()


def _bucket(size: int) -> float:
    return float(next((s for s in _SIZES if size <= s), np.inf))


@dataclass(frozen=True, slots=True, eq=False)
class _Rank:
    """A rank's collectives by group, times in ns on a common zero."""

    rank: int
    groups: dict[_Group, list[Collective]]
    offset: int


def match(traces: Sequence[Trace], config: Config) -> MatchedResult:
    """Collectives of `traces`, one a rank; ranks without a device or communication are left out.

    A group is matched where all its ranks are there and made the same sequence; else it is left
    out and named in ``unmatched``.
    """
    zero = min((t.start_ns for t in traces), default=0)
    ranks = [_rank(t, i, config, zero) for i, t in enumerate(traces)]
    matched: list[tuple[_Group, list[_Rank]]] = []
    unmatched: list[str] = []
    for group in sorted({g for r in ranks for g in r.groups}):
        members = [r for r in ranks if group in r.groups]
        why = _why_not(group, members)
        if why:
            unmatched.append(why)
        else:
            matched.append((group, members))
    skew = _skews(matched, [r.rank for r in ranks])
    calls = tuple(c for group, members in matched for c in _calls(group, members, skew))
    waits = []
    for rank in sorted(skew):
        of = [(c, c.wait_us[c.ranks.index(rank)]) for c in calls if rank in c.ranks]
        late = sum(c.straggler == rank for c, _ in of)
        waits.append(RankWait(rank, sum(w for _, w in of), late, skew[rank] / 1e3))
    meetings = tuple(m for group, members in matched for m in _meetings(group, members, skew))
    return MatchedResult(calls, tuple(waits), tuple(unmatched), meetings)


def _rank(trace: Trace, index: int, config: Config, zero: int) -> _Rank:
    groups: dict[_Group, list[Collective]] = {}
    for device in devices(trace):
        for call in analyze(trace, config, device).calls:
            # Point-to-point calls are made by two ranks of the group and have no place in its
            # common sequence.
            if call.kind != "send_recv":
                groups.setdefault((call.group, call.group_ranks), []).append(call)
    for calls in groups.values():
        if all(c.sequence is not None for c in calls):
            calls.sort(key=lambda c: c.sequence or 0)
    rank = index if trace.rank is None else trace.rank
    return _Rank(rank, groups, trace.start_ns - zero)


def _why_not(group: _Group, members: list[_Rank]) -> str:
    """Why a group's collectives cannot be matched, "" where they can."""
    name = f"process group {group[0]}" if group[0] else "the unnamed process group"
    size = members[0].groups[group][0].group_size
    if size is None:
        return f"{name}: its size is not recorded"
    if len(members) != size:
        return f"{name}: {len(members)} of {size} ranks are at hand"
    if len({m.rank for m in members}) != len(members):
        return f"{name}: two traces claim one rank"
    first = [(c.kind, c.bytes) for c in members[0].groups[group]]
    for member in members[1:]:
        other = [(c.kind, c.bytes) for c in member.groups[group]]
        if len(other) != len(first):
            return (
                f"{name}: rank {member.rank} made {len(other)} collectives, "
                f"rank {members[0].rank} {len(first)}"
            )
        if [k for k, _ in other] != [k for k, _ in first]:
            return f"{name}: rank {member.rank} made another sequence of collectives"
    return ""


def _times(group: _Group, members: list[_Rank]) -> tuple[I64, I64]:
    """Starts and ends in ns, one row a rank, one column a collective."""
    start = np.array([[c.start_us for c in m.groups[group]] for m in members])
    length = np.array([[c.duration_us for c in m.groups[group]] for m in members])
    offset = np.array([[m.offset] for m in members], dtype=np.int64)
    begin = np.rint(start * 1000).astype(np.int64) + offset
    return begin, begin + np.rint(length * 1000).astype(np.int64)


def _skews(matched: list[tuple[_Group, list[_Rank]]], ranks: list[int]) -> dict[int, float]:
    """How far each rank's clock is ahead, ns: the median of its ends less the median rank's.

    0 where the differences do not tell: their median's interval (all of them, where they are too
    few for one) reaches across 0. Correcting by noise would make waits of nothing.
    """
    ahead: dict[int, list[float]] = {r: [] for r in ranks}
    for group, members in matched:
        kinds = [c.kind in SYNCHRONIZING for c in members[0].groups[group]]
        _, end = _times(group, members)
        difference = end - np.median(end, axis=0)
        for member, row in zip(members, difference[:, kinds], strict=True):
            ahead[member.rank] += row.tolist()
    return {rank: _told(differences) for rank, differences in ahead.items()}


def _told(differences: list[float]) -> float:
    if not differences:
        return 0.0
    low, high = stats.median_interval(differences) or (min(differences), max(differences))
    return stats.median(differences) if low > 0 or high < 0 else 0.0


def _meetings(group: _Group, members: list[_Rank], skew: dict[int, float]) -> Iterator[Meeting]:
    start, end = _times(group, members)
    offset = np.array([[m.offset] for m in members], dtype=np.int64)
    common = start - np.array([[skew[m.rank]] for m in members])
    own = np.stack((start - offset, end - offset), axis=-1)
    for i, call in enumerate(members[0].groups[group]):
        if call.kind in SYNCHRONIZING:
            yield Meeting(
                call.step,
                tuple(m.rank for m in members),
                tuple(common[:, i].tolist()),
                tuple((int(a), int(b)) for a, b in own[:, i].tolist()),
            )


def _calls(
    group: _Group, members: list[_Rank], skew: dict[int, float]
) -> Iterator[MatchedCollective]:
    start, end = _times(group, members)
    correction = np.array([[skew[m.rank]] for m in members])
    begin, stop = start - correction, end - correction
    ranks = tuple(m.rank for m in members)
    for i, call in enumerate(members[0].groups[group]):
        sizes = [b for m in members if (b := m.groups[group][i].bytes) is not None]
        size = max(sizes) if len(sizes) == len(members) else None
        time = float(stop[:, i].max() - begin[:, i].max())
        order = np.argsort(begin[:, i], kind="stable")
        algbw = size / time if size and time > 0 else None
        factor = bus_factor(call.kind, len(members))
        yield MatchedCollective(
            kind=call.kind,
            group=group[0],
            index=i,
            bytes=size,
            dtype=call.dtype,
            ranks=ranks,
            step=call.step,
            time_us=time / 1e3,
            wait_us=tuple(((begin[:, i].max() - begin[:, i]) / 1e3).tolist()),
            straggler=ranks[int(order[-1])],
            late_us=float(begin[order[-1], i] - begin[order[-2], i]) / 1e3
            if len(ranks) > 1
            else 0.0,
            algbw_gb_s=algbw,
            busbw_gb_s=algbw * factor if algbw is not None and factor is not None else None,
            imbalance=size * len(sizes) / sum(sizes) if size else None,
        )
