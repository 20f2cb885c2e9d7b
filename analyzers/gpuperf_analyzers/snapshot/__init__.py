"""Snapshots of torch's CUDA allocator, read without torch and without trusting them."""

from __future__ import annotations

from gpuperf_analyzers.snapshot.contents import (
    DeviceMemory,
    LiveSite,
    by_made_in,
    device_memory,
    live_sites,
)
from gpuperf_analyzers.snapshot.errors import SnapshotError
from gpuperf_analyzers.snapshot.fitting import Evicted, Fit, fit
from gpuperf_analyzers.snapshot.growth import SiteChange, SnapshotDiff, diff_snapshots
from gpuperf_analyzers.snapshot.model import Block, Frame, History, Segment, Snapshot
from gpuperf_analyzers.snapshot.past import OutOfMemory, Past, SiteBytes, past_of
from gpuperf_analyzers.snapshot.reader import is_snapshot, read_snapshot

__all__ = [
    "Block",
    "DeviceMemory",
    "Evicted",
    "Fit",
    "Frame",
    "History",
    "LiveSite",
    "OutOfMemory",
    "Past",
    "Segment",
    "SiteBytes",
    "SiteChange",
    "Snapshot",
    "SnapshotDiff",
    "SnapshotError",
    "by_made_in",
    "device_memory",
    "diff_snapshots",
    "fit",
    "is_snapshot",
    "live_sites",
    "past_of",
    "read_snapshot",
]
