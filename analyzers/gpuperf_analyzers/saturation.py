"""How much of the chip the kernels filled, as far as their launch geometry tells.

Kineto estimates each kernel's occupancy from its grid, block, registers and shared memory. That is
an upper bound from geometry, not a measurement; measured counters come from a live run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.trace.classify import Device, comm_mask
from gpuperf_analyzers.trace.copies import direction, host_memory
from gpuperf_analyzers.trace.model import I64, Category, Trace
from gpuperf_analyzers.trace.selection import activity

if TYPE_CHECKING:
    import pandas as pd

F64 = npt.NDArray[np.float64]
SOURCE = "launch geometry, Kineto's estimate"
GEOMETRY = "launch geometry: blocks against multiprocessors"
NO_BLOCKS = "no kernel records its blocks (ROCm and graph replays record none)"
NO_ESTIMATE = "the trace has no occupancy estimates (ROCm and graph replays record none)"


@dataclass(frozen=True, slots=True)
class KernelOccupancy:
    """All runs of one kernel that have an estimate.

    ``occupancy``, ``waves`` and ``tail_efficiency`` are weighted by time, the latter two None where
    the blocks were not recorded (see :class:`SaturationResult`).
    """

    name: str
    count: int
    time_us: float
    occupancy: float
    waves: float | None
    tail_efficiency: float | None


@dataclass(frozen=True, slots=True, eq=False)
class CopyTimes:
    """Each copy and fill in time order: start in ns, kind, and bytes (-1: not recorded).

    ``kind`` is the direction and, where the trace says it, the kind of host memory: ``HtoD
    pageable``; a fill is ``set``.
    """

    start_ns: I64
    kind: tuple[str, ...]
    bytes: I64


@dataclass(frozen=True, slots=True)
class SaturationResult:
    """Estimated occupancy of one device.

    ``est_occupancy = Σ occupancy x duration / Σ duration`` over the kernels that have an estimate,
    None without any; ``covered`` is their share of all kernel time.

    ``waves = blocks / multiprocessors``: below 1 some stand empty. ``tail_efficiency = waves /
    ceil(waves)``, weighted by time: the share of multiprocessors with a block to run, were blocks
    equal and run one at a time on each; blocks that share one fill the tail better, so it is a
    lower bound. ``part_filled`` is the share of time in kernels of less than one wave. The last
    two are None where no kernel records its blocks. ``compute_occupancy`` and
    ``compute_part_filled`` are the same without communication kernels, which leave most of the
    chip to others on purpose.
    """

    device: Device
    est_occupancy: float | None
    covered: float | None
    part_filled: float | None
    tail_efficiency: float | None
    by_kernel: tuple[KernelOccupancy, ...]
    compute_occupancy: float | None = None
    compute_part_filled: float | None = None
    copies: CopyTimes | None = None

    def metrics(self) -> Iterator[Value]:
        """``est_occupancy``, ``few_blocks`` and ``tail_efficiency``."""
        covered = f"{SOURCE}, {(self.covered or 0.0) * 100:.1f}% of kernel time"
        for name, value, source, lacking in (
            ("est_occupancy", self.est_occupancy, covered, NO_ESTIMATE),
            ("few_blocks", self.part_filled, GEOMETRY, NO_BLOCKS),
            ("tail_efficiency", self.tail_efficiency, GEOMETRY, NO_BLOCKS),
        ):
            if value is None:
                yield absent(name, "a CPU runs no kernels" if self.device == "cpu" else lacking)
            else:
                yield Value(name, value, source=source)

    def copies_frame(self) -> pd.DataFrame:
        """Bytes over time by kind: one row a copy or fill, with the sum of its kind so far.

        ``bytes`` and ``total_bytes`` leave out copies whose size is not recorded.
        """
        import pandas as pd

        found = self.copies
        if found is None:
            return pd.DataFrame(columns=["at_us", "kind", "bytes", "total_bytes"])
        frame = pd.DataFrame(
            {"at_us": found.start_ns / 1e3, "kind": found.kind, "bytes": found.bytes}
        )
        frame = frame[frame["bytes"] >= 0].reset_index(drop=True)
        return frame.assign(total_bytes=frame.groupby("kind")["bytes"].cumsum())

    def to_frame(self) -> pd.DataFrame:
        """One row per kernel name, the most time first."""
        import pandas as pd

        columns = list(KernelOccupancy.__slots__)
        rows = [[getattr(k, c) for c in columns] for k in self.by_kernel]
        return pd.DataFrame(rows, columns=columns)


def analyze(trace: Trace, config: Config, device: Device) -> SaturationResult:
    """Estimated occupancy of `device`; nothing on a CPU."""
    e, k = trace.events, trace.kernel_args
    here = (e.device[k.row] == device) if device != "cpu" else np.zeros(len(k.row), dtype=bool)
    pick = np.flatnonzero(here & np.isfinite(k.occupancy))
    time = e.dur[k.row[pick]]
    whole = int(e.dur[(e.cat == Category.KERNEL) & (e.device == device)].sum()) if here.any() else 0
    total = int(time.sum())
    moved = None if device == "cpu" else _copies(trace, config, device)
    if not total:
        return SaturationResult(device, None, None, None, None, (), copies=moved)
    occupancy = k.occupancy[pick].astype(np.float64)
    waves = k.blocks_per_sm[pick].astype(np.float64)
    known = np.isfinite(waves) & (waves > 0)
    timed = int(time[known].sum())
    compute = ~comm_mask(trace, config)[k.row[pick]]
    filled = known & compute
    return SaturationResult(
        device=device,
        est_occupancy=float((occupancy * time).sum() / total),
        covered=total / whole,
        part_filled=float(time[known & (waves < 1)].sum() / timed) if timed else None,
        tail_efficiency=float((_tail(waves[known]) * time[known]).sum() / timed) if timed else None,
        by_kernel=_by_kernel(trace, k.row[pick], time, occupancy, waves),
        compute_occupancy=_mean(occupancy[compute], time[compute]),
        copies=moved,
        compute_part_filled=_mean((waves < 1)[filled].astype(np.float64), time[filled]),
    )


def _copies(trace: Trace, config: Config, device: int) -> CopyTimes:
    e = trace.events
    rows = activity(trace, device, config).memory_rows
    kinds = {
        name: " ".join(filter(None, (direction(text), host_memory(text)))) or text
        for name in np.unique(e.name[rows]).tolist()
        for text in [trace.strings[name]]
    }
    return CopyTimes(e.ts[rows], tuple(kinds[n] for n in e.name[rows].tolist()), e.bytes[rows])


def _mean(values: F64, time: I64) -> float | None:
    """Mean weighted by time; None where there is none."""
    total = int(time.sum())
    return float((values * time).sum() / total) if total else None


def _tail(waves: F64) -> F64:
    return np.asarray(waves / np.ceil(waves))


def _by_kernel(
    trace: Trace, rows: I64, time: I64, occupancy: F64, waves: F64
) -> tuple[KernelOccupancy, ...]:
    names, which = np.unique(trace.events.name[rows], return_inverse=True)
    count = np.bincount(which)
    total = np.bincount(which, weights=time)
    filled = np.bincount(which, weights=occupancy * time)
    known = np.isfinite(waves) & (waves > 0)
    whole = np.bincount(which[known], weights=(waves * time)[known], minlength=len(names))
    tail = np.bincount(
        which[known], weights=_tail(waves[known]) * time[known], minlength=len(names)
    )
    weight = np.bincount(which[known], weights=time[known], minlength=len(names))
    order = [i for i in np.argsort(-total, kind="stable").tolist() if total[i]]
    return tuple(
        KernelOccupancy(
            name=trace.strings[names[i]],
            count=int(count[i]),
            time_us=float(total[i]) / 1e3,
            occupancy=float(filled[i] / total[i]),
            waves=float(whole[i] / weight[i]) if weight[i] else None,
            tail_efficiency=float(tail[i] / weight[i]) if weight[i] else None,
        )
        for i in order
    )
