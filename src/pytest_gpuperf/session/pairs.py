"""Two workloads against each other: timed in turn, the ratio judged, both traces kept."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from gpuperf_analyzers.limits import Limit, LimitError, parse_limits
from pytest_gpuperf.session.decided import samples_decide, trace_decides
from pytest_gpuperf.session.declaration import Declaration, with_call
from pytest_gpuperf.session.device_lock import device_lock
from pytest_gpuperf.session.judging import measurement_of, parse_region_limits
from pytest_gpuperf.session.measuring import (
    Request,
    make_trace_folder,
    recording_options,
    trace_name,
    waiting_notes,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuperf_analyzers.live_block import LiveBlock
    from gpuperf_analyzers.metrics import Metric
    from pytest_gpuperf.session.measurement import Measurement

A = TypeVar("A")
B = TypeVar("B")

_SLOW = "slow-"
_NOT_COUNTED = "not counted: the slower of a pair"


def with_speedup(
    limits: Iterable[Limit], written: object, metrics: Mapping[str, Metric]
) -> tuple[Limit, ...]:
    """`limits` with ``min_speedup`` as `written` in place of one declared further out.

    Raises
    ------
    LimitError
        It cannot be understood.
    """
    if written is None:
        return tuple(limits)
    own = parse_limits({"min_speedup": written}, metrics)
    kept = (limit for limit in limits if limit.keyword != "min_speedup")
    return (*kept, *own)


def measure_pair(
    pair: tuple[Callable[[], A], Callable[[], B]],
    setup: Callable[[], object] | None,
    teardown: Callable[[], object] | None,
    request: Request,
) -> tuple[tuple[A, B], Measurement]:
    """What the first calls returned, and what was measured of the first of `pair`.

    Its speedup over the second is among the values; there is a trace of each, in this order.

    Raises
    ------
    RecordingError
        The workloads cannot be measured here.
    Exception
        Whatever they raise.
    """
    from gpuperf_analyzers.analysis import analyze
    from gpuperf_analyzers.trace import read_trace
    from pytest_gpuperf.recording import record
    from pytest_gpuperf.recording.paired import Beside
    from pytest_gpuperf.recording.sampling import Workload

    fast, slow = pair
    make_trace_folder(request.folder)
    beside = Beside(Workload(slow, setup, teardown))
    limits, steps = request.declaration.limits, request.declaration.steps
    asked = perf_counter()
    with device_lock([request.device]):
        waited_s = perf_counter() - asked
        recorded = record(
            fast,
            device=request.device,
            options=recording_options(request.declaration),
            trace_path=request.folder / trace_name(),
            name=request.name,
            setup=setup,
            teardown=teardown,
            beside=beside,
            decided=samples_decide(limits, request.config.peaks),
            enough=trace_decides(limits, steps, request.region_limits),
            config=request.config,
        )
        slow_trace = request.folder / f"{_SLOW}{trace_name()}"
        _profile(beside.workload, slow_trace, recorded.block, request)
        trace = read_trace(recorded.trace_path)
        analysis = analyze(trace, request.config)
    measurement = measurement_of(
        analysis,
        blocks=(recorded.block,),
        traces=(trace,),
        config=request.config,
        declaration=request.declaration,
        region_limits={
            **parse_region_limits(recorded.region_limits, request.config.metrics),
            **request.region_limits,
        },
        test=request.test,
        stored_as=request.stored_as,
        baselines=request.baselines,
        notes=(*request.notes, _beside_note(recorded.block), *waiting_notes(waited_s)),
    )
    traces = (*measurement.traces, slow_trace)
    value: A = recorded.value
    other: B = beside.value  # type: ignore[assignment]
    return (value, other), replace(measurement, traces=traces)


def _profile(workload: object, path: Path, fast: LiveBlock, request: Request) -> None:
    """Write the trace of the slower one, its samples inside: it explains what the ratio is of."""
    from gpuperf_analyzers.live_block import LiveBlock
    from pytest_gpuperf.recording.coordination import SOLO
    from pytest_gpuperf.recording.passes import Passes

    block = LiveBlock(
        name=f"{_SLOW}{fast.name}".rstrip("-"),
        device=fast.device,
        device_type=fast.device_type,
        timer=fast.timer,
        samples_us=fast.beside_us,
        stop=fast.stop,
        flops_source=_NOT_COUNTED,
    )
    options = recording_options(request.declaration)
    passes = Passes(workload, request.device, path, SOLO)  # type: ignore[arg-type]
    passes.until(None, block, options, request.config)


def _beside_note(block: LiveBlock) -> str:
    from gpuperf_analyzers.display import show
    from gpuperf_analyzers.stats import median

    return (
        f"timed in turn with another callable of {show(median(block.beside_us), 'us')}: the values "
        "are those of the first"
    )


def ratio(
    fast: Callable[[], object],
    slow: Callable[[], object],
    *,
    min_speedup: float | str | Mapping[str, float | str] | None = None,
    device: str | None = None,
    setup: Callable[[], object] | None = None,
    teardown: Callable[[], object] | None = None,
    warmup: str | None = None,
    max_time: str | None = None,
    steps: int | None = None,
) -> Measurement:
    """How many times as fast `fast` is as `slow`, both timed in turn in one run; without pytest.

    Parameters
    ----------
    fast, slow
        Callables without arguments, or workloads of :mod:`pytest_gpuperf.workloads`.
    min_speedup
        What the result's verdict is by: ``2``, ``"2x"``, or a mapping by device.
    device
        ``cpu`` or ``cuda:0``; None takes the first GPU, or the CPU.
    setup, teardown
        Called before and after each call of either, outside the timed part.
    warmup, max_time, steps
        As in the marker.

    Returns
    -------
    Measurement
        ``["speedup"]`` is the median of the pairs' ratios slow / fast with its 95% interval;
        ``verdict`` is None without `min_speedup`. Its traces are gone.

    Raises
    ------
    ValueError
        A keyword cannot be understood.
    RecordingError
        It cannot be measured here.
    """
    from gpuperf_analyzers.registry import load_config
    from pytest_gpuperf.recording import RecordingError, resolve_device
    from pytest_gpuperf.session.ready import ready

    config, where = load_config(), resolve_device(device)
    written = {"warmup": warmup, "max_time": max_time, "steps": steps}
    declaration = with_call(Declaration(), written)
    limits = with_speedup((), min_speedup, config.metrics)
    first, second = ready(fast, lambda: where), ready(slow, lambda: where)
    if first.untimed or second.untimed:
        raise RecordingError(f"gpuperf: {first.untimed or second.untimed}")
    with tempfile.TemporaryDirectory(prefix="gpuperf-") as folder:
        request = Request(
            name="",
            declaration=replace(with_call(declaration, first.declared), limits=limits),
            device=where,
            folder=Path(folder) / "0",
            config=config,
            notes=first.notes,
        )
        _, measurement = measure_pair((first.step, second.step), setup, teardown, request)
    return replace(measurement, traces=())


__all__ = ["LimitError", "measure_pair", "ratio", "with_speedup"]
