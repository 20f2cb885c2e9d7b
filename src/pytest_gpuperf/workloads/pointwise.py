"""A chain of pointwise ops: one pass over memory for each of them, or one for all."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.workloads.compiled import compiled
from pytest_gpuperf.workloads.dtypes import SIZES, values
from pytest_gpuperf.workloads.room import COMPARED, WIDE, made
from pytest_gpuperf.workloads.workload import Prepared, Workload, close, one_of, whole

if TYPE_CHECKING:
    import torch

_ALLOWED = {"fp64": 1e-13, "fp32": 1e-5, "fp16": 1e-2, "bf16": 1e-1}
_SCALE, _SHIFT = 0.875, 0.125


def pointwise_chain(
    n: int, *, links: int = 6, fused: bool = False, dtype: str = "fp32"
) -> Workload:
    """`links` ops after each other on n values: times 0.875 and plus 0.125 in turn.

    Bytes ``2·s·n`` fused or not; not fused each op reads and writes all, ``2·s·n·L`` for L ops.
    No FLOP by the rules: there is no product to sum.

    Parameters
    ----------
    n
        How many values.
    links
        How many ops.
    fused
        Whether ``torch.compile`` makes one kernel of them.
    dtype
        ``fp32``, ``fp16``, ``bf16``.

    Raises
    ------
    ValueError
        A size or type that there is not.
    """
    whole(n=n, links=links)
    one_of("dtype", dtype, tuple(_ALLOWED))
    moved = 2 * SIZES[dtype] * n * (1 if fused else links)
    return Workload(
        name=f"chain-{links}x{n}-{dtype}-{'fused' if fused else 'unfused'}",
        build=partial(_build, n, links, fused, dtype),
        bytes=2 * SIZES[dtype] * n,
        items=n,
        dtype=dtype,
        byte_formula="2·s·n",
        peak_bytes=max(
            made(dtype, n),
            # Checked, the input scaled in float64 and its sum with the shifts are alive too.
            (2 * SIZES[dtype] + WIDE + COMPARED) * n,
        ),
        notes=(f"{1 if fused else links} passes over memory move {moved:,} bytes",),
    )


def chain(links: int, x: Any) -> Any:
    """The ops, one after the other."""
    for link in range(links):
        x = x + _SHIFT if link % 2 else x * _SCALE
    return x


def _build(n: int, links: int, fused: bool, dtype: str, device: torch.device) -> Prepared:
    x = values((n,), device, dtype)
    function = partial(chain, links)
    step = partial(compiled(function), x) if fused else partial(chain, links, x)
    return Prepared(step, partial(_check, step, x, links, _ALLOWED[dtype]))


def _check(step: Any, x: Any, links: int, allowed: float) -> float:
    """Hold the result against the closed form: aⁿ·x plus a geometric sum of shifts."""
    times, plus = (links + 1) // 2, links // 2
    scaled = x.double() * _SCALE**times
    # The j-th shift is scaled by all multiplications after it.
    shifts = sum(_SHIFT * _SCALE ** (times - 1 - j) for j in range(plus))
    return close("chain", step(), scaled + shifts, allowed)
