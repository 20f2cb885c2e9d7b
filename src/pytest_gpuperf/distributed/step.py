"""One step on several ranks, measured outside a test: ``gpuperf.ddp`` without a limit."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

    from gpuperf_analyzers.set_analysis import SetAnalysis
    from gpuperf_analyzers.trace.model import TraceSet
    from pytest_gpuperf.recording import Options
    from pytest_gpuperf.session.ddp import DdpOutcome

Backend = Literal["auto", "gloo", "nccl"]
MakeStep = Callable[[int, int], Callable[[], object]]

STEPS = 10
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """A step of several ranks: how it ran, its traces, and what the analyzers say of them.

    ``outcome.trace_paths`` are the traces' files, rank 0's first; they are gone where no folder
    for them was given.
    """

    outcome: DdpOutcome
    traces: TraceSet
    analysis: SetAnalysis


def measure_step(
    make_step: MakeStep,
    world_size: int = 2,
    *,
    backend: Backend = "auto",
    device: str | torch.device | None = None,
    steps: int = STEPS,
    options: Options | None = None,
    folder: Path | str | None = None,
    stem: str = "ddp",
    timeout_s: float = TIMEOUT_S,
) -> MeasuredStep | None:
    """Measure ``make_step(rank, world_size)()`` on `world_size` ranks, and analyze their traces.

    Parameters
    ----------
    make_step
        A function at module level, or a ``functools.partial`` of one.
    world_size, backend
        As for ``gpuperf.ddp``.
    device
        ``cpu`` or a CUDA device; what is here where not given.
    steps
        Profiled steps, which the traces hold.
    options
        How to measure, `steps` included, where the defaults do not suit.
    folder, stem
        The traces become ``<folder>/<stem>.rank<r>.pt.trace.json.gz``.
    timeout_s
        Time limit of the ranks in seconds, their start included.

    Returns
    -------
    MeasuredStep or None
        None on the other ranks of a surrounding torchrun: rank 0 has the result.

    Raises
    ------
    ValueError
        `make_step` cannot be loaded by another process, or the ranks asked for cannot be had.
    RankFailure
        A rank raised, was killed or hung; the message names it.
    """
    from gpuperf_analyzers.registry import load_config
    from gpuperf_analyzers.set_analysis import analyze_set
    from gpuperf_analyzers.trace import read_traces
    from pytest_gpuperf.recording import Options, resolve_device
    from pytest_gpuperf.session.ddp import measure_ddp
    from pytest_gpuperf.session.device_lock import device_lock, rank_devices

    place = resolve_device(None if device is None else str(device))
    config = load_config()
    with tempfile.TemporaryDirectory(prefix="gpuperf-") as scratch:
        with device_lock(rank_devices(place, world_size)):
            outcome = measure_ddp(
                make_step,
                world_size,
                backend=backend,
                options=options or Options(steps=steps, measure_peak=False),
                device=place,
                trace_dir=Path(folder or scratch),
                stem=stem,
                timeout_s=timeout_s,
                name=stem,
                config=config,
            )
            if not outcome.reporter:
                return None
            traces = read_traces(list(outcome.trace_paths))
        return MeasuredStep(outcome, traces, analyze_set(traces, config))
