"""Attention by each of torch's backends, and with the scores written out to memory."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.workloads.dtypes import SIZES, rounding, values
from pytest_gpuperf.workloads.room import WIDE, made
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

BACKENDS = ("auto", "flash", "efficient", "cudnn", "math", "materialized")
_SDPA = {
    "flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "cudnn": "CUDNN_ATTENTION",
    "math": "MATH",
}  # fmt: skip
_CHECKED_ROWS = 64
_NONE_LEFT = ("No available kernel", "No viable backend")
"""What torch says where the backend asked for does not take the tensors: on a GPU, on a CPU."""


def attention(
    batch: int,
    heads: int,
    rows: int,
    width: int,
    *,
    columns: int | None = None,
    causal: bool = False,
    dtype: str = "fp32",
    backend: str = "auto",
) -> Workload:
    """``softmax(q kᵀ / √D) v`` of B sequences, H heads, Sq queries, Sk keys, D wide.

    FLOP ``4·B·H·Sq·Sk·D``, a causal mask notwithstanding (as torch's counter has it); bytes
    ``2·s·B·H·D·(Sq + Sk)``. ``materialized`` writes scores and probabilities, ``2·s·B·H·Sq·Sk``
    bytes of memory beside; a fused kernel keeps O(Sq).

    Parameters
    ----------
    batch, heads, rows, width
        B, H, Sq, D.
    columns
        Sk; None is `rows`.
    causal
        Whether a query sees only the keys up to its own place.
    dtype
        ``fp32``, ``fp16``, ``bf16``.
    backend
        ``auto``, what torch picks; ``flash``, ``efficient``, ``cudnn``, ``math``, that one of
        ``scaled_dot_product_attention`` or none; ``materialized``, three plain ops.

    Raises
    ------
    ValueError
        A size, type or backend that there is not.
    """
    columns = rows if columns is None else columns
    whole(batch=batch, heads=heads, rows=rows, width=width, columns=columns)
    one_of("dtype", dtype, ("fp64", "fp32", "fp16", "bf16"))
    one_of("backend", backend, BACKENDS)
    size = SIZES[dtype]
    pairs = batch * heads * rows * columns
    notes: tuple[str, ...] = ()
    if backend == "materialized":
        notes = (f"scores and probabilities take {2 * size * pairs:,} bytes, O(Sq·Sk)",)
    sizes = f"{batch}x{heads}x{rows}x{width}"
    sizes += "" if columns == rows else f"-over{columns}"
    return Workload(
        name=f"attention-{sizes}-{dtype}-{backend}{'-causal' if causal else ''}",
        build=partial(_build, (batch, heads, rows, columns, width), causal, dtype, backend),
        flops=4 * pairs * width,
        bytes=2 * size * batch * heads * width * (rows + columns),
        items=batch * rows,
        items_unit="tokens",
        dtype=dtype,
        flop_formula="4·B·H·Sq·Sk·D",
        byte_formula="2·s·B·H·D·(Sq + Sk)",
        peak_bytes=_peak((batch, heads, rows, columns, width), dtype, backend),
        notes=notes,
    )


def _peak(sizes: tuple[int, int, int, int, int], dtype: str, backend: str) -> int:
    """q, k, v and the result; scores and probabilities where a backend writes them out.

    The check has the first head in float64, and 64 rows of its scores.
    """
    batch, heads, rows, columns, width = sizes
    size, all_heads = SIZES[dtype], batch * heads
    q, k = all_heads * rows * width, all_heads * columns * width
    scores = 2 * all_heads * rows * columns if backend in ("materialized", "math") else 0
    wide = 0 if dtype == "fp64" else width * (rows + 2 * columns)
    checked = WIDE * (wide + min(rows, _CHECKED_ROWS) * columns)
    return max(made(dtype, q, k, k), size * (2 * q + 2 * k + scores) + checked)


def _build(
    sizes: tuple[int, int, int, int, int],
    causal: bool,
    dtype: str,
    backend: str,
    device: torch.device,
) -> Prepared:
    batch, heads, rows, columns, width = sizes
    q = values((batch, heads, rows, width), device, dtype, seed=1)
    k, v = (values((batch, heads, columns, width), device, dtype, seed=s) for s in (2, 3))
    if backend == "materialized":
        step = partial(materialized, q, k, v, causal=causal)
    else:
        step = partial(_sdpa, q, k, v, causal=causal, backend=backend)
        _require(step, backend)
    return Prepared(step, partial(_check, step, q, k, v, causal, dtype))


def _sdpa(q: Any, k: Any, v: Any, *, causal: bool, backend: str) -> Any:
    torch = import_torch()
    with _chosen(backend):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def _chosen(backend: str) -> AbstractContextManager[object]:
    if backend == "auto":
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    chosen: AbstractContextManager[object] = sdpa_kernel(getattr(SDPBackend, _SDPA[backend]))
    return chosen


def _require(step: partial[Any], backend: str) -> None:
    """Call once: torch says only then that a backend does not take these tensors."""
    import warnings

    try:
        with warnings.catch_warnings():
            # One line a backend and a reason each; that none is left is what counts.
            warnings.simplefilter("ignore", UserWarning)
            step()
    except RuntimeError as error:
        if not any(words in str(error) for words in _NONE_LEFT):
            raise
        device = step.args[0].device.type
        raise UnavailableError(
            f"gpuperf: torch's {backend} attention does not take these sizes and types on {device}"
        ) from error


def materialized(q: Any, k: Any, v: Any, *, causal: bool = False) -> Any:
    """Attention op by op: scores, probabilities and result each go through memory."""
    torch = import_torch()
    scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.transpose(-2, -1)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill_(~mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ v


def _check(step: Any, q: Any, k: Any, v: Any, causal: bool, dtype: str) -> float:
    """Hold up to 64 queries of the first head against attention in float64."""
    torch = import_torch()
    rows, columns = q.shape[-2], k.shape[-2]
    picked = torch.linspace(0, rows - 1, min(rows, _CHECKED_ROWS), device=q.device).long()
    one_q, one_k, one_v = (t[0, 0].to(torch.float64) for t in (q, k, v))
    scores = one_q[picked] @ one_k.t() / math.sqrt(q.shape[-1])
    if causal:
        hidden = torch.arange(columns, device=q.device)[None, :] > picked[:, None]
        scores = scores.masked_fill(hidden, -math.inf)
    expected = torch.softmax(scores, dim=-1) @ one_v
    # A mean of values whose spread is 1.
    return close("attention", step()[0, 0][picked], expected, 4 * rounding(dtype, q.device))
