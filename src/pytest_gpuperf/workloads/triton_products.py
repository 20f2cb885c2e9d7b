"""The matrix products by hand in Triton. Imported only where Triton is there.

Triton has blocks and no threads. What a program reads together takes the place of what a warp
reads together: down a column of A (naive), along a row of B (coalesced).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from collections.abc import Callable

_SPAN = 32
_TILE = 32
_COARSE = 4


@triton.jit  # type: ignore[untyped-decorator]
def _naive(a: Any, b: Any, c: Any, m: Any, n: Any, k: Any, span: tl.constexpr) -> None:
    row = tl.program_id(0) * span + tl.arange(0, span)
    column = tl.program_id(1)
    inside = row < m
    total = tl.zeros((span,), dtype=tl.float32)
    for i in range(k):
        total += tl.load(a + row * k + i, mask=inside, other=0.0) * tl.load(b + i * n + column)
    tl.store(c + row * n + column, total, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _coalesced(a: Any, b: Any, c: Any, n: Any, k: Any, span: tl.constexpr) -> None:
    row = tl.program_id(0)
    column = tl.program_id(1) * span + tl.arange(0, span)
    inside = column < n
    total = tl.zeros((span,), dtype=tl.float32)
    for i in range(k):
        total += tl.load(a + row * k + i) * tl.load(b + i * n + column, mask=inside, other=0.0)
    tl.store(c + row * n + column, total, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _divergent(a: Any, b: Any, c: Any, n: Any, k: Any, span: tl.constexpr) -> None:
    row = tl.program_id(0)
    column = tl.program_id(1) * span + tl.arange(0, span)
    inside = column < n
    up = tl.zeros((span,), dtype=tl.float32)
    down = tl.zeros((span,), dtype=tl.float32)
    for i in range(k):
        up += tl.load(a + row * k + i) * tl.load(b + i * n + column, mask=inside, other=0.0)
        j = k - 1 - i
        down += tl.load(a + row * k + j) * tl.load(b + j * n + column, mask=inside, other=0.0)
    tl.store(c + row * n + column, tl.where(column % 2 == 0, up, down), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _tiled(
    a: Any, b: Any, c: Any, m: Any, n: Any, k: Any, tile: tl.constexpr, coarse: tl.constexpr
) -> None:
    row = tl.program_id(0) * tile + tl.arange(0, tile)
    depth = tl.arange(0, tile)
    for part in tl.static_range(coarse):
        column = (tl.program_id(1) * coarse + part) * tile + tl.arange(0, tile)
        total = tl.zeros((tile, tile), dtype=tl.float32)
        for start in range(0, k, tile):
            at = start + depth
            left = tl.load(
                a + row[:, None] * k + at[None, :],
                mask=(row[:, None] < m) & (at[None, :] < k),
                other=0.0,
            )
            right = tl.load(
                b + at[:, None] * n + column[None, :],
                mask=(at[:, None] < k) & (column[None, :] < n),
                other=0.0,
            )
            total += tl.dot(left, right, input_precision="ieee")
        tl.store(
            c + row[:, None] * n + column[None, :],
            total,
            mask=(row[:, None] < m) & (column[None, :] < n),
        )


def product(variant: str, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """``a @ b`` in `out` by the kernel of that name; all are contiguous fp32."""
    (m, k), n = a.shape, b.shape[1]
    grid: tuple[int, int]
    kernels: dict[str, tuple[Any, tuple[int, int], dict[str, int]]] = {
        "naive": (_naive, (triton.cdiv(m, _SPAN), n), {"span": _SPAN}),
        "coalesced": (_coalesced, (m, triton.cdiv(n, _SPAN)), {"span": _SPAN}),
        "divergent": (_divergent, (m, triton.cdiv(n, _SPAN)), {"span": _SPAN}),
        "tiled": (_tiled, _tiles(m, n, 1), {"tile": _TILE, "coarse": 1}),
        "coarsened": (_tiled, _tiles(m, n, _COARSE), {"tile": _TILE, "coarse": _COARSE}),
    }
    kernel, grid, constants = kernels[variant]
    launch: Callable[..., object] = kernel[grid]
    sizes = (n, k) if kernel in (_coalesced, _divergent) else (m, n, k)
    launch(a, b, out, *sizes, **constants)
    return out


def _tiles(m: int, n: int, coarse: int) -> tuple[int, int]:
    return triton.cdiv(m, _TILE), triton.cdiv(n, _TILE * coarse)
