"""``gpuperf.ddp`` inside ``torchrun -m pytest``: the ranks are there, each runs the test.

Nothing is launched: every process joins the group of torchrun, records its own rank, and comes
back with the same outcome, so that all of them judge alike; rank 0 is the one that reports.
A rank that dies is torchrun's to tell.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.ranks import RankError, RankOutcome, State
from pytest_gpuperf.ranks.child import describe
from pytest_gpuperf.session.ddp_child import GroupCoordinator, made_step, told_errors
from pytest_gpuperf.session.ddp_failure import failure_of

if TYPE_CHECKING:
    import torch

    from gpuperf_analyzers.config import Config
    from pytest_gpuperf.recording import Options
    from pytest_gpuperf.recording.passes import Enough
    from pytest_gpuperf.recording.recorder import Decided

_GATHER_MARGIN = timedelta(minutes=5)
"""How much longer than a collective of the workload the gathering of results may wait: a rank
that waits for one that failed comes here only when its own collective has timed out."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process is among those that torchrun, or Slurm itself, started.

    ``local_rank`` and ``local_world_size`` count the ranks of this host.
    """

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    launcher: str = "torchrun"


def torchrun_place() -> Place | None:
    """Where torchrun put this process; None where there is no torchrun around it."""
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
    if "TORCHELASTIC_RUN_ID" not in os.environ or any(n not in os.environ for n in names):
        return None
    rank, local_rank, world_size = (int(os.environ[name]) for name in names)
    return Place(rank, local_rank, world_size, int(os.environ.get("LOCAL_WORLD_SIZE", world_size)))


def record_joined(
    make_step: Callable[[int, int], Any],
    place: Place,
    *,
    backend: str,
    device_type: str,
    options: Options,
    paths: Sequence[Path],
    timeout_s: float,
    name: str,
    decided: Decided | None,
    enough: Enough | None,
    config: Config | None,
) -> list[RankOutcome]:
    """Record this rank together with the others; the outcomes of all ranks, on every rank.

    Parameters
    ----------
    make_step, backend, device_type, options, timeout_s, name, decided, enough, config
        As for :func:`pytest_gpuperf.session.ddp.measure_ddp`, the backend decided on.
    place
        What :func:`torchrun_place` gave.
    paths
        The trace of each rank; they appear only when every rank has come through.

    Raises
    ------
    RankFailure
        A rank raised: on every rank, with the same message.
    """
    device, coordinator = join_place(place, backend, device_type, timeout_s)
    own = paths[place.rank]
    partial = own.with_name(f".{own.name}.{os.getpid()}.json.gz")

    def recorded() -> dict[str, Any]:
        return _recorded(
            make_step,
            coordinator,
            device,
            options=options,
            path=partial,
            name=name,
            decided=decided,
            enough=enough,
            config=config,
        )

    coordinator.barrier()  # rank 0 has removed the traces of an earlier run
    try:
        outcomes = together(recorded, coordinator, timeout_s, stacks_stem=own.parent)
        partial.replace(own)
    finally:
        partial.unlink(missing_ok=True)
    coordinator.barrier()
    return outcomes


def run_once_joined(
    make_step: Callable[[int, int], Any],
    place: Place,
    *,
    backend: str,
    device_type: str,
    timeout_s: float,
) -> None:
    """Call this rank's step once, unmeasured; parameters as for :func:`record_joined`.

    Raises
    ------
    RankFailure
        A rank raised: on every rank, with the same message.
    """
    _, coordinator = join_place(place, backend, device_type, timeout_s)

    def once() -> dict[str, Any]:
        made_step(make_step, place.rank, place.world_size)()
        return {}

    together(once, coordinator, timeout_s, stacks_stem=Path())


def join_place(
    place: Place, backend: str, device_type: str, timeout_s: float
) -> tuple[torch.device, GroupCoordinator]:
    """The device of this rank and our group, once the process is in the workload's group."""
    import torch.distributed as dist

    device = _own_device(place, device_type)
    if not dist.is_initialized():
        dist.init_process_group(backend, timeout=timedelta(seconds=timeout_s))
        # A group still alive when the interpreter ends aborts the process in its destructor.
        atexit.register(dist.destroy_process_group)
    return device, GroupCoordinator(place.rank, place.world_size, _control_group(timeout_s))


def together(
    work: Callable[[], dict[str, Any]],
    coordinator: GroupCoordinator,
    timeout_s: float,
    *,
    stacks_stem: Path,
) -> list[RankOutcome]:
    """What `work` gave on every rank, on every rank; RankFailure on all where one raised."""
    import torch.distributed as dist

    try:
        result = work()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the others must hear of it, pytest.skip too
        result = {"error": describe(error)}
    results: list[dict[str, Any]] = [{} for _ in range(coordinator.world_size)]
    dist.all_gather_object(results, result, group=coordinator.group)
    outcomes = [_outcome(rank, found) for rank, found in enumerate(results)]
    if any(o.state is not State.DONE for o in outcomes):
        raise failure_of(outcomes, timeout_s, stacks_stem=stacks_stem)
    return outcomes


def _recorded(
    make_step: Callable[[int, int], Any],
    coordinator: GroupCoordinator,
    device: torch.device,
    *,
    options: Options,
    path: Path,
    name: str,
    decided: Decided | None,
    enough: Enough | None,
    config: Config | None,
) -> dict[str, Any]:
    """The recording of our rank as JSON types."""
    from pytest_gpuperf.recording import record

    with told_errors():
        recorded = record(
            made_step(make_step, coordinator.rank, coordinator.world_size),
            device=device,
            options=options,
            trace_path=path,
            name=name,
            coordinator=coordinator,
            decided=decided,
            enough=enough,
            config=config,
        )
    limits = {region: dict(each) for region, each in recorded.region_limits.items()}
    return {"block": recorded.block.to_json(), "region_limits": limits}


def _outcome(rank: int, result: dict[str, Any]) -> RankOutcome:
    if "error" in result:
        return RankOutcome(rank, State.RAISED, error=RankError(**result["error"]))
    return RankOutcome(rank, State.DONE, value=result)


def _own_device(place: Place, device_type: str) -> torch.device:
    """The device of this rank, made the current one; torchrun has set the CPU threads."""
    import torch

    if device_type != "cuda":
        return torch.device("cpu")
    device = torch.device("cuda", place.local_rank)
    torch.cuda.set_device(device)
    return device


@cache
def _control_group(timeout_s: float) -> Any:
    """Our own gloo group beside the workload's, made once a process and time limit."""
    import torch.distributed as dist

    return dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout_s) + _GATHER_MARGIN)
