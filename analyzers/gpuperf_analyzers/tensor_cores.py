"""Which products ran on tensor cores, told by kernel names where that is all there is.

Libraries write the instruction, or its lack, into the names of their matmul, convolution and
attention kernels. A name that says neither is in neither sum: a hint, and never more than one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.trace.classify import Device
from gpuperf_analyzers.trace.links import launching_ops
from gpuperf_analyzers.trace.model import Trace
from gpuperf_analyzers.trace.selection import activity

if TYPE_CHECKING:
    import pandas as pd

# NVIDIA: CUTLASS' tensorop, cuDNN's tensor16x8x8 and xmma, the mma shapes of cuBLAS (884, 1688,
# 16816), nvjet and TensorRT-LLM's sm100 products, FlashAttention. AMD: the matrix instruction
# (MI16x16x16) of Tensile, mfma, Composable Kernel's xdl, MIOpen's gtcx.
_TENSOR = re.compile(
    r"(?<![a-z])tensorop_|MmaTensorOp|OpClassTensorOp|tensor16x8|xmma|nvjet|wgmma"
    r"|tcgen05|(?:[hsidb]|bf)(?:884|1688|16816|16832|1684)"
    r"|bmm_\w+_sm1\d\d|fmha|flash_(?:fwd|bwd)|_MI\d+x\d+x|mfma|xdl|_gtcx|wmma",
    re.IGNORECASE,
)
# The same libraries' kernels for the ordinary units.
_PLAIN = re.compile(
    r"(?<![a-z])(?:[sdczh]gemm|gcgemm|gemv|gemmk1|gemmSN|dot_kernel)|scudnn|_simt_"
    r"|wgrad_alg\d|dgrad_engine|conv_depthwise|^Cijk_(?!\w*PostGSU)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ProductKernel:
    """All runs of one kernel whose name says on which units it computes products.

    ``tensor`` is whether on tensor cores (AMD: matrix cores), ``ops`` the ops that launched it.
    """

    name: str
    tensor: bool
    count: int
    total_us: float
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TensorCoresResult:
    """Products of one device by where they ran, the most time first."""

    device: Device
    kernels: tuple[ProductKernel, ...]

    @property
    def tensor_us(self) -> float:
        """Time of the kernels on tensor cores."""
        return sum(k.total_us for k in self.kernels if k.tensor)

    @property
    def plain_us(self) -> float:
        """Time of the kernels on the ordinary units."""
        return sum(k.total_us for k in self.kernels if not k.tensor)

    def metrics(self) -> Iterator[Value]:
        """``tensor_core_share``: time on tensor cores / time of products whose names tell."""
        if self.device == "cpu":
            yield absent("tensor_core_share", "a CPU has no tensor cores")
        elif not self.kernels or not self.tensor_us + self.plain_us:
            yield absent("tensor_core_share", "no kernel's name tells")
        else:
            share = self.tensor_us / (self.tensor_us + self.plain_us)
            yield Value("tensor_core_share", share, source="kernel names")

    def to_frame(self) -> pd.DataFrame:
        """One row per kernel."""
        import pandas as pd

        columns = list(ProductKernel.__slots__)
        rows = [[getattr(k, c) for c in columns] for k in self.kernels]
        return pd.DataFrame(rows, columns=columns)


def on_tensor_cores(name: str) -> bool | None:
    """Whether a kernel's name says that it uses tensor cores; None where it tells neither."""
    if _TENSOR.search(name):
        return True
    return False if _PLAIN.search(name) else None


def analyze(trace: Trace, config: Config, device: Device) -> TensorCoresResult:
    """Products on `device`.

    Raises
    ------
    ValueError
        The trace has no activity on `device`.
    """
    found = activity(trace, device, config)
    if device == "cpu":
        return TensorCoresResult(device, ())
    e = trace.events
    rows = found.compute_rows
    names, group, counts = np.unique(e.name[rows], return_inverse=True, return_counts=True)
    time = np.zeros(len(names), dtype=np.int64)
    np.add.at(time, group.reshape(-1), e.dur[rows])
    told = [on_tensor_cores(trace.strings[name]) for name in names.tolist()]
    launcher = launching_ops(trace)[rows]
    table = []
    for i, tensor in enumerate(told):
        if tensor is None:
            continue
        ops = launcher[group.reshape(-1) == i]
        called = np.unique(e.name[ops[ops >= 0]]).tolist()
        table.append(
            ProductKernel(
                name=trace.strings[int(names[i])],
                tensor=tensor,
                count=int(counts[i]),
                total_us=int(time[i]) / 1e3,
                ops=tuple(sorted(trace.strings[op] for op in called)),
            )
        )
    return TensorCoresResult(device, tuple(sorted(table, key=lambda k: (-k.total_us, k.name))))
