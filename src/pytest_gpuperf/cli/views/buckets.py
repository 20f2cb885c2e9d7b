"""The gradient buckets of DDP over all steps, and what keeps them exposed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gpuperf_analyzers.display import show
from pytest_gpuperf.cli.console import emit, table, words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.analysis import DeviceAnalysis
    from gpuperf_analyzers.ddp_buckets import Bucket, BucketsResult

_CURES = {
    "ready last": "ready when the backward pass is over: make the last bucket smaller",
    "outlasted": "takes longer than the backward compute that is left",
    "queued": "waits behind other collectives while the compute runs",
    "starved": "compute is left, but does not run beside it: the host is late, or it waits",
}


def print_buckets(console: Console, device: DeviceAnalysis, top: int) -> None:
    """A row for each bucket of a step, in the order of the backward pass."""
    found: BucketsResult = device.results["ddp_buckets"]
    groups: dict[int, list[Bucket]] = {}
    for bucket in found.buckets:
        groups.setdefault(bucket.index, []).append(bucket)
    shown = table("gradient bucket", "size", "steps", "time", "exposed", "mostly", numbers=4)
    shown.columns[-1].justify = "left"
    shown.columns[1].justify = "right"
    causes = []
    for index, buckets in list(groups.items())[:top]:
        time = sum(b.duration_us for b in buckets)
        exposed = sum(b.exposed_us for b in buckets)
        cause = Counter(b.cause for b in buckets).most_common(1)[0][0]
        causes.append(cause)
        size = max((b.bytes for b in buckets if b.bytes is not None), default=None)
        shown.add_row(
            words(f"#{index}"),
            words("-" if size is None else show(size, "bytes")),
            words(f"{len(buckets):,}"),
            words(show(time, "us")),
            words(show(exposed / time, "fraction") if time else "-"),
            words(cause),
        )
    if not shown.row_count:
        return
    emit(console, shown)
    for cause in dict.fromkeys(causes):
        if cause in _CURES:
            emit(console, words(f"{cause}: {_CURES[cause]}"))
    console.print()
