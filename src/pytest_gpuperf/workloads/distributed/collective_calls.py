"""All-reduce, all-gather, reduce-scatter, broadcast and all-to-all of a given size, checked.

S is the larger of input and output bytes of one rank, as nccl-tests counts: all that an all-gather
leaves, all that a reduce-scatter takes. Where each rank has a share, S is a multiple of the ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.ranks import ToldError
from pytest_gpuperf.workloads.distributed.placement import rank_device

if TYPE_CHECKING:
    import torch

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")
_SHARED = frozenset({"all_gather", "reduce_scatter", "all_to_all"})
DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8")
_REDUCING = frozenset({"all_reduce", "reduce_scatter"})
_PERIOD = 8
_MOVED_PERIOD = 127


@dataclass(frozen=True, slots=True)
class Prepared:
    """One collective of one size, ready to be called again and again.

    Attributes
    ----------
    call
        Does it. Waits for it on a CPU, queues it on a GPU. All-reduce and broadcast are in place.
    bytes, elements
        S, and how many elements that is.
    fill
        Gives inputs and outputs the values from which :attr:`wrong` knows the result of one call.
    wrong
        How many elements of that result are not what they must be.
    """

    call: Callable[[], Any]
    bytes: int
    elements: int
    fill: Callable[[], None]
    wrong: Callable[[], int]


def elements_of(op: str, size: int, itemsize: int, world_size: int) -> int:
    """Elements of S: at most `size` bytes, a multiple of the ranks where each has a share.

    Raises
    ------
    ValueError
        An unknown collective, or `size` is too small for one element a share.
    """
    if op not in COLLECTIVES:
        raise ValueError(f"unknown collective {op!r}: one of {', '.join(COLLECTIVES)}")
    share = world_size if op in _SHARED else 1
    elements = size // itemsize // share * share
    if elements < 1:
        raise ValueError(
            f"{size} B are too few: {op} of {world_size} ranks takes {share * itemsize} B or more"
        )
    return elements


def prepare(
    op: str, rank: int, world_size: int, *, size: int, dtype: str, device: torch.device
) -> Prepared:
    """The collective `op` over all ranks with S of at most `size` bytes.

    Where values are summed, element i of rank r is 1 if 8 divides i + r and else 0; where they
    are moved it is (i + r) % 127: every result is known, and exact in every dtype (sums up to
    2048 ranks).

    Raises
    ------
    ValueError
        As for :func:`elements_of`, or an unknown dtype.
    """
    if dtype not in DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}: one of {', '.join(DTYPES)}")
    import torch

    kind = getattr(torch, dtype)
    n = elements_of(op, size, kind.itemsize, world_size)
    share = n // world_size
    values = partial(_values, op in _REDUCING, dtype=kind, device=device)
    taken, left = {"all_gather": (share, n), "reduce_scatter": (n, share)}.get(op, (n, n))
    source = values(rank, 0, taken)
    # In place there is one tensor; to time it again and again it holds zeros, which stay.
    target = torch.zeros(left, dtype=kind, device=device)
    call = _call(op, source, target)

    def fill() -> None:
        in_place = op == "all_reduce" or (op == "broadcast" and rank == 0)
        target.copy_(source) if in_place else target.zero_()

    def expected() -> torch.Tensor:
        ranks = range(world_size)
        if op == "all_reduce":
            return sum((values(r, 0, n) for r in ranks), torch.zeros_like(target))
        if op == "reduce_scatter":
            mine = (values(r, rank * share, share) for r in ranks)
            return sum(mine, torch.zeros_like(target))
        if op == "broadcast":
            return values(0, 0, n)
        start = rank * share if op == "all_to_all" else 0
        return torch.cat([values(r, start, share) for r in ranks])

    def wrong() -> int:
        count = int((target != expected()).sum())
        target.zero_()
        return count

    return Prepared(call, n * kind.itemsize, n, fill, wrong)


def _values(
    summed: bool, rank: int, start: int, count: int, *, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Elements `start` to `start` + `count` of rank `rank`'s input."""
    import torch

    place = torch.arange(start + rank, start + rank + count, device=device)
    return (place % _PERIOD == 0 if summed else place % _MOVED_PERIOD).to(dtype)


def _call(op: str, source: torch.Tensor, target: torch.Tensor) -> Callable[[], Any]:
    """`op` from `source` to `target`, by the newer of torch's two names where it has it."""
    import torch.distributed as dist

    if op == "all_reduce":
        return partial(dist.all_reduce, target)
    if op == "broadcast":
        return partial(dist.broadcast, target, src=0)
    if op == "all_gather":
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        return partial(gather, target, source)
    if op == "reduce_scatter":
        scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        return partial(scatter, target, source)
    return partial(dist.all_to_all_single, target, source)


def collective(
    rank: int,
    world_size: int,
    *,
    op: str = "all_reduce",
    size: int = 2**20,
    dtype: str = "float32",
    device: str | torch.device | None = None,
) -> Callable[[], Any]:
    """The step of one collective of `size` bytes (S), its result checked once before.

    Of S bytes an all-reduce moves 2·(n-1)/n·S over each rank's link, an all-gather,
    reduce-scatter or all-to-all (n-1)/n·S, a broadcast S.

    Raises
    ------
    ValueError
        As for :func:`prepare`.
    ToldError
        The result is wrong.
    """
    made = prepare(op, rank, world_size, size=size, dtype=dtype, device=rank_device(device))
    made.fill()
    made.call()
    if wrong := made.wrong():
        raise ToldError(f"{op} of {made.bytes} B: {wrong} of its elements are wrong")
    return made.call
