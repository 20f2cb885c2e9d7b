"""What grew between two snapshots: live blocks by the place that allocated them."""

from __future__ import annotations

from dataclasses import dataclass

from gpuperf_analyzers.snapshot.contents import LiveSite, live_sites
from gpuperf_analyzers.snapshot.model import Snapshot


@dataclass(frozen=True, slots=True)
class SiteChange:
    """Live bytes and blocks of one place before and after."""

    device: int
    site: str
    made_in: str
    before: int
    after: int
    blocks_before: int
    blocks_after: int

    @property
    def delta(self) -> int:
        """Bytes more after than before."""
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class SnapshotDiff:
    """Every place whose live bytes or blocks differ, the largest change first."""

    changes: tuple[SiteChange, ...]
    before: int
    after: int

    @property
    def delta(self) -> int:
        """Live bytes more after than before; the changes sum to it."""
        return self.after - self.before

    def by_made_in(self) -> dict[str, int]:
        """The change by the part of the program that allocated."""
        sums: dict[str, int] = {}
        for change in self.changes:
            sums[change.made_in] = sums.get(change.made_in, 0) + change.delta
        return dict(sorted(sums.items(), key=lambda item: (-abs(item[1]), item[0])))


def diff_snapshots(before: Snapshot, after: Snapshot) -> SnapshotDiff:
    """What grew from `before` to `after`, by device, place and part of the program."""
    old, new = ({_key(row): row for row in live_sites(s)} for s in (before, after))
    changes = []
    for key in old.keys() | new.keys():
        a, b = old.get(key), new.get(key)
        change = SiteChange(
            *key,
            before=a.bytes if a else 0,
            after=b.bytes if b else 0,
            blocks_before=a.blocks if a else 0,
            blocks_after=b.blocks if b else 0,
        )
        if change.delta or change.blocks_before != change.blocks_after:
            changes.append(change)
    changes.sort(key=lambda c: (-abs(c.delta), c.device, c.site, c.made_in))
    return SnapshotDiff(
        tuple(changes),
        sum(row.bytes for row in old.values()),
        sum(row.bytes for row in new.values()),
    )


def _key(row: LiveSite) -> tuple[int, str, str]:
    return row.device, row.site, row.made_in
