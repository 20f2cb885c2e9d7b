"""One measurement on this process's device: record, read the trace back, analyze, judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from gpuperf_analyzers.metrics import MEMORY_LIMITS, TELEMETRY
from pytest_gpuperf.session.baseline import Baselines
from pytest_gpuperf.session.ddp_joined import torchrun_place
from pytest_gpuperf.session.decided import samples_decide, trace_decides
from pytest_gpuperf.session.device_lock import device_lock
from pytest_gpuperf.session.judging import RegionLimits, measurement_of, parse_region_limits
from pytest_gpuperf.session.places import make_folder

if TYPE_CHECKING:
    import torch

    from gpuperf_analyzers.config import Config
    from pytest_gpuperf.recording import Options
    from pytest_gpuperf.session.declaration import Declaration
    from pytest_gpuperf.session.measurement import Measurement

T = TypeVar("T")

_WAITED_S = 0.5
_TREND_STEPS = 12
"""Steps whose levels of memory make a trend: its interval is narrow where it is one."""
_COUNTERS_S = 1.5
"""How long the workload is looped for limits on counters: drivers average over up to a second."""


@dataclass(frozen=True, slots=True)
class Request:
    """What one call of the fixture asks for.

    Attributes
    ----------
    name
        Name of the measurement.
    declaration
        What the test declares, with this call's own items.
    device
        Where to measure.
    folder
        Where its traces go.
    config
        The resolved hookspecs.
    region_limits
        Limits of the regions that the test declared so far; read after the workload has run.
    test
        Node id of the test.
    stored_as
        What the measurement is called in a baseline: ``#2`` for a second one without a name.
    baselines
        Whom to ask for what earlier runs measured; None where nobody keeps any.
    notes
        What is told with the measurement.
    """

    name: str
    declaration: Declaration
    device: torch.device
    folder: Path
    config: Config
    region_limits: RegionLimits = field(default_factory=dict)
    test: str = ""
    stored_as: str = ""
    baselines: Baselines | None = None
    notes: tuple[str, ...] = ()


def _trend_asked(declaration: Declaration) -> bool:
    limits = declaration.limits
    return declaration.breakdown or any(limit.metric == "memory_growth" for limit in limits)


def recording_options(declaration: Declaration) -> Options:
    """How the recording is to measure what `declaration` asks for."""
    from pytest_gpuperf.recording import Options
    from pytest_gpuperf.recording.turns import TIME_SHARE, WARMUP_SHARE, turns

    d = declaration
    in_turns = turns() is not None
    counted = any(limit.metric in TELEMETRY for limit in d.limits)
    return Options(
        warmup_s=d.warmup_s * (WARMUP_SHARE if in_turns else 1.0),
        max_time_s=d.max_time_s * (TIME_SHARE if in_turns else 1.0),
        steps=d.steps,
        timer=d.timer,
        l2=d.l2,
        flops=d.flops,
        dtype=d.dtype,
        bytes=d.bytes,
        items=d.items,
        items_unit=d.items_unit,
        counters_s=_COUNTERS_S if counted else 0.0,
        dcgm_url=d.dcgm_url,
        estimate=d.estimate,
        breakdown=d.breakdown or any(limit.metric in MEMORY_LIMITS for limit in d.limits),
        trend_steps=_TREND_STEPS if _trend_asked(d) else 0,
    )


def make_trace_folder(folder: Path) -> None:
    """Make the folder of a measurement's traces.

    Raises
    ------
    RecordingError
        It cannot be made.
    """
    from pytest_gpuperf.recording import RecordingError

    try:
        make_folder(folder)
    except OSError as error:
        raise RecordingError(
            f"gpuperf: no trace can be written to {folder} ({error.strerror}): "
            "--gpuperf-dir chooses another folder"
        ) from error


def trace_name() -> str:
    """The trace's name: each rank of a surrounding torchrun measures, and writes, its own."""
    place = torchrun_place()
    return f"rank{place.rank if place else 0}.pt.trace.json.gz"


def waiting_notes(waited_s: float) -> tuple[str, ...]:
    """A note where another measurement of ours had the device first."""
    if waited_s < _WAITED_S:
        return ()
    return (f"waited {waited_s:.1f} s for another measurement to leave the device",)


def measure(
    fn: Callable[[], T],
    setup: Callable[[], object] | None,
    teardown: Callable[[], object] | None,
    request: Request,
) -> tuple[T, Measurement]:
    """What the first call of `fn` returned, and what was measured.

    Raises
    ------
    RecordingError
        The workload cannot be measured here.
    Exception
        Whatever the workload raises.
    """
    from gpuperf_analyzers.analysis import analyze
    from gpuperf_analyzers.trace import read_trace
    from pytest_gpuperf.recording import record
    from pytest_gpuperf.recording.turns import turns

    make_trace_folder(request.folder)
    in_turns = turns()
    if in_turns is not None:
        in_turns.enter()
    asked = perf_counter()
    # Of two processes that take turns the first holds the device for both.
    shared = in_turns is not None and not in_turns.first
    with nullcontext() if shared else device_lock([request.device]):
        waited_s = perf_counter() - asked
        recorded = record(
            fn,
            device=request.device,
            options=recording_options(request.declaration),
            trace_path=request.folder / trace_name(),
            name=request.name,
            setup=setup,
            teardown=teardown,
            decided=samples_decide(request.declaration.limits, request.config.peaks),
            enough=trace_decides(
                request.declaration.limits, request.declaration.steps, request.region_limits
            ),
            config=request.config,
        )
        # Analyzing takes the CPU, so it is part of what others must wait for.
        trace = read_trace(recorded.trace_path)
        analysis = analyze(trace, request.config)
    regions: Mapping[str, Any] = {
        **parse_region_limits(recorded.region_limits, request.config.metrics),
        **request.region_limits,
    }
    measurement = measurement_of(
        analysis,
        blocks=(recorded.block,),
        traces=(trace,),
        config=request.config,
        declaration=request.declaration,
        region_limits=regions,
        notes=(*request.notes, *waiting_notes(waited_s)),
        test=request.test,
        stored_as=request.stored_as,
        baselines=request.baselines,
    )
    return recorded.value, measurement
