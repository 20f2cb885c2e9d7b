"""Collectives over sizes, measured: launched here, or on the ranks of a surrounding torchrun."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.distributed.collective_rank import run_collectives, time_cases
from pytest_gpuperf.distributed.collective_table import CollectiveTable, clocks_ahead_ns, row_of
from pytest_gpuperf.distributed.step import TIMEOUT_S, Backend
from pytest_gpuperf.workloads.distributed.collective_calls import COLLECTIVES, DTYPES

if TYPE_CHECKING:
    import torch

    from pytest_gpuperf.ranks import RankOutcome
    from pytest_gpuperf.session.ddp_joined import Place
    from pytest_gpuperf.session.ddp_plan import Plan

SMALLEST, LARGEST, FACTOR = 2**10, 2**24, 4


def sizes_between(smallest: int, largest: int, factor: int) -> tuple[int, ...]:
    """smallest, smallest·factor, … up to and including `largest` where it is hit.

    Raises
    ------
    ValueError
        `smallest` is below 1 or above `largest`, or `factor` below 2.
    """
    if smallest < 1 or largest < smallest:
        raise ValueError(f"sizes go from 1 B upwards: {smallest} B to {largest} B do not")
    if factor < 2:
        raise ValueError(f"sizes grow by a factor of 2 or more, not {factor}")
    sizes = [smallest]
    while sizes[-1] * factor <= largest:
        sizes.append(sizes[-1] * factor)
    return tuple(sizes)


def measure_collectives(
    ops: Sequence[str] = COLLECTIVES,
    sizes: Sequence[int] = sizes_between(SMALLEST, LARGEST, FACTOR),
    world_size: int = 2,
    *,
    backend: Backend = "auto",
    dtype: str = "float32",
    device: str | torch.device | None = None,
    max_time_s: float = 0.5,
    timeout_s: float = TIMEOUT_S,
) -> CollectiveTable | None:
    """Time each of `ops` at each of `sizes` over all ranks, its result checked before.

    Parameters
    ----------
    ops
        Of :data:`COLLECTIVES`.
    sizes
        S in bytes: the larger of input and output of a rank.
    world_size, backend, device
        As for ``gpuperf.ddp``.
    dtype
        Of the elements, torch's name for it.
    max_time_s
        Seconds after which a case takes no further samples (ten are taken at least).
    timeout_s
        Time limit of all of it.

    Returns
    -------
    CollectiveTable or None
        None on the other ranks of a surrounding torchrun: rank 0 has the table.

    Raises
    ------
    ValueError
        Unknown names, or ranks that cannot be had.
    RankFailure
        A rank raised, was killed or hung; the message names it.
    """
    unknown = [op for op in ops if op not in COLLECTIVES]
    if unknown or not ops:
        raise ValueError(f"unknown collective {unknown}: of {', '.join(COLLECTIVES)}")
    if dtype not in DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}: one of {', '.join(DTYPES)}")
    if not sizes or min(sizes) < 1:
        raise ValueError(f"sizes must be 1 B or more, not {list(sizes)}")
    from pytest_gpuperf.recording import resolve_device
    from pytest_gpuperf.session.ddp import place_ranks
    from pytest_gpuperf.session.device_lock import device_lock, rank_devices

    here = resolve_device(None if device is None else str(device))
    plan, place = place_ranks(world_size, backend, here)
    if place is None and plan.device_type == "cpu":
        _check_memory(max(sizes), world_size)
    cases = [{"op": op, "size": int(size), "dtype": dtype} for op in ops for size in sizes]
    work = {"cases": cases, "max_time_s": max_time_s}
    with device_lock(rank_devices(here, world_size)), _stacks_folder() as stacks:
        outcomes = (
            _launched(work, plan, world_size, timeout_s, stacks)
            if place is None
            else _joined(work, plan, place, timeout_s, stacks)
        )
    if place is not None and place.rank != 0:
        return None
    return _table(cases, [outcome.value for outcome in outcomes], plan)


def _check_memory(size: int, world_size: int) -> None:
    """Refuse S that all ranks together cannot hold once: a rank that the kernel kills says little.

    Raises
    ------
    ValueError
        They cannot; the line names what they take and what is there.
    """
    import torch

    from pytest_gpuperf.recording.capacity import available_bytes

    there = available_bytes(torch.device("cpu"))
    if there is not None and size * world_size > there:
        raise ValueError(
            f"S of {size:,} B on each of {world_size:,} ranks takes {size * world_size:,} B and "
            f"more, {there:,} B are there: take smaller sizes"
        )


@contextmanager
def _stacks_folder() -> Iterator[Path]:
    """Where the stacks of a hang go: a folder that stays only if there are any."""
    folder = Path(tempfile.mkdtemp(prefix="gpuperf-stacks-"))
    try:
        yield folder / "collectives"
    finally:
        with suppress(OSError):
            folder.rmdir()


def _launched(
    work: dict[str, Any], plan: Plan, world_size: int, timeout_s: float, stacks: Path
) -> list[RankOutcome]:
    from pytest_gpuperf.session.ddp import group_payload, launched

    with tempfile.TemporaryDirectory(prefix="gpuperf-") as scratch:
        folder = Path(scratch, "ranks")
        folder.mkdir()
        payload = {**group_payload(plan, world_size), **work}
        return launched(run_collectives, payload, plan, world_size, folder, timeout_s, stacks)


def _joined(
    work: dict[str, Any], plan: Plan, place: Place, timeout_s: float, stacks: Path
) -> list[RankOutcome]:
    from pytest_gpuperf.session.ddp_joined import join_place, together

    device, coordinator = join_place(place, plan.backend, plan.device_type, timeout_s)

    def timed() -> dict[str, Any]:
        return time_cases(coordinator, device, work, lambda _: None)

    return together(timed, coordinator, timeout_s, stacks_stem=stacks)


def _table(
    cases: Sequence[dict[str, Any]], seen: Sequence[dict[str, Any]], plan: Plan
) -> CollectiveTable:
    """The table from what each rank saw."""
    one_clock = len({rank["clock"] for rank in seen}) == 1
    ahead = [] if one_clock else clocks_ahead_ns([rank["probe_ends_ns"] for rank in seen])
    rows = [
        row_of(case, [rank["cases"][i] for rank in seen], ahead) for i, case in enumerate(cases)
    ]
    notes = list(plan.notes)
    if not one_clock:
        worst = max(abs(a) for a in ahead)
        notes.append(
            f"the ranks' clocks differ by up to {worst / 1e3:.0f} µs by the ends of "
            "all-reduces: corrected before starts were matched"
        )
    if len(seen) == 1:
        notes.append("one rank: nothing crosses a link, so there is no bus bandwidth")
    return CollectiveTable(
        rows=tuple(rows),
        world_size=len(seen),
        backend=plan.backend,
        device_name=seen[0]["device_name"],
        torch_version=seen[0]["torch"],
        hosts=len({rank["host"] for rank in seen}),
        notes=tuple(notes),
    )
