"""One workload on several ranks: launched, measured, one trace a rank.

Knows how a set of ranks is started and gathered; what one rank does is ``ddp_child``, where it
runs ``ddp_plan``, what a failure says ``ddp_failure``.
"""

from __future__ import annotations

import base64
import inspect
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpuperf_analyzers.live_block import LiveBlock, parse_live_block
from pytest_gpuperf.ranks import LaunchError, RankContext, RankOutcome, State, Target, launch
from pytest_gpuperf.session.ddp_child import measure_rank, run_rank_once
from pytest_gpuperf.session.ddp_failure import RankFailure, failure_of
from pytest_gpuperf.session.ddp_joined import (
    Place,
    record_joined,
    run_once_joined,
    torchrun_place,
)
from pytest_gpuperf.session.ddp_plan import (
    Plan,
    check_startable,
    plan_ranks,
    rank_environment,
    threads_per_rank,
)
from pytest_gpuperf.session.rank_config import modules_payload

if TYPE_CHECKING:
    import torch

    from gpuperf_analyzers.config import Config
    from pytest_gpuperf.recording import Options
    from pytest_gpuperf.recording.passes import Enough
    from pytest_gpuperf.recording.recorder import Decided

Backend = Literal["auto", "gloo", "nccl"]
MakeStep = Callable[[int, int], Callable[[], object]]

TRACE_SUFFIX = ".pt.trace.json.gz"


@dataclass(frozen=True, slots=True)
class DdpOutcome:
    """What a set of ranks left when all of them came through.

    Attributes
    ----------
    world_size
        Number of ranks.
    backend
        ``gloo`` or ``nccl``: what ran, not what was asked for.
    device_type
        ``cpu`` or ``cuda``: where the ranks ran.
    trace_paths
        One trace a rank, in the order of ranks.
    blocks
        The live block of each rank, in the order of ranks; the traces hold the same.
    region_limits
        Limits that the step declared on its regions on rank 0, by region.
    notes
        What the user should be told about how this was run.
    output
        What rank 0 wrote to stdout and stderr.
    reporter
        Whether this process tells the result. False only for the other ranks of a surrounding
        torchrun, where every rank runs the test.
    """

    world_size: int
    backend: str
    device_type: str
    trace_paths: tuple[Path, ...]
    blocks: tuple[LiveBlock, ...]
    region_limits: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    output: str = ""
    reporter: bool = True


def measure_ddp(
    make_step: MakeStep,
    world_size: int,
    *,
    backend: Backend = "auto",
    options: Options,
    device: torch.device | str,
    trace_dir: Path,
    stem: str,
    timeout_s: float,
    name: str = "",
    decided: Decided | None = None,
    enough: Enough | None = None,
    config: Config | None = None,
) -> DdpOutcome:
    """Measure ``make_step(rank, world_size)()`` on `world_size` ranks, a process each.

    Parameters
    ----------
    make_step
        A function at module level, or a ``functools.partial`` of one with arguments that can be
        pickled; each rank's process loads it by its file and its name.
    world_size
        Number of ranks.
    backend
        ``nccl`` on GPUs, ``gloo`` otherwise; ``auto`` takes what `device` and the number of
        GPUs allow.
    options
        How each rank is measured.
    device
        ``cpu`` or a CUDA device; with NCCL rank r runs on ``cuda:r``.
    trace_dir, stem
        Traces are ``<trace_dir>/<stem>.rank<r>.pt.trace.json.gz``. They appear all at once when
        every rank has come through, and those of an earlier run under this stem go first.
    timeout_s
        Time limit of the whole set, s, start of the processes included.
    name
        Name of the measurement.
    decided
        Whether the samples so far (µs per step) decide every limit; picklable, asked on rank 0.
    enough
        Whether a rank's trace decides every limit on it; picklable, asked on every rank.
    config
        The hookspecs here; the ranks load the installed plugins and the modules it names.

    Raises
    ------
    ValueError
        `make_step` cannot be loaded by another process, or the ranks asked for cannot be had.
    RankFailure
        A rank raised, was killed, left early or hung; the message names it.
    """
    prepared = prepare(make_step, world_size, backend, device)
    plan, place = prepared.plan, prepared.place
    trace_dir.mkdir(parents=True, exist_ok=True)
    if place is None or place.rank == 0:
        for stale in trace_dir.glob(f"{escape(stem)}.rank*"):
            stale.unlink()
    paths = tuple(trace_dir / f"{stem}.rank{rank}{TRACE_SUFFIX}" for rank in range(world_size))
    if place is not None:
        outcomes = record_joined(
            make_step,
            place,
            backend=plan.backend,
            device_type=plan.device_type,
            options=options,
            paths=paths,
            timeout_s=timeout_s,
            name=name,
            decided=decided,
            enough=enough,
            config=config,
        )
    else:
        payload = {
            **rank_payload(prepared, world_size),
            "name": name,
            "options": pickled("options", options),
            "decided": pickled("decided", decided),
            "enough": pickled("enough", enough),
            "modules": modules_payload(config),
        }
        outcomes = _record_launched(payload, plan, paths, timeout_s, trace_dir / stem)
    return DdpOutcome(
        world_size=world_size,
        backend=plan.backend,
        device_type=plan.device_type,
        trace_paths=paths,
        blocks=tuple(parse_live_block(o.value["block"]) for o in outcomes),
        region_limits=outcomes[0].value["region_limits"],
        notes=(*plan.notes, *outcomes[0].value.get("notes", ())),
        output=outcomes[0].output,
        reporter=place is None or place.rank == 0,
    )


