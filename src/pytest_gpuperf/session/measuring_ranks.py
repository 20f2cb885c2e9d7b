"""One measurement on several ranks: launch, read the set of traces back, analyze, judge."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Literal

from pytest_gpuperf.session.decided import samples_decide, trace_decides
from pytest_gpuperf.session.device_lock import device_lock, rank_devices
from pytest_gpuperf.session.judging import measurement_of, parse_region_limits
from pytest_gpuperf.session.measurement import Measurement
from pytest_gpuperf.session.measuring import Request, make_trace_folder, recording_options

Backend = Literal["auto", "gloo", "nccl"]
MakeStep = Callable[[int, int], Callable[[], object]]


def measure_ranks(
    make_step: MakeStep, world_size: int, backend: Backend, request: Request
) -> Measurement:
    """Measure ``make_step(rank, world_size)()`` on every rank, and judge the set.

    Raises
    ------
    ValueError
        `make_step` cannot be loaded by another process, or the ranks asked for cannot be had.
    RankFailure
        A rank raised, was killed or hung; the message names it.
    """
    from gpuperf_analyzers.set_analysis import analyze_set
    from gpuperf_analyzers.trace import read_traces
    from pytest_gpuperf.recording.turns import whole_turn
    from pytest_gpuperf.session.ddp import measure_ddp

    declaration = request.declaration
    make_trace_folder(request.folder)
    devices = rank_devices(request.device, world_size)
    with whole_turn() as shared, nullcontext() if shared else device_lock(devices):
        outcome = measure_ddp(
            make_step,
            world_size,
            backend=backend,
            options=recording_options(declaration),
            device=request.device,
            trace_dir=request.folder,
            stem="ddp",
            timeout_s=declaration.timeout_s,
            name=request.name,
            decided=samples_decide(declaration.limits, request.config.peaks),
            enough=trace_decides(declaration.limits, declaration.steps),
            config=request.config,
        )
        if not outcome.reporter:
            note = "one rank of a surrounding torchrun: rank 0 judges and tells the result"
            return Measurement(name=request.name, world_size=world_size, notes=(note,))
        traces = read_traces(list(outcome.trace_paths))
        analysis = analyze_set(traces, request.config)
    return measurement_of(
        analysis,
        blocks=outcome.blocks,
        traces=traces.traces,
        config=request.config,
        declaration=declaration,
        region_limits={
            **parse_region_limits(outcome.region_limits, request.config.metrics),
            **request.region_limits,
        },
        notes=outcome.notes,
        test=request.test,
        stored_as=request.stored_as,
        baselines=request.baselines,
    )


def run_ranks_once(
    make_step: MakeStep, world_size: int, backend: Backend, request: Request
) -> None:
    """Call ``make_step(rank, world_size)()`` once on every rank, unmeasured.

    Raises
    ------
    ValueError, RankFailure
        As for :func:`measure_ranks`.
    """
    from pytest_gpuperf.session.ddp import run_ddp_once

    run_ddp_once(
        make_step,
        world_size,
        backend=backend,
        device=request.device,
        workdir=request.folder,
        timeout_s=request.declaration.timeout_s,
    )
