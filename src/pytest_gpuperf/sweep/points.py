"""One point: its processes launched, watched and ended, and what became of it."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.ranks import LaunchError, RankOutcome, State, Target, launch
from pytest_gpuperf.sweep.child import REFUSED, run_rank
from pytest_gpuperf.sweep.failure import (
    CRASH,
    NOT_RUN,
    last_words,
    one_line,
    oom_kills,
    why_failed,
)
from pytest_gpuperf.sweep.grid import WORLD_SIZE
from pytest_gpuperf.sweep.target import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gpuperf.session.ddp_plan import Plan

MEASURED = "measured"
METRICS = ("step_time", "throughput", "tflops", "mfu", "peak_memory", "overlap", "first_call")
"""What is kept of a point, of the worst rank."""
_one_at_a_time = threading.Lock()
"""Held by the thread of this process that runs a point: threads of a Dask worker take turns."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How every point is run.

    Attributes
    ----------
    device
        ``cpu``, ``cuda`` or ``cuda:N``.
    timeout_s
        Time limit of a point, s, the start of its processes included.
    memory_limit
        Bytes that a process of a point may take beyond what torch's import took; of a GPU, bytes
        of its caching allocator. None for no limit.
    warmup_s, max_time_s, steps, min_samples, measure_peak
        As in :class:`pytest_gpuperf.recording.Options`.
    items
        Axes and numbers whose product is what one step handles; () where nothing is counted.
    backend
        ``auto``, ``gloo`` or ``nccl``, of points with several ranks.
    launcher
        Command that starts the ranks of such a point, as torchrun or srun; () for our own.
    """

    device: str
    timeout_s: float = 300.0
    memory_limit: int | None = None
    warmup_s: float = 0.5
    max_time_s: float = 2.0
    steps: int = 3
    min_samples: int = 6
    measure_peak: bool = False
    items: tuple[str, ...] = ()
    backend: str = "auto"
    launcher: tuple[str, ...] = ()

    def options(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Keywords of the recording's options at the point `values`."""
        items = 1.0
        for factor in self.items:
            items *= float(values.get(factor, factor))
        return {
            "warmup_s": self.warmup_s,
            "max_time_s": self.max_time_s,
            "steps": self.steps,
            "min_samples": self.min_samples,
            "measure_peak": self.measure_peak,
            "items": items if self.items else None,
        }


@dataclass(frozen=True, slots=True)
class PointResult:
    """What became of one point.

    Attributes
    ----------
    index
        Its place in the grid.
    values
        Its setting on each axis.
    status
        ``measured``, ``out of memory``, ``hang``, ``crash`` or ``not run``.
    detail
        Why it has no numbers, in one line; "" where it has.
    stack
        Stack or traceback of the process that failed.
    metrics
        :data:`METRICS`, each with value, unit, interval, n, and the reason where it is absent.
    took_s
        Wall time of the point.
    host, device, environment
        Where it ran.
    notes
        Conditions of its measurement.
    """

    index: int
    values: dict[str, Any]
    status: str
    detail: str = ""
    stack: str = ""
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    took_s: float = 0.0
    host: str = ""
    device: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON types."""
        return asdict(self)

    def number(self, metric: str) -> float | None:
        """The value of a metric; None where it is absent."""
        found = self.metrics.get(metric, {}).get("value")
        return None if found is None else float(found)


class RefusedError(Exception):
    """No point of this sweep can be run: one line with the reason."""


def run_point(
    target: Target,
    sha256: str,
    index: int,
    values: dict[str, Any],
    settings: Settings,
    started: Callable[[int], None] = lambda _: None,
) -> PointResult:
    """Run one point to its end, whichever that is.

    Parameters
    ----------
    target, sha256
        The user's function, and the fingerprint of its file as the sweep began.
    index, values
        Which point.
    settings
        How.
    started
        Told the id of the process above the point's.

    Raises
    ------
    RefusedError
        The function's file is not here or has changed, or the function cannot be used.
    """
    if fingerprint(target) != sha256:
        raise RefusedError(
            f"{target.path} on {socket.gethostname()} is not the file that the sweep began with: "
            "put it back, or begin a new sweep"
        )
    begin = perf_counter()
    point = PointResult(index, values, CRASH, host=socket.gethostname())
    with _one_at_a_time:
        try:
            found = _measured(target, values, settings, started)
        except LaunchError as error:
            found = {"detail": one_line(str(error))}
    return PointResult(**{**point.to_json(), **found, "took_s": perf_counter() - begin})


def _measured(
    target: Target,
    values: dict[str, Any],
    settings: Settings,
    started: Callable[[int], None],
) -> dict[str, Any]:
    """Fields of the point's result."""
    from pytest_gpuperf.recording import RecordingError, resolve_device
    from pytest_gpuperf.session.ddp_plan import check_startable, plan_ranks
    from pytest_gpuperf.session.device_lock import device_lock, rank_devices

    world_size = int(values.get(WORLD_SIZE, 1))
    kills = oom_kills()
    if settings.launcher:
        with _folder() as folder:
            return _by_launcher(target, values, settings, folder, started)
    try:
        device = resolve_device(settings.device)
        check_startable(world_size)
        plan = plan_ranks(settings.backend, str(device), world_size)
        if plan.device_type != device.type:  # its time would stand among those of GPUs
            return {"status": NOT_RUN, "detail": one_line("; ".join(plan.notes))}
        # The folder comes last: a process that waits for the device may be killed meanwhile.
        with device_lock(rank_devices(device, world_size)), _folder() as folder:
            outcomes = _launched(target, values, settings, folder, plan, started)
            return _judged(outcomes, plan, settings, kills)
    except (RecordingError, ValueError) as error:
        return {"status": NOT_RUN, "detail": one_line(str(error).removeprefix("gpuperf.ddp: "))}


