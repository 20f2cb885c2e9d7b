"""Throughput against batch size: where a larger batch stops paying."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuperf_analyzers.display import show, show_interval
from pytest_gpuperf.workloads.workload import Workload, whole

if TYPE_CHECKING:
    import torch

    from gpuperf_analyzers.metrics import Value

ENOUGH = 0.95
"""Share of the best throughput from which on a batch counts as large enough."""


@dataclass(frozen=True, slots=True)
class BatchSweep:
    """Step time (µs) and throughput (items/s) of each batch size, in the order measured.

    Attributes
    ----------
    batches
        The sizes.
    step_times, throughputs
        One value each, with its interval.
    """

    batches: tuple[int, ...]
    step_times: tuple[Value, ...]
    throughputs: tuple[Value, ...]

    @property
    def enough(self) -> int:
        """The smallest batch whose throughput is at least 95% of the best one."""
        rates = {b: v.value or 0.0 for b, v in zip(self.batches, self.throughputs, strict=True)}
        return min(b for b, rate in rates.items() if rate >= ENOUGH * max(rates.values()))

    def text(self) -> str:
        """One line a batch size."""
        lines = [f"{'batch':>8}  {'step time':>10}  {'throughput':>14}  95% CI"]
        for batch, time, rate in zip(self.batches, self.step_times, self.throughputs, strict=True):
            assert time.value is not None  # noqa: S101 - samples were taken
            assert rate.value is not None  # noqa: S101 - and items declared
            ends = show_interval(rate.value, rate.interval, "items/s") if rate.interval else ""
            shown = show(rate.value, "items/s")
            lines.append(f"{batch:>8,}  {show(time.value, 'us'):>10}  {shown:>14}  {ends}".rstrip())
        return "\n".join([*lines, f"{ENOUGH:.0%} of the best from batch {self.enough:,} on"])


def batch_sweep(
    make: Callable[[int], Workload],
    batches: Sequence[int],
    *,
    device: str | torch.device | None = None,
    warmup_s: float = 0.3,
    max_time_s: float = 1.0,
) -> BatchSweep:
    """Measure ``make(batch)`` for each of `batches`, each checked first.

    Parameters
    ----------
    make
        The workload of a batch; it must count items.
    batches
        Sizes, each once.
    device
        None takes the first GPU, or the CPU.
    warmup_s, max_time_s
        For each size.

    Raises
    ------
    ValueError
        No batch, one that is no size, or a workload that counts no items.
    RecordingError
        It cannot be measured here.
    """
    from gpuperf_analyzers.live_values import live_values
    from pytest_gpuperf.recording import Options, record, resolve_device

    if not batches:
        raise ValueError("gpuperf: a sweep needs at least one batch size")
    where = resolve_device(None if device is None else str(device))
    found: list[tuple[Value, Value]] = []
    with tempfile.TemporaryDirectory(prefix="gpuperf-") as folder:
        for batch in batches:
            whole(batch=batch)
            workload = make(batch)
            if not workload.items:
                raise ValueError(f"gpuperf: {workload.name} counts no items")
            prepared = workload.on(where)
            if prepared.check is not None:
                prepared.check()
            options = Options(
                warmup_s=warmup_s, max_time_s=max_time_s, steps=1, items=workload.items,
                items_unit=workload.items_unit, measure_peak=False,
            )  # fmt: skip
            path = Path(folder) / "sweep.pt.trace.json"
            block = record(prepared.step, device=where, trace_path=path, options=options).block
            values = live_values(block, peaks=())
            found.append((values["step_time"], values["throughput"]))
    times, rates = zip(*found, strict=True)
    return BatchSweep(tuple(batches), times, rates)
