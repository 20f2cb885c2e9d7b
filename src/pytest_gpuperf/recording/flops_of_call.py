"""The FLOP of one call of a workload, counted or declared, and on a CPU the peaks beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from gpuperf_analyzers.live_block import LiveBlock
from pytest_gpuperf.recording.coordination import Coordinator
from pytest_gpuperf.recording.errors import RecordingError
from pytest_gpuperf.recording.flop_count import FlopCount, count_flops
from pytest_gpuperf.recording.mamf_cache import known_maxima
from pytest_gpuperf.recording.notes import thread_notes
from pytest_gpuperf.recording.options import Options
from pytest_gpuperf.recording.sampling import Workload
from pytest_gpuperf.recording.tf32 import tf32_policy
from pytest_gpuperf.recording.worker_threads import watch_threads

if TYPE_CHECKING:
    import torch

    from gpuperf_analyzers.config import Config


def with_flops(
    block: LiveBlock,
    workload: Workload,
    device: torch.device,
    options: Options,
    coordinator: Coordinator,
    config: Config | None,
) -> LiveBlock:
    """`block` with the FLOP of one more, untimed call, and on a CPU the peak to hold them to."""
    tf32 = tf32_policy(device)
    if workload.setup is not None:
        workload.setup()
    with watch_threads() as watch:
        counted = count_flops(workload.step, tf32=tf32, config=config)
    if workload.teardown is not None:
        workload.teardown()
    flops = declared_over_counted(options, counted)
    measured = options.measure_peak and device.type == "cpu"
    peaks, peak_notes = _cpu_peaks(flops.by_dtype, coordinator) if measured else ({}, ())
    maxima, found_at = known_maxima(device, flops.by_dtype)
    return replace(
        block,
        flops=flops.flops,
        flops_by_dtype=flops.by_dtype,
        flops_by_op=counted.by_op,
        flops_source=flops.source,
        tf32=tf32.matmul if device.type == "cuda" else None,
        peak_tflops=peaks,
        mamf_tflops=maxima,
        mamf_source=found_at,
        notes=(*thread_notes(watch), *peak_notes),
    )


def _cpu_peaks(
    dtypes: Iterable[str], coordinator: Coordinator
) -> tuple[dict[str, float], tuple[str, ...]]:
    """The measured peaks of those of `dtypes` that have one, and why others have none.

    The ranks take turns: one measures with the threads that each of them has, while the others
    leave it the machine, and they read what it found. A machine too busy for the first is not
    tried again by each of the others.
    """
    from pytest_gpuperf.recording.cpu_peak import Search, measured_cpu_peak

    peaks: dict[str, float] = {}
    notes: list[str] = []
    search: Search = "better"
    for turn in range(coordinator.world_size):
        for dtype in dtypes if turn == coordinator.rank else ():
            try:
                peaks[dtype] = measured_cpu_peak(dtype, search=search)
            except RecordingError as error:  # noqa: PERF203 - each dtype stands on its own
                notes.append(str(error))
        if turn == 0:
            search = "missing" if coordinator.agree(not notes) else "never"
        coordinator.barrier()
    return peaks, tuple(notes)


def with_peaks_again(block: LiveBlock, coordinator: Coordinator) -> LiveBlock:
    """`block` with its CPU's peaks measured once more where its own samples reached more.

    A workload above the peak shows that the peak was found while the cores ran slower or were
    shared. Ranks keep theirs: all of them would have to stop for one's search.
    """
    peaks = block.peak_tflops
    known = all(peaks.get(dtype) for dtype in block.flops_by_dtype)
    if not (peaks and known and block.samples_us) or coordinator.world_size > 1:
        return block
    ideal_us = sum(flops / (peaks[dtype] * 1e6) for dtype, flops in block.flops_by_dtype.items())
    if ideal_us <= median(block.samples_us):
        return block
    from pytest_gpuperf.recording.cpu_peak import measured_cpu_peak

    again = {dtype: measured_cpu_peak(dtype, search="again") for dtype in peaks}
    return replace(block, peak_tflops=again)


def declared_over_counted(options: Options, counted: FlopCount) -> FlopCount:
    """The FLOP to judge by: declared ones stand over counted ones.

    Declared FLOP are of the dtype declared with them, else of the only dtype counted, else of
    none that is known.
    """
    if options.flops is None:
        return counted
    flops = round(options.flops)
    dtype = options.dtype or (next(iter(counted.by_dtype)) if len(counted.by_dtype) == 1 else None)
    return FlopCount(flops, {dtype: flops} if dtype else {}, "declared")
