"""Work that is all memory: fills, copies, sums of vectors, and copies to the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.workloads.dtypes import SIZES, torch_dtype, values
from pytest_gpuperf.workloads.room import COMPARED, WIDE, made
from pytest_gpuperf.workloads.workload import (
    Prepared,
    UnavailableError,
    Workload,
    close,
    one_of,
    whole,
)

if TYPE_CHECKING:
    import torch

PASSES = {"fill": 1, "read": 1, "copy": 2, "scale": 2, "add": 3, "triad": 3}
"""How many times n elements each kind moves; the last four are those of STREAM."""
_FACTOR = 3.0


def copy(n: int, *, kind: str = "copy", dtype: str = "fp32") -> Workload:
    """A pass over n elements: fill, read (a sum), copy, scale, add, triad (b + 3·c).

    Bytes ``p·s·n``, p from :data:`PASSES` (McCalpin's STREAM counts so). No FLOP by the rules.

    Parameters
    ----------
    n
        Elements of each array; take several times the last cache's size.
    kind
        A key of :data:`PASSES`.
    dtype
        ``fp64``, ``fp32``, ``fp16``, ``bf16``.

    Raises
    ------
    ValueError
        A size, kind or type that there is not.
    """
    whole(n=n)
    one_of("kind", kind, tuple(PASSES))
    one_of("dtype", dtype, ("fp64", "fp32", "fp16", "bf16"))
    return Workload(
        name=f"{kind}-{n}-{dtype}",
        build=partial(_build, n, kind, dtype),
        bytes=PASSES[kind] * SIZES[dtype] * n,
        dtype=dtype,
        byte_formula="p·s·n; p = 1 fill, read; 2 copy, scale; 3 add, triad",
        peak_bytes=_peak(n, kind, dtype),
    )


def host_to_device(n_bytes: int, *, pinned: bool = True) -> Workload:
    """A copy of n bytes from the host, from pinned or pageable memory. CUDA only.

    Bytes ``n``, those that cross the bus.

    Raises
    ------
    ValueError
        A size that there is not.
    """
    whole(n_bytes=n_bytes)
    return Workload(
        name=f"host-to-device-{n_bytes}-{'pinned' if pinned else 'pageable'}",
        build=partial(_build_transfer, n_bytes, pinned),
        bytes=n_bytes,
        byte_formula="n",
        peak_bytes=n_bytes,
    )


def _peak(n: int, kind: str, dtype: str) -> int:
    """Three arrays of n elements; two of them in float64, and the comparison, while it is checked.

    A sum is one number and needs no third array; a copy's reference is there already.
    """
    arrays = 3 * SIZES[dtype] * n
    wide = 0 if dtype == "fp64" else WIDE * n
    if kind == "read":
        return max(made(dtype, n, n), arrays, 2 * SIZES[dtype] * n + 2 * wide)
    compared = COMPARED * n - (WIDE * n if kind == "copy" else 0) - (0 if wide else WIDE * n)
    return max(made(dtype, n, n), arrays + 2 * wide + compared)


def _build(n: int, kind: str, dtype: str, device: torch.device) -> Prepared:
    torch = import_torch()
    b, c = (values((n,), device, dtype, seed=s) for s in (1, 2))
    out = torch.empty(n, device=device, dtype=torch_dtype(dtype))
    steps: dict[str, Callable[[], Any]] = {
        "fill": partial(out.fill_, _FACTOR),
        "read": partial(torch.sum, b),
        "copy": partial(out.copy_, b),
        "scale": partial(torch.mul, b, _FACTOR, out=out),
        "add": partial(torch.add, b, c, out=out),
        "triad": partial(torch.add, b, c, alpha=_FACTOR, out=out),
    }
    return Prepared(steps[kind], partial(_check, kind, steps[kind], b, c, dtype))


def _check(kind: str, step: Callable[[], Any], b: Any, c: Any, dtype: str) -> float:
    torch = import_torch()
    wide_b, wide_c = b.double(), c.double()
    expected = {
        "fill": lambda: torch.full_like(wide_b, _FACTOR),
        "read": wide_b.sum,
        "copy": lambda: wide_b,
        "scale": lambda: wide_b * _FACTOR,
        "add": lambda: wide_b + wide_c,
        "triad": lambda: wide_b + _FACTOR * wide_c,
    }[kind]()
    step_size = torch.finfo(torch_dtype(dtype)).eps
    spread = max(float(expected.abs().max()), float(b.numel()) ** 0.5)
    return close(kind, step(), expected, 8 * step_size * spread)


def _build_transfer(n_bytes: int, pinned: bool, device: torch.device) -> Prepared:
    torch = import_torch()
    if device.type != "cuda":
        raise UnavailableError(
            "gpuperf: a copy to the device needs a CUDA GPU: on a CPU take workloads.copy"
        )
    source = torch.randint(0, 256, (n_bytes,), dtype=torch.uint8)
    source = source.pin_memory() if pinned else source
    target = torch.empty(n_bytes, dtype=torch.uint8, device=device)
    step = partial(target.copy_, source, non_blocking=pinned)

    def check() -> float:
        found = step().cpu()
        return close("copy to the device", found, source, 0.5)

    return Prepared(step, check)
