"""Send and receive over the ranks of a set: how much each moved, and how unevenly.

Point-to-point calls have no place in a group's common sequence, so they are not matched call by
call; a pipeline's or an expert's load shows in the sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuperf_analyzers.collectives import Collective, CollectivesResult

if TYPE_CHECKING:
    import pandas as pd

KIND = "send_recv"


@dataclass(frozen=True, slots=True)
class RankExchange:
    """What one rank sent and received.

    ``bytes`` sums what is recorded, ``unsized`` counts calls without a size. ``time_us`` sums the
    calls, waiting for the peer included, ``exposed_us`` the parts beside which no compute ran.
    """

    rank: int
    calls: int
    bytes: int
    unsized: int
    time_us: float
    exposed_us: float


@dataclass(frozen=True, slots=True)
class Exchanges:
    """Point-to-point traffic of the ranks that had any."""

    ranks: tuple[RankExchange, ...]

    @property
    def byte_imbalance(self) -> float | None:
        """Largest bytes of a rank / mean of all; None where a size is missing or all are 0."""
        if any(r.unsized for r in self.ranks):
            return None
        return _imbalance([r.bytes for r in self.ranks])

    @property
    def time_imbalance(self) -> float | None:
        """Largest time of a rank / mean of all."""
        return _imbalance([r.time_us for r in self.ranks])

    def to_frame(self) -> pd.DataFrame:
        """One row per rank."""
        import pandas as pd

        columns = list(RankExchange.__slots__)
        return pd.DataFrame([[getattr(r, c) for c in columns] for r in self.ranks], columns=columns)


def exchanges(ranks: Mapping[int, Iterable[CollectivesResult]]) -> Exchanges:
    """Send and receive calls of each rank, whose results are those of its devices."""
    found = []
    for rank, results in sorted(ranks.items()):
        calls = [call for result in results for call in result.calls if call.kind == KIND]
        if calls:
            found.append(_exchange(rank, calls))
    return Exchanges(tuple(found))


def _exchange(rank: int, calls: Sequence[Collective]) -> RankExchange:
    return RankExchange(
        rank=rank,
        calls=len(calls),
        bytes=sum(c.bytes or 0 for c in calls),
        unsized=sum(c.bytes is None for c in calls),
        time_us=sum(c.duration_us for c in calls),
        exposed_us=sum(c.exposed_us for c in calls),
    )


def _imbalance(amounts: Sequence[float]) -> float | None:
    total = sum(amounts)
    return max(amounts) * len(amounts) / total if total else None