def _record_launched(
    payload: dict[str, Any], plan: Plan, paths: Sequence[Path], timeout_s: float, place: Path
) -> list[RankOutcome]:
    """Measure in processes of our own, a rank for each of `paths`, where its trace goes."""
    with launch_folder(place.parent) as folder:
        outcomes = launched(measure_rank, payload, plan, len(paths), folder, timeout_s, place)
        for outcome, path in zip(outcomes, paths, strict=True):
            Path(outcome.value["trace"]).replace(path)
    return outcomes


def run_ddp_once(
    make_step: MakeStep,
    world_size: int,
    *,
    backend: Backend = "auto",
    device: torch.device | str,
    workdir: Path,
    timeout_s: float,
) -> None:
    """Call ``make_step(rank, world_size)()`` once on each of `world_size` ranks, unmeasured.

    Parameters
    ----------
    make_step, world_size, backend, device, timeout_s
        As for :func:`measure_ddp`.
    workdir
        Where the stacks of ranks that hang are left; nothing else is.

    Raises
    ------
    ValueError, RankFailure
        As for :func:`measure_ddp`.
    """
    prepared = prepare(make_step, world_size, backend, device)
    plan, place = prepared.plan, prepared.place
    if place is not None:
        run_once_joined(
            make_step,
            place,
            backend=plan.backend,
            device_type=plan.device_type,
            timeout_s=timeout_s,
        )
        return
    workdir.mkdir(parents=True, exist_ok=True)
    payload = rank_payload(prepared, world_size)
    with launch_folder(workdir) as folder:
        launched(run_rank_once, payload, plan, world_size, folder, timeout_s, workdir / "ddp")


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is to run on the ranks, where, and inside which torchrun."""

    target: Target
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    """What a ``functools.partial`` binds of it."""
    plan: Plan
    place: Place | None


def prepare(
    make_step: MakeStep, world_size: int, backend: str, device: torch.device | str
) -> Prepared:
    """What to run, where, and inside which torchrun; ValueError where it cannot be had."""
    function, arguments = unbound(make_step)
    target = Target.of(function, role="gpuperf.ddp: make_step")
    _check_arguments(make_step, function.__name__)
    plan, place = place_ranks(world_size, backend, device)
    return Prepared(target, arguments, plan, place)


def unbound(
    make_step: Callable[..., Any],
) -> tuple[Callable[..., Any], tuple[tuple[Any, ...], dict[str, Any]]]:
    """The function itself, which ranks find by its name, and what a partial of it binds."""
    if isinstance(make_step, partial):
        return make_step.func, (make_step.args, dict(make_step.keywords))
    return make_step, ((), {})


def place_ranks(
    world_size: int, backend: str, device: torch.device | str
) -> tuple[Plan, Place | None]:
    """Where the ranks run, and inside which torchrun; ValueError where they cannot be had."""
    if isinstance(world_size, bool) or not isinstance(world_size, int) or world_size < 1:
        raise ValueError(
            f"gpuperf.ddp: world_size must be a whole number from 1, not {world_size!r}"
        )
    place = torchrun_place()
    if place is not None and place.world_size != world_size:
        raise ValueError(
            f"gpuperf.ddp: {place.launcher} started {place.world_size} ranks, the test asks for "
            f"{world_size}: start as many, or run pytest without {place.launcher}"
        )
    if place is None:
        check_startable(world_size)
    here = world_size if place is None else place.local_world_size
    return plan_ranks(backend, str(device), here), place


def _check_arguments(make_step: MakeStep, name: str) -> None:
    """ValueError where `make_step` does not take a rank and a world size; better here than there.

    What tells no signature, such as a function in C, is left for the ranks to call.
    """
    try:
        signature = inspect.signature(make_step)
    except (ValueError, TypeError):
        return
    try:
        signature.bind(0, 1)
    except TypeError as error:
        raise ValueError(
            f"gpuperf.ddp: {name}{signature} is called with a rank and the world size: {error}"
        ) from None


@contextmanager
def launch_folder(parent: Path) -> Iterator[Path]:
    """A folder for one launch; beside the traces, so that moving them there is a rename."""
    folder = Path(tempfile.mkdtemp(prefix=".ranks-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def rank_payload(prepared: Prepared, world_size: int) -> dict[str, Any]:
    """What every rank is told, whatever it does with the step."""
    return {
        "make_step": prepared.target.to_json(),
        "arguments": pickled("an argument of make_step", prepared.arguments),
        **group_payload(prepared.plan, world_size),
    }


def group_payload(plan: Plan, world_size: int) -> dict[str, Any]:
    """What every rank is told of the process group that it joins."""
    return {
        "backend": plan.backend,
        "device_type": plan.device_type,
        "gpus": plan.gpus,
        "threads": threads_per_rank(world_size),
    }


def launched(
    program: Callable[[RankContext, Mapping[str, Any]], Any],
    payload: dict[str, Any],
    plan: Plan,
    world_size: int,
    workdir: Path,
    timeout_s: float,
    stacks_stem: Path,
) -> list[RankOutcome]:
    """The outcomes of ranks that all came through `program`; RankFailure otherwise."""
    try:
        outcomes = launch(
            Target.of(program),
            world_size,
            payload=payload,
            timeout_s=timeout_s,
            workdir=workdir,
            env=rank_environment(plan, payload["threads"]),
        )
    except LaunchError as error:
        raise RankFailure(f"gpuperf.ddp: {error}") from error
    if any(o.state is not State.DONE for o in outcomes):
        raise failure_of(outcomes, timeout_s, stacks_stem=stacks_stem)
    return outcomes


def pickled(what: str, value: object) -> str:
    """`value` as text that a rank can load."""
    try:
        return base64.b64encode(pickle.dumps(value)).decode("ascii")
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(f"gpuperf.ddp: {what} cannot be sent to the ranks: {error}") from error
