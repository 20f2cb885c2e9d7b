"""What one device gives to the op table before it is a table: owners, their layers, counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.diff.exclusive import Layer
from gpuperf_analyzers.diff.table import Kind, RowKey
from gpuperf_analyzers.trace.classify import Device
from gpuperf_analyzers.trace.model import I64, Bool, Trace
from gpuperf_analyzers.trace.selection import activity
from gpuperf_analyzers.trace.steps import steps

OwnerKey = tuple[RowKey, Kind, str]
"""Row, kind of time, and name of the kernel."""

IDLE_ROW: RowKey = ((), "", "")


@dataclass(slots=True)
class Gathered:
    """Owners with what they launched, and the rows' own counts, while a device is gathered."""

    owners: dict[OwnerKey, int] = field(default_factory=dict)
    layers: list[Layer] = field(default_factory=list)
    count: Counter[int] = field(default_factory=Counter)
    bytes: Counter[int] = field(default_factory=Counter)
    calls: Counter[RowKey] = field(default_factory=Counter)
    launches: Counter[RowKey] = field(default_factory=Counter)
    syncs: Counter[RowKey] = field(default_factory=Counter)

    def owner(self, key: OwnerKey) -> int:
        """The number of an owner, which is given on first sight."""
        return self.owners.setdefault(key, len(self.owners))


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The steps of one device, or its whole window as one: names, device windows, host spans."""

    stepped: bool
    names: tuple[str, ...]
    start: I64
    end: I64
    host_start: I64
    host_end: I64

    def on_host(self, at: I64) -> Bool:
        """Whether the host was inside a step at each time."""
        index = np.searchsorted(self.host_start, at, side="right") - 1
        inside: Bool = (index >= 0) & (at < self.host_end[np.maximum(index, 0)])
        return inside


def columns(trace: Trace, config: Config, device: Device) -> Columns:
    """The steps of `device`; where none is annotated the window, which every call is inside of."""
    every = steps(trace, device, config)
    if every:
        table = np.array(
            [(s.start, s.end, s.host_start, s.host_end) for s in every], dtype=np.int64
        )
        return Columns(True, tuple(s.name for s in every), *table.T)
    found = activity(trace, device, config)
    far = np.iinfo(np.int64)
    bounds = (found.start, found.end, far.min, far.max)
    return Columns(False, ("window",), *(np.array([b], dtype=np.int64) for b in bounds))