def _judged(
    outcomes: list[RankOutcome], plan: Plan, settings: Settings, kills: int | None
) -> dict[str, Any]:
    """Fields of the result of a point whose ranks have ended."""
    from gpuperf_analyzers.trace.model import TraceError

    refused = next((o.value[REFUSED] for o in outcomes if REFUSED in (o.value or {})), None)
    if refused is not None:
        raise RefusedError(one_line(refused))
    if any(o.state is not State.DONE for o in outcomes):
        status, detail, stack = why_failed(outcomes, settings.timeout_s, kills)
        return {"status": status, "detail": detail, "stack": stack}
    try:
        found = numbers([Path(o.value["trace"]) for o in outcomes])
    except TraceError as error:
        return {"detail": one_line(f"its trace cannot be read: {error}")}
    notes = dict.fromkeys([*plan.notes, *outcomes[0].value["notes"], *found["notes"]])
    return {**found, "notes": list(notes)}


def _by_launcher(
    target: Target,
    values: dict[str, Any],
    settings: Settings,
    folder: Path,
    started: Callable[[int], None],
) -> dict[str, Any]:
    """Fields of the result of a point whose ranks the user's launcher starts."""
    from pytest_gpuperf.sweep.launched import OVERTIME_S, run_launcher

    request = {
        "target": target.to_json(),
        "values": {k: v for k, v in values.items() if k != WORLD_SIZE},
        "world_size": values[WORLD_SIZE],
        "device": settings.device,
        "backend": settings.backend,
        "memory_limit": settings.memory_limit,
        "options": settings.options(values),
        "timeout_s": settings.timeout_s,
    }
    limit_s = settings.timeout_s + OVERTIME_S
    (outcome,) = launch(
        Target.of(run_launcher),
        1,
        payload={"request": request, "command": list(settings.launcher)},
        timeout_s=limit_s,
        workdir=folder,
        alone=True,
        started=started,
    )
    if outcome.state is not State.DONE:
        status, detail, stack = why_failed([outcome], limit_s, None)
        return {"status": status, "detail": detail, "stack": stack}
    found: dict[str, Any] = outcome.value
    if REFUSED in found:
        raise RefusedError(one_line(found[REFUSED]))
    last = last_words(outcome.output)
    if found["status"] == CRASH and not found.get("stack") and last:
        found["detail"] = one_line(f"{found['detail']}; its last output: {last}")
    return found


def _launched(
    target: Target,
    values: dict[str, Any],
    settings: Settings,
    folder: Path,
    plan: Plan,
    started: Callable[[int], None],
) -> list[RankOutcome]:
    from pytest_gpuperf.session.ddp import group_payload
    from pytest_gpuperf.session.ddp_plan import rank_environment

    world_size, ranked = int(values.get(WORLD_SIZE, 1)), WORLD_SIZE in values
    payload = {
        "target": target.to_json(),
        "values": {k: v for k, v in values.items() if k != WORLD_SIZE},
        "ranked": ranked,
        "device": settings.device,
        "memory_limit": settings.memory_limit,
        "options": settings.options(values),
        **group_payload(plan, world_size),
    }
    env = rank_environment(plan, payload["threads"])
    if not ranked:  # threads are as the user's environment has them
        env = {k: v for k, v in env.items() if k == "CUDA_VISIBLE_DEVICES"}
    return launch(
        Target.of(run_rank),
        world_size,
        payload=payload,
        timeout_s=settings.timeout_s,
        workdir=folder,
        env=env,
        alone=not ranked,
        started=started,
    )


def numbers(traces: Sequence[Path]) -> dict[str, Any]:
    """Status, metrics and place of a point whose ranks left `traces`."""
    from gpuperf_analyzers.combining import value_json
    from gpuperf_analyzers.metrics import absent
    from gpuperf_analyzers.registry import load_config
    from gpuperf_analyzers.set_analysis import analyze_set
    from gpuperf_analyzers.trace import read_traces

    found = analyze_set(read_traces([str(path) for path in traces]), load_config())
    metrics = {}
    for name in METRICS:
        value = found.values[name]
        if name in found.invalid:
            value = absent(name, found.invalid[name])
        metrics[name] = value_json(value, found.metrics[name].unit)
    block = found.ranks[0].block
    return {
        "status": MEASURED,
        "metrics": metrics,
        "device": found.device_name,
        "environment": {} if block is None else dict(block.environment),
        "notes": [] if block is None else list(block.notes),
    }


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder for one launch."""
    with tempfile.TemporaryDirectory(prefix="gpuperf-point-", ignore_cleanup_errors=True) as name:
        yield Path(name)
