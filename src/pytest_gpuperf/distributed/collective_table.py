"""Collectives over sizes as a table: time, algorithm and bus bandwidth, wrong elements.

Starts and ends of each call are matched over the ranks: t = max end - last start, so that waiting
for a late rank does not count. algbw = S/t and busbw = algbw x factor, as nccl-tests has them:
2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for broadcast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.collective_kinds import bus_factor

if TYPE_CHECKING:
    import pandas as pd

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class CollectiveRow:
    """One collective of one size.

    Attributes
    ----------
    op, dtype
        What was done, with elements of which type; sums, where it reduces.
    bytes, elements
        S, the larger of input and output of one rank, and how many elements that is.
    time_us, time_interval_us
        Median of t over the samples and its 95% interval; None under six samples.
    algbw_gb_s, algbw_interval_gb_s
        S/t in 1e9 B/s; the interval is the time's, turned over.
    busbw_gb_s, busbw_interval_gb_s
        algbw x factor; None for a single rank, where nothing crosses a link.
    wrong
        Elements of the result, over all ranks, that were not what they must be.
    samples, calls
        How many samples, and how many calls in a row each of them timed.
    absent
        Why there are no numbers, "" where there are.
    """

    op: str
    dtype: str
    bytes: int
    elements: int = 0
    time_us: float | None = None
    time_interval_us: Interval | None = None
    algbw_gb_s: float | None = None
    algbw_interval_gb_s: Interval | None = None
    busbw_gb_s: float | None = None
    busbw_interval_gb_s: Interval | None = None
    wrong: int = 0
    samples: int = 0
    calls: int = 1
    absent: str = ""


@dataclass(frozen=True, slots=True)
class CollectiveTable:
    """Rows in the order of measurement, and where they were measured."""

    rows: tuple[CollectiveRow, ...]
    world_size: int
    backend: str
    device_name: str
    torch_version: str
    hosts: int = 1
    notes: tuple[str, ...] = ()

    @property
    def wrong(self) -> int:
        """Wrong elements of all rows: above 0 nothing here is to be trusted."""
        return sum(row.wrong for row in self.rows)

    def mean_busbw_gb_s(self) -> float | None:
        """Mean bus bandwidth of the rows that have one, as nccl-tests ends its table."""
        known = [row.busbw_gb_s for row in self.rows if row.busbw_gb_s is not None]
        return sum(known) / len(known) if known else None

    def to_frame(self) -> pd.DataFrame:
        """One row a collective and size."""
        import pandas as pd

        columns = list(CollectiveRow.__slots__)
        return pd.DataFrame([[getattr(r, c) for c in columns] for r in self.rows], columns=columns)

    def to_json(self) -> dict[str, Any]:
        """The table as plain JSON types."""
        return {**asdict(self), "mean_busbw_gb_s": self.mean_busbw_gb_s(), "wrong": self.wrong}


def matched_times_us(
    starts_ns: Sequence[Sequence[int]],
    ends_ns: Sequence[Sequence[int]],
    ahead_ns: Sequence[float] = (),
    calls: int = 1,
) -> list[float]:
    """T of each sample, µs a call: max end - last start over the ranks.

    Parameters
    ----------
    starts_ns, ends_ns
        By rank and sample.
    ahead_ns
        How far each rank's clock is ahead; empty where they share one.
    calls
        Calls in a row that one sample timed.
    """
    ahead = list(ahead_ns) or [0.0] * len(starts_ns)
    times = []
    for i in range(len(starts_ns[0])):
        last_start = max(s[i] - a for s, a in zip(starts_ns, ahead, strict=True))
        max_end = max(e[i] - a for e, a in zip(ends_ns, ahead, strict=True))
        times.append((max_end - last_start) / 1e3 / calls)
    return times


def clocks_ahead_ns(ends_ns: Sequence[Sequence[int]]) -> list[float]:
    """How far each rank's clock is ahead of rank 0's, from collectives that all leave together.

    The median difference of their ends; each by itself may be off by one rank's late waking.
    """
    from gpuperf_analyzers.stats import median

    first = ends_ns[0]
    return [median([mine - of for mine, of in zip(own, first, strict=True)]) for own in ends_ns]


def row_of(
    case: Mapping[str, Any],
    of_ranks: Sequence[Mapping[str, Any]],
    ahead_ns: Sequence[float],
) -> CollectiveRow:
    """The row of one case, from what each rank saw of it."""
    from gpuperf_analyzers import stats

    op, dtype = case["op"], case["dtype"]
    reasons = [(r, seen["absent"]) for r, seen in enumerate(of_ranks) if seen["absent"]]
    if reasons:
        return CollectiveRow(op, dtype, case["size"], absent=reasons[0][1])
    first = of_ranks[0]
    calls = first["calls"]
    times = matched_times_us(
        [seen["starts_ns"] for seen in of_ranks],
        [seen["ends_ns"] for seen in of_ranks],
        ahead_ns,
        calls,
    )
    wrong = sum(seen["wrong"] for seen in of_ranks)
    whole = CollectiveRow(
        op, dtype, first["bytes"], first["elements"], wrong=wrong, samples=len(times), calls=calls
    )
    if min(times) <= 0:
        why = "the ranks' clocks differ by more than it takes: their starts cannot be matched"
        return _replaced(whole, absent=why)
    time, bounds = stats.median(times), stats.median_interval(times)
    rate, rates = _rates(first["bytes"], time, bounds, 1.0)
    factor = bus_factor(op, len(of_ranks))
    bus, buses = (None, None) if factor is None else _rates(first["bytes"], time, bounds, factor)
    return _replaced(
        whole,
        time_us=time,
        time_interval_us=bounds,
        algbw_gb_s=rate,
        algbw_interval_gb_s=rates,
        busbw_gb_s=bus,
        busbw_interval_gb_s=buses,
    )


def _replaced(row: CollectiveRow, **changes: Any) -> CollectiveRow:
    from dataclasses import replace

    return replace(row, **changes)


def _rates(
    size: int, time_us: float, bounds_us: Interval | None, factor: float
) -> tuple[float, Interval | None]:
    """GB/s, and its interval: the longest time is the lowest rate. B/µs are MB/s."""
    rate = size / time_us / 1e3 * factor
    if bounds_us is None:
        return rate, None
    low, high = (size / bound / 1e3 * factor for bound in reversed(bounds_us))
    return rate, (low, high)
