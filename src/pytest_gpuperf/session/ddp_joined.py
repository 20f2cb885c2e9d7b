"""``gpuperf.ddp`` inside ``torchrun -m pytest``: the ranks are there, each runs the test.

Nothing is launched: every process joins the group of torchrun, records its own rank, and comes
back with the same outcome, so that all of them judge alike; rank 0 is the one that reports.
A rank that dies is torchrun's to tell.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.ranks import RankOutcome, State
from pytest_gpuperf.ranks.child import describe
from pytest_gpuperf.session.ddp_child import GroupCoordinator, counted, made_step, told_errors
from pytest_gpuperf.session.ddp_exchange import Calls, Exchange, refuse_broken
from pytest_gpuperf.session.ddp_failure import failure_of
from pytest_gpuperf.session.ddp_place import Place, torchrun_place
from pytest_gpuperf.session.trace_transfer import bring_to_rank_0

if TYPE_CHECKING:
    import torch

    from gpuperf_analyzers.config import Config
    from pytest_gpuperf.recording import Options
    from pytest_gpuperf.recording.passes import Enough
    from pytest_gpuperf.recording.recorder import Decided

__all__ = ["Place", "join_place", "record_joined", "run_once_joined", "together", "torchrun_place"]


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

    calls = Calls()

    def recorded() -> dict[str, Any]:
        return _recorded(
            make_step,
            coordinator,
            calls,
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
        outcomes = together(recorded, coordinator, timeout_s, stacks_stem=own.parent, calls=calls)
        partial.replace(own)
    finally:
        partial.unlink(missing_ok=True)
    coordinator.barrier()
    bring_to_rank_0(paths, coordinator)
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
    calls = Calls()

    def once() -> dict[str, Any]:
        calls.stage("in make_step")
        counted(made_step(make_step, place.rank, place.world_size), calls)()
        return {}

    stem = Path(tempfile.gettempdir(), f"gpuperf-{os.getpid()}")
    together(once, coordinator, timeout_s, stacks_stem=stem, calls=calls)


def join_place(
    place: Place, backend: str, device_type: str, timeout_s: float
) -> tuple[torch.device, GroupCoordinator]:
    """The device of this rank and our group, once the process is in the workload's group.

    A group that is there already is used.

    Raises
    ------
    RankFailure
        An earlier measurement ended in a hang.
    """
    import torch.distributed as dist

    refuse_broken()
    device = _own_device(place, device_type)
    if not dist.is_initialized():
        limit = timedelta(seconds=timeout_s)
        if place.address:
            dist.init_process_group(
                backend,
                init_method=place.address,
                rank=place.rank,
                world_size=place.world_size,
                timeout=limit,
            )
        else:
            dist.init_process_group(backend, timeout=limit)
        # A group still alive when the interpreter ends aborts the process in its destructor.
        atexit.register(_leave)
    return device, GroupCoordinator(place.rank, place.world_size, _control_group(timeout_s))


def _leave() -> None:
    """Leave the process group, if it was not aborted."""
    import torch.distributed as dist

    with suppress(Exception):
        if dist.is_initialized():
            dist.destroy_process_group()


def together(
    work: Callable[[], dict[str, Any]],
    coordinator: GroupCoordinator,
    timeout_s: float,
    *,
    stacks_stem: Path,
    calls: Calls | None = None,
) -> list[RankOutcome]:
    """What `work` gave on every rank, on every rank; RankFailure on all where one did not do it."""
    exchange = Exchange(coordinator.rank, coordinator.world_size, timeout_s, calls or Calls())
    with exchange.watching():
        try:
            result = work()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the others must hear of it, pytest.skip too
            result = {"error": describe(error)}
        outcomes = exchange.swap(result)
    if any(o.state is not State.DONE for o in outcomes):
        raise failure_of(outcomes, timeout_s, stacks_stem=stacks_stem)
    return outcomes


def _recorded(
    make_step: Callable[[int, int], Any],
    coordinator: GroupCoordinator,
    calls: Calls,
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

    calls.stage("in make_step")
    step = made_step(make_step, coordinator.rank, coordinator.world_size)
    calls.stage("in the step")
    with told_errors():
        recorded = record(
            counted(step, calls),
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

    return dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout_s))
