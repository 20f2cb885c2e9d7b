"""DDP's bucket size against overlap and step time: how many buckets are worth their launches.

Small buckets begin early and hide behind more of the backward pass, and each costs its latency;
one large bucket begins when nothing is left to hide it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.metrics import Value, absent
from pytest_gpuperf.distributed.step import STEPS, TIMEOUT_S, Backend, MeasuredStep, measure_step

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from pytest_gpuperf.recording import Options

CAPS_MB = (1.0, 5.0, 25.0, 100.0, 400.0)
SHOWN = ("step_time", "overlap", "exposed_comm", "comm_time")
"""The metrics of a row, each of the worst rank."""


@dataclass(frozen=True, slots=True)
class BucketRow:
    """One bucket size.

    Attributes
    ----------
    bucket_cap_mb
        What DDP was given, MiB.
    buckets
        Gradient all-reduces of one step, as the trace of rank 0 has them.
    bytes
        What they carry in one step; None where a trace does not tell.
    values
        :data:`SHOWN` of the worst rank, with intervals where six samples or more bound them;
        absent with the reason where they could not be measured or must not be judged.
    """

    bucket_cap_mb: float
    buckets: int
    bytes: int | None
    values: dict[str, Value]


@dataclass(frozen=True, slots=True)
class BucketSweep:
    """The rows in the order in which they were measured, and where."""

    rows: tuple[BucketRow, ...]
    world_size: int
    backend: str
    device_name: str
    notes: tuple[str, ...] = ()

    def fastest(self) -> BucketRow | None:
        """The row of the shortest step, None where no step time could be measured."""
        timed = [r for r in self.rows if r.values["step_time"].value is not None]
        return min(timed, key=lambda r: r.values["step_time"].value or 0.0, default=None)

    def not_apart(self) -> tuple[float, ...]:
        """Other sizes whose step time's interval meets the fastest one's: it may be any of them.

        A size without an interval is one of them.
        """
        best = self.fastest()
        if best is None:
            return ()
        bounds = best.values["step_time"].interval
        return tuple(
            row.bucket_cap_mb
            for row in self.rows
            if row is not best
            and row.values["step_time"].value is not None
            and _meet(bounds, row.values["step_time"].interval)
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a size; each metric with its interval's bounds."""
        import pandas as pd

        return pd.DataFrame([_record(row) for row in self.rows])

    def to_json(self) -> dict[str, Any]:
        """The sweep as plain JSON types."""
        best = self.fastest()
        return {
            "world_size": self.world_size,
            "backend": self.backend,
            "device_name": self.device_name,
            "rows": [_record(row) for row in self.rows],
            "fastest_bucket_cap_mb": None if best is None else best.bucket_cap_mb,
            "not_apart_from_fastest_mb": list(self.not_apart()),
            "notes": list(self.notes),
        }


def _meet(first: tuple[float, float] | None, second: tuple[float, float] | None) -> bool:
    if first is None or second is None:
        return True
    return first[0] <= second[1] and second[0] <= first[1]


def _record(row: BucketRow) -> dict[str, Any]:
    record: dict[str, Any] = {
        "bucket_cap_mb": row.bucket_cap_mb,
        "buckets": row.buckets,
        "bytes": row.bytes,
    }
    for name in SHOWN:
        value = row.values[name]
        low, high = value.interval or (None, None)
        label = f"{name}_us" if name != "overlap" else name
        record |= {label: value.value, f"{label}_low": low, f"{label}_high": high}
        record[f"{name}_samples"] = value.n
        if value.value is None:
            record[f"{name}_absent"] = value.absent_reason
    return record


def sweep_buckets(
    make_step: Callable[..., Callable[[], object]],
    caps_mb: Sequence[float] = CAPS_MB,
    world_size: int = 2,
    *,
    backend: Backend = "auto",
    device: str | torch.device | None = None,
    steps: int = STEPS,
    options: Options | None = None,
    folder: Path | str | None = None,
    timeout_s: float = TIMEOUT_S,
    told: Callable[[float], None] | None = None,
) -> BucketSweep | None:
    """Measure ``make_step(rank, world_size, bucket_cap_mb=...)`` for every size, one after another.

    Each size is a launch of its own, so that no model of another is in memory; intervals are of
    the samples within one launch.

    Parameters
    ----------
    make_step
        A function at module level with the keyword ``bucket_cap_mb``, such as
        :func:`pytest_gpuperf.workloads.distributed.three_linears`, or a partial of one.
    caps_mb
        The sizes, MiB.
    world_size, backend, device, steps, options, folder, timeout_s
        As for :func:`measure_step`, for each size.
    told
        Called with each size before it is measured.

    Returns
    -------
    BucketSweep or None
        None on the other ranks of a surrounding torchrun.

    Raises
    ------
    ValueError, RankFailure
        As for :func:`measure_step`; no size, or one that is not above 0.
    """
    sizes = [float(cap) for cap in caps_mb]
    if not sizes or not all(0 < size < float("inf") for size in sizes):
        raise ValueError(f"bucket sizes must be numbers of MiB above 0, not {list(caps_mb)}")
    rows: list[BucketRow] = []
    last: MeasuredStep | None = None
    for size in sizes:
        if told is not None:
            told(size)
        last = measure_step(
            partial(make_step, bucket_cap_mb=size),
            world_size,
            backend=backend,
            device=device,
            steps=steps,
            options=options,
            folder=folder,
            stem=f"buckets-{size:g}",
            timeout_s=timeout_s,
        )
        if last is not None:
            rows.append(_row(size, last))
    if last is None:
        return None
    return BucketSweep(
        tuple(rows),
        world_size,
        last.outcome.backend,
        last.analysis.device_name,
        last.outcome.notes,
    )


def _row(size: float, measured: MeasuredStep) -> BucketRow:
    from gpuperf_analyzers.ddp_buckets import analyze
    from gpuperf_analyzers.registry import load_config
    from gpuperf_analyzers.trace.classify import devices

    trace, config = measured.traces.traces[0], load_config()
    buckets = [b for device in devices(trace) for b in analyze(trace, config, device).buckets]
    steps: dict[str, list[int | None]] = {}
    for bucket in buckets:
        steps.setdefault(bucket.step, []).append(bucket.bytes)
    # The first step may still use the buckets from before DDP put them in order.
    of_last = list(steps.values())[-1] if steps else []
    carried = [size for size in of_last if size is not None]
    return BucketRow(
        size,
        len(of_last),
        sum(carried) if carried and len(carried) == len(of_last) else None,
        {name: _judgeable(name, measured) for name in SHOWN},
    )


def _judgeable(name: str, measured: MeasuredStep) -> Value:
    """The set's value of a metric, absent where the traces forbid to judge it."""
    reason = measured.analysis.invalid.get(name)
    return measured.analysis.values[name] if reason is None else absent(name, reason)
