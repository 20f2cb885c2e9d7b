"""One workload on several ranks: launched, measured, one trace a rank.

Knows how a set of ranks is started and gathered; what one rank does is ``ddp_child``, what a
failure says is ``ddp_failure``.
"""

from __future__ import annotations

import base64
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpuperf_analyzers.live_block import LiveBlock, parse_live_block
from pytest_gpuperf.ranks import LaunchError, RankOutcome, State, Target, launch
from pytest_gpuperf.session.ddp_child import measure_rank
from pytest_gpuperf.session.ddp_failure import RankFailure, failure_of
from pytest_gpuperf.session.ddp_joined import record_joined, torchrun_place

if TYPE_CHECKING:
    import torch

    from pytest_gpuperf.recording import Options

Backend = Literal["auto", "gloo", "nccl"]
Decided = Callable[[tuple[float, ...]], bool]

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


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the ranks run: backend, device type, GPUs here, and what to tell about it."""

    backend: str
    device_type: str
    gpus: int
    notes: tuple[str, ...] = ()


def measure_ddp(
    make_step: Callable[[int, int], Callable[[], Any]],
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
) -> DdpOutcome:
    """Measure ``make_step(rank, world_size)()`` on `world_size` ranks, a process each.

    Parameters
    ----------
    make_step
        A function at module level; each rank's process loads it by its file and its name.
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

    Raises
    ------
    ValueError
        `make_step` cannot be loaded by another process, or the ranks asked for cannot be had.
    RankFailure
        A rank raised, was killed, left early or hung; the message names it.
    """
    target = Target.of(make_step, role="gpuperf.ddp: make_step")
    if isinstance(world_size, bool) or not isinstance(world_size, int) or world_size < 1:
        raise ValueError(
            f"gpuperf.ddp: world_size must be a whole number from 1, not {world_size!r}"
        )
    plan = plan_ranks(backend, str(device), world_size)
    place = torchrun_place()
    if place is not None and place.world_size != world_size:
        raise ValueError(
            f"gpuperf.ddp: torchrun started {place.world_size} ranks, the test asks for "
            f"{world_size}: start as many, or run pytest without torchrun"
        )
    trace_dir.mkdir(parents=True, exist_ok=True)
    if place is None or place.rank == 0:
        for stale in trace_dir.glob(f"{escape(stem)}.rank*"):
            stale.unlink()
    # A peak measured by one rank while the others compute would be none.
    options = replace(options, measure_peak=False)
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
        )
    else:
        payload = {
            "make_step": target.to_json(),
            "backend": plan.backend,
            "device_type": plan.device_type,
            "gpus": plan.gpus,
            "threads": threads_per_rank(world_size),
            "name": name,
            "options": _pickled("options", options),
            "decided": _pickled("decided", decided),
        }
        outcomes = _launched(payload, plan, paths, timeout_s, stacks_stem=trace_dir / stem)
    return DdpOutcome(
        world_size=world_size,
        backend=plan.backend,
        device_type=plan.device_type,
        trace_paths=paths,
        blocks=tuple(parse_live_block(o.value["block"]) for o in outcomes),
        region_limits=outcomes[0].value["region_limits"],
        notes=plan.notes,
        output=outcomes[0].output,
        reporter=place is None or place.rank == 0,
    )


def _launched(
    payload: dict[str, Any],
    plan: Plan,
    paths: tuple[Path, ...],
    timeout_s: float,
    *,
    stacks_stem: Path,
) -> list[RankOutcome]:
    """Launch the ranks that `payload` describes; their outcomes, their traces at `paths`."""
    # Beside the traces, so that moving them there is a rename.
    workdir = Path(tempfile.mkdtemp(prefix=".ranks-", dir=stacks_stem.parent))
    try:
        outcomes = launch(
            Target.of(measure_rank),
            len(paths),
            payload=payload,
            timeout_s=timeout_s,
            workdir=workdir,
            env=_environment(plan, payload["threads"]),
        )
        if any(o.state is not State.DONE for o in outcomes):
            raise failure_of(outcomes, timeout_s, stacks_stem=stacks_stem)
        for outcome, path in zip(outcomes, paths, strict=True):
            Path(outcome.value["trace"]).replace(path)
    except LaunchError as error:
        raise RankFailure(f"gpuperf.ddp: {error}") from error
    finally:
        shutil.rmtree(workdir, ignore_errors=True)
    return outcomes


def plan_ranks(backend: str, device: str, world_size: int) -> Plan:
    """Backend and device type for `world_size` ranks of a test whose device is `device`.

    Raises
    ------
    ValueError
        Unknown backend, or NCCL asked for where there are not as many GPUs as ranks.
    """
    if backend not in ("auto", "gloo", "nccl"):
        raise ValueError(f"gpuperf.ddp: backend must be 'auto', 'gloo' or 'nccl', not {backend!r}")
    if device.partition(":")[0] != "cuda":
        if backend == "nccl":
            raise ValueError(
                f"gpuperf.ddp: backend 'nccl' needs GPUs, but this test's device is {device}"
            )
        return Plan("gloo", "cpu", 0)
    import torch

    gpus = torch.cuda.device_count()
    if backend == "nccl" and gpus < world_size:
        raise ValueError(
            f"gpuperf.ddp: backend 'nccl' needs a GPU a rank; {world_size} ranks, {gpus} GPUs here"
        )
    if gpus >= world_size:
        return Plan("gloo" if backend == "gloo" else "nccl", "cuda", gpus)
    if backend == "gloo":
        note = f"{world_size} ranks shared {gpus} GPUs"
        return Plan("gloo", "cuda", gpus, (note,))
    note = f"ran on cpu with gloo: {world_size} ranks, but {gpus} GPUs here"
    return Plan("gloo", "cpu", 0, (note,))


def threads_per_rank(world_size: int) -> int:
    """CPU threads for each of `world_size` ranks: the cores we may use, shared out, at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (cores or 1) // world_size)


def _environment(plan: Plan, threads: int) -> dict[str, str | None]:
    """What the ranks' environment has that ours has not."""
    env: dict[str, str | None] = {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "MASTER_ADDR": None,  # the ranks meet in a file
        "MASTER_PORT": None,
    }
    if sys.platform == "linux" and "GLOO_SOCKET_IFNAME" not in os.environ:
        env["GLOO_SOCKET_IFNAME"] = "lo"  # all ranks are here; a host's name need not resolve
    if plan.device_type == "cpu":
        env["CUDA_VISIBLE_DEVICES"] = ""  # make_step that asks torch sees what the ranks run on
    return env


def _pickled(what: str, value: object) -> str:
    """`value` as text that a rank can load."""
    try:
        return base64.b64encode(pickle.dumps(value)).decode("ascii")
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(f"gpuperf.ddp: {what} cannot be sent to the ranks: {error}") from error
