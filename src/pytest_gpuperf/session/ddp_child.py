"""What one rank of ``gpuperf.ddp`` does: join the group, build the step, record it.

Runs in the rank's own process. Beside the group that the workload uses there is always a gloo
group of ours: counts are agreed and ranks are lined up on it, between the timed parts, without
touching the workload's communicator.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pytest_gpuperf.ranks import RankContext, Target, ToldError
from pytest_gpuperf.session.rank_config import rank_config

if TYPE_CHECKING:
    import torch

_MARGIN = timedelta(seconds=60)
"""A collective may wait for longer than the launch may last: the launcher says who hangs."""


@dataclass(frozen=True, slots=True)
class GroupCoordinator:
    """Ranks that agree through a process group of their own.

    Attributes
    ----------
    rank, world_size
        Which of how many.
    group
        A gloo group of all ranks.
    """

    rank: int
    world_size: int
    group: Any

    def agree(self, flag: bool, /) -> bool:
        """Rank 0's `flag`, on every rank."""
        import torch
        import torch.distributed as dist

        shared = torch.tensor([flag], dtype=torch.uint8)
        dist.broadcast(shared, src=0, group=self.group)
        return bool(shared.item())

    def any(self, flag: bool, /) -> bool:
        """Whether `flag` is true on some rank."""
        import torch
        import torch.distributed as dist

        shared = torch.tensor([flag], dtype=torch.uint8)
        dist.all_reduce(shared, op=dist.ReduceOp.MAX, group=self.group)
        return bool(shared.item())

    def barrier(self) -> None:
        """Return once every rank has called it."""
        import torch.distributed as dist

        dist.barrier(group=self.group)


def measure_rank(context: RankContext, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Record this rank's step; its trace, its live block and its regions' limits come back.

    Raises
    ------
    ToldError
        ``make_step`` left nothing to measure, or the step cannot be measured.
    """
    device, coordinator = join_group(context, payload)
    step = _step(context, payload)
    from pytest_gpuperf.recording import record

    # After make_step's module, which may import the modules itself.
    config, notes = rank_config(payload["modules"])
    with told_errors():
        recorded = record(
            step,
            device=device,
            options=_unpickled(payload["options"]),
            trace_path=context.workdir / f"rank{context.rank}.pt.trace.json.gz",
            name=payload["name"],
            coordinator=coordinator,
            decided=_unpickled(payload["decided"]),
            enough=_unpickled(payload["enough"]),
            config=config,
        )
    leave_group(context, coordinator)
    return {
        "trace": str(recorded.trace_path),
        "block": recorded.block.to_json(),
        "region_limits": {name: dict(limits) for name, limits in recorded.region_limits.items()},
        "notes": list(notes),
    }


def run_rank_once(context: RankContext, payload: Mapping[str, Any]) -> None:
    """Call this rank's step once, unmeasured.

    Raises
    ------
    ToldError
        ``make_step`` left nothing to run.
    """
    _, coordinator = join_group(context, payload)
    _step(context, payload)()
    leave_group(context, coordinator)


def join_group(
    context: RankContext, payload: Mapping[str, Any]
) -> tuple[torch.device, GroupCoordinator]:
    """The device of this rank and our group, once the process is in the workload's group."""
    context.progress.stage("importing torch")
    import torch.distributed as dist

    device = _own_device(context, payload)
    context.progress.stage("joining the process group")
    dist.init_process_group(
        payload["backend"],  # rank, size and address are in the environment, as under torchrun
        timeout=timedelta(seconds=context.timeout_s) + _MARGIN,
    )
    control = dist.new_group(backend="gloo")
    return device, GroupCoordinator(context.rank, context.world_size, control)


def _step(context: RankContext, payload: Mapping[str, Any]) -> Callable[[], Any]:
    """The step of this rank, made, telling its progress."""
    context.progress.stage("loading make_step")
    positional, named = _unpickled(payload["arguments"])
    make_step = partial(Target.from_json(payload["make_step"]).load(), *positional, **named)
    context.progress.stage("in make_step")
    step = made_step(make_step, context.rank, context.world_size)
    context.progress.stage("in the step")
    return counted(step, context.progress)


def leave_group(context: RankContext, coordinator: GroupCoordinator) -> None:
    """Leave the process group together."""
    import torch.distributed as dist

    context.progress.stage("leaving the process group")
    coordinator.barrier()
    dist.destroy_process_group()


def made_step(
    make_step: Callable[[int, int], Any], rank: int, world_size: int
) -> Callable[[], Any]:
    """The step that ``make_step`` makes for `rank`.

    Raises
    ------
    ToldError
        What it returned cannot be called, or it ended the process group.
    """
    import torch.distributed as dist

    step = make_step(rank, world_size)
    if not callable(step):
        raise ToldError(
            "make_step(rank, world_size) must return the step, a function without "
            f"arguments; on rank {rank} it returned {type(step).__name__}"
        )
    if not dist.is_initialized():
        raise ToldError("make_step ended the process group, which gpuperf.ddp made and needs")
    checked: Callable[[], Any] = step
    return checked


@contextmanager
def told_errors() -> Iterator[None]:
    """Let a step that cannot be measured say so in its one line."""
    from pytest_gpuperf.recording import RecordingError

    try:
        yield
    except RecordingError as error:
        raise ToldError(str(error)) from error


def _own_device(context: RankContext, payload: Mapping[str, Any]) -> torch.device:
    """The device of this rank, made the current one, with its share of CPU threads."""
    import torch

    torch.set_num_threads(payload["threads"])
    if payload["device_type"] != "cuda":
        return torch.device("cpu")
    device = torch.device("cuda", context.rank % payload["gpus"])
    torch.cuda.set_device(device)
    return device


class CountsCalls(Protocol):
    """What is told of each call."""

    def begin(self) -> None:
        """A call begins."""

    def end(self) -> None:
        """A call has ended."""


def counted(step: Callable[[], Any], progress: CountsCalls) -> Callable[[], Any]:
    """`step` that tells when it begins and ends: two stores a call, for the message of a hang."""

    def told() -> Any:
        progress.begin()
        value = step()
        progress.end()
        return value

    return told


def _unpickled(text: str) -> Any:
    """What the launching process pickled for us; it came through a folder of our own."""
    return pickle.loads(base64.b64decode(text))  # noqa: S301 - written by our own parent
