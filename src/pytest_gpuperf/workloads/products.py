"""Matrix products by the library: ``[M, K] @ [K, N]`` in any layout, fp8 through ``_scaled_mm``."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.workloads.dtypes import SIZES, require_fp8, rounding, torch_dtype, values
from pytest_gpuperf.workloads.room import WIDE, made
from pytest_gpuperf.workloads.workload import Prepared, Workload, close, one_of, whole

if TYPE_CHECKING:
    import torch

LAYOUTS = ("nn", "nt", "tn", "tt")
_CHECKED_ROWS = 64


def matmul(m: int, n: int, k: int, *, dtype: str = "fp32", layout: str = "nn") -> Workload:
    """``[M, K] @ [K, N]``, K being the dimension that is summed over.

    FLOP ``2·M·N·K``; bytes ``s·(M·K + K·N) + o·M·N``, s and o bytes of an element of the operands
    and of the result (fp8 gives bf16).

    Parameters
    ----------
    m, n, k
        Rows and columns of the result, and what is summed over.
    dtype
        ``fp64``, ``fp32``, ``fp16``, ``bf16``, ``fp8`` (e4m3, scales of 1).
    layout
        A letter an operand: ``n`` as it stands, row by row; ``t`` stored transposed. fp8 is
        always ``nt``, the only one that the library has.

    Raises
    ------
    ValueError
        A size, type or layout that there is not.
    """
    whole(m=m, n=n, k=k)
    torch_size = SIZES.get(dtype)
    one_of("dtype", dtype, tuple(SIZES))
    one_of("layout", layout, LAYOUTS)
    if dtype == "fp8":
        layout = "nt"
    size = torch_size or 0
    out = 2 if dtype == "fp8" else size
    return Workload(
        name=f"matmul-{m}x{n}x{k}-{dtype}-{layout}",
        build=partial(_build, m, n, k, dtype, layout),
        flops=2 * m * n * k,
        bytes=size * (m * k + k * n) + out * m * n,
        dtype=dtype,
        flop_formula="2·M·N·K",
        byte_formula="s·(M·K + K·N) + o·M·N",
        peak_bytes=product_peak(m, n, k, dtype),
    )


def product_peak(m: int, n: int, k: int, dtype: str) -> int:
    """Bytes while a product is made and checked: B in float64, or the result, beside A and B."""
    operands = m * k + k * n
    # The check turns fp8 into fp32, in which it can pick rows.
    there = SIZES[dtype] * operands + (SIZES["fp32"] * operands if dtype == "fp8" else 0)
    result = (2 if dtype == "fp8" else SIZES[dtype]) * m * n
    again = 0 if dtype == "fp64" else WIDE * k * n
    return max(made(dtype, m * k, k * n), there + max(again, result))


def _build(m: int, n: int, k: int, dtype: str, layout: str, device: torch.device) -> Prepared:
    torch = import_torch()
    if dtype == "fp8":
        require_fp8(device)
    a = _stored((m, k), layout[0], device, dtype, 1)
    b = _stored((k, n), layout[1], device, dtype, 2)
    if dtype == "fp8":
        one = torch.ones((), device=device)
        step = partial(
            torch._scaled_mm, a, b, one, one, out_dtype=torch.bfloat16  # noqa: SLF001 - no public name
        )  # fmt: skip
    else:
        step = partial(torch.mm, a, b)
    return Prepared(step, partial(check_product, "matmul", step, a, b, dtype))


def _stored(
    shape: tuple[int, int], letter: str, device: torch.device, dtype: str, seed: int
) -> torch.Tensor:
    rows, columns = shape
    if letter == "n":
        return values(shape, device, dtype, seed=seed)
    return values((columns, rows), device, dtype, seed=seed).t()


def check_product(what: str, step: Any, a: torch.Tensor, b: torch.Tensor, dtype: str) -> float:
    """Hold up to 64 rows of ``step()``, spread over all, against a product in float64.

    Allowed is what rounding of `dtype` gives in a sum of K random products, whose spread is √K.

    Raises
    ------
    WrongResultError
        An element is further off.
    """
    torch = import_torch()
    rows, depth = a.shape
    picked = torch.linspace(0, rows - 1, min(rows, _CHECKED_ROWS), device=a.device).long()
    if a.dtype == torch_dtype("fp8"):  # has no indexing
        a, b = a.to(torch.float32), b.to(torch.float32)
    expected = a[picked].to(torch.float64) @ b.to(torch.float64)
    allowed = 4 * math.sqrt(depth) * rounding(dtype, a.device)
    return close(what, step()[picked], expected, allowed)
