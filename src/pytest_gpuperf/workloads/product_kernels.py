"""Matrix products by hand, as CUDA text and in Triton: one fast way and four slow ones.

Each of the slow ones is slow for one reason, which it says in words and numbers beside its times.
The CUDA text is compiled on a GPU machine by torch's own NVRTC route; Triton's interpreter shows
on a CPU that the same five are right.
"""

from __future__ import annotations

import functools
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.workloads.dtypes import values
from pytest_gpuperf.workloads.products import check_product, product_peak
from pytest_gpuperf.workloads.triton_here import require_triton
from pytest_gpuperf.workloads.workload import (
    Prepared,
    UnavailableError,
    Workload,
    one_of,
    whole,
)

if TYPE_CHECKING:
    import torch

VARIANTS = ("naive", "coalesced", "divergent", "tiled", "coarsened")
LANGUAGES = ("cuda", "triton")
SOURCE = Path(__file__).with_name("cuda") / "products.cu"
TILE, COARSE = 32, 4
_WARP, _SECTOR = 32, 32


def matmul_kernel(variant: str, m: int, n: int, k: int, *, language: str = "cuda") -> Workload:
    """``[M, K] @ [K, N]`` of fp32 by a kernel written by hand.

    FLOP ``2·M·N·K``; bytes ``4·(M·K + K·N + M·N)``. What the kernel asks of memory is more, and
    stands in the notes: :func:`loaded_bytes`, :func:`sectors`.

    Parameters
    ----------
    variant
        ``naive``, ``coalesced``, ``divergent``, ``tiled``, ``coarsened``.
    m, n, k
        Sizes.
    language
        ``cuda``; or ``triton``, which has no threads: there `naive` and `coalesced` are programs
        that walk down a column or along a row, and `divergent` computes both branches and chooses.

    Raises
    ------
    ValueError
        A variant, language or size that there is not.
    """
    one_of("variant", variant, VARIANTS)
    one_of("language", language, LANGUAGES)
    whole(m=m, n=n, k=k)
    build = _build_cuda if language == "cuda" else _build_triton
    return Workload(
        name=f"{variant}-{m}x{n}x{k}-{language}",
        build=partial(build, variant, m, n, k),
        flops=2 * m * n * k,
        bytes=4 * (m * k + k * n + m * n),
        flop_formula="2·M·N·K",
        byte_formula="4·(M·K + K·N + M·N)",
        counted=False,
        peak_bytes=product_peak(m, n, k, "fp32"),
        notes=(why(variant, m, n, k),),
    )


def loaded_bytes(variant: str, m: int, n: int, k: int) -> float:
    """Bytes that the threads of the CUDA kernel load from memory or its caches, fp32.

    ``8·M·N·K`` without sharing; ``8·M·N·K/T`` in tiles of T; ``4·M·N·K/T·(1 + 1/C)`` where a tile
    of A serves C of B.
    """
    plain = 8.0 * m * n * k
    if variant == "tiled":
        return plain / TILE
    if variant == "coarsened":
        return plain / TILE * (1 + 1 / COARSE) / 2
    return plain


def sectors(variant: str) -> int:
    """Memory sectors of 32 bytes that a warp touches for its two loads of a multiply-add.

    Neighbouring rows: 32 sectors of A, a row each, and one of B. Neighbouring columns: one of A,
    and 32·4/32 = 4 of B.
    """
    return _WARP + 1 if variant == "naive" else 1 + _WARP * 4 // _SECTOR


def why(variant: str, m: int, n: int, k: int) -> str:
    """What holds this kernel back, in numbers."""
    loaded = loaded_bytes(variant, m, n, k)
    share = f"{2 * m * n * k / loaded:g} FLOP a byte loaded"
    ideal = loaded / (4 * (m * k + k * n + m * n))
    again = f"every element is loaded {ideal:,.1f} times as often as it must be ({share})"
    per_load = {
        "naive": f"a warp's loads touch {sectors('naive')} sectors of memory, "
        f"{sectors('coalesced')} where coalesced; {again}",
        "coalesced": f"a warp's loads are runs of memory; {again}",
        "divergent": "each warp runs both branches, half of its threads idle: twice the "
        f"instructions; {again}",
        "tiled": f"tiles of {TILE} in shared memory; {again}",
        "coarsened": f"tiles of {TILE}, one of A for {COARSE} of B; {again}",
    }
    return per_load[variant]


@functools.lru_cache(maxsize=len(VARIANTS))
def _compiled(variant: str) -> Any:
    torch = import_torch()
    compile_kernel = getattr(torch.cuda, "_compile_kernel", None)
    if compile_kernel is None:
        raise UnavailableError(
            f"gpuperf: this torch ({torch.__version__}) cannot compile CUDA text at run time: "
            "update it"
        )
    return compile_kernel(SOURCE.read_text(encoding="utf-8"), variant)


def _build_cuda(variant: str, m: int, n: int, k: int, device: torch.device) -> Prepared:
    torch = import_torch()
    if device.type != "cuda":
        raise UnavailableError(
            "gpuperf: a CUDA kernel needs a CUDA GPU: language='triton' is interpreted on a CPU"
        )
    with torch.cuda.device(device):
        launch = _compiled(variant)
    a, b = (values(s, device, seed=i) for i, s in ((1, (m, k)), (2, (k, n))))
    c = torch.empty(m, n, device=device)
    step = partial(_launched, launch, launch_shape(variant, m, n), a, b, c)
    return Prepared(step, partial(check_product, f"{variant}, CUDA", step, a, b, "fp32"))


def launch_shape(variant: str, m: int, n: int) -> tuple[int, int, int]:
    """Blocks of TILE x TILE threads along x, y and z."""
    rows, columns = -(-m // TILE), -(-n // TILE)
    if variant == "naive":
        return rows, columns, 1
    return (-(-columns // COARSE) if variant == "coarsened" else columns), rows, 1


def _launched(launch: Any, grid: tuple[int, int, int], a: Any, b: Any, c: Any) -> Any:
    (m, k), n = a.shape, b.shape[1]
    launch(grid=grid, block=(TILE, TILE, 1), args=[a, b, c, m, n, k])
    return c


def _build_triton(variant: str, m: int, n: int, k: int, device: torch.device) -> Prepared:
    torch = import_torch()
    untimed = require_triton(device)
    from pytest_gpuperf.workloads.triton_products import product

    a, b = (values(s, device, seed=i) for i, s in ((1, (m, k)), (2, (k, n))))
    step = partial(product, variant, a, b, torch.empty(m, n, device=device))
    check = partial(check_product, f"{variant}, Triton", step, a, b, "fp32")
    return Prepared(step, check, untimed)
