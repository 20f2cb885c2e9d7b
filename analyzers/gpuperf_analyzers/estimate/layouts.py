"""Ways to lay a training run out over GPUs, as columns: one entry a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuperf_analyzers.estimate.activations import RECOMPUTE
from gpuperf_analyzers.estimate.model_states import ZERO_STAGES
from gpuperf_analyzers.estimate.terms import EstimateError
from gpuperf_analyzers.estimate.transformer import TransformerConfig

I64: TypeAlias = npt.NDArray[np.int64]
F64: TypeAlias = npt.NDArray[np.float64]

LARGEST_TP = 64
LEAST_TOKENS_A_CP_RANK = 2048
"""A sequence is not cut finer than this: there is no point in context parallelism below it."""
MOST_GPUS = 10**6


@dataclass(frozen=True, slots=True)
class Layouts:
    """Configurations, one an index.

    ``tp``, ``pp``, ``cp``, ``ep``, ``dp`` are the ways of tensor, pipeline, context, expert and
    data parallelism (expert parallelism is within dp); ``zero`` the stage over dp × cp;
    ``micro_batch`` samples at once, ``micro_batches`` of them a replica and update;
    ``recompute`` an index of :data:`RECOMPUTE`; ``interleave`` the chunks of model a pipeline
    rank has; ``sequence_parallel`` 1 where norms are sharded over tp.
    """

    tp: I64
    pp: I64
    cp: I64
    ep: I64
    dp: I64
    zero: I64
    micro_batch: I64
    micro_batches: I64
    recompute: I64
    interleave: I64
    sequence_parallel: I64

    def __len__(self) -> int:
        return len(self.tp)

    @property
    def gpus(self) -> I64:
        """GPUs that each takes."""
        return np.asarray(self.tp * self.pp * self.cp * self.dp)

    def take(self, which: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Layouts:
        """Those of a mask or of indices."""
        return Layouts(**{f.name: getattr(self, f.name)[which] for f in fields(self)})


def one_layout(
    c: TransformerConfig,
    *,
    batch: int,
    tp: int = 1,
    pp: int = 1,
    cp: int = 1,
    ep: int = 1,
    dp: int = 1,
    zero: int = 0,
    micro_batch: int = 1,
    recompute: str = "selective",
    interleave: int = 1,
    sequence_parallel: bool = True,
) -> Layouts:
    """The one configuration that is asked for.

    Raises
    ------
    EstimateError
        It cannot be run: a size that does not divide.
    """
    if recompute not in RECOMPUTE:
        raise EstimateError(f"recomputation {recompute!r} is unknown: {', '.join(RECOMPUTE)}")
    sizes = {"tp": tp, "pp": pp, "cp": cp, "ep": ep, "dp": dp, "micro batch": micro_batch,
             "batch": batch, "interleave": interleave}  # fmt: skip
    for name, size in sizes.items():
        if size < 1:
            raise EstimateError(f"{name} is {size}: 1 or more")
    if zero not in ZERO_STAGES:
        raise EstimateError(f"ZeRO has stages 0 to 3, not {zero}")
    micro_batches, rest = divmod(batch, dp * micro_batch)
    if rest:
        raise EstimateError(
            f"a batch of {batch} does not divide by {dp} replicas × {micro_batch} samples"
        )
    columns = (tp, pp, cp, ep, dp, zero, micro_batch, micro_batches, RECOMPUTE.index(recompute),
               interleave, int(sequence_parallel and tp > 1))  # fmt: skip
    made = Layouts(*(np.array([value], dtype=np.int64) for value in columns))
    if not _runs(c, made, c.sequence).all():
        raise EstimateError(
            f"{c.name} does not divide so: tp into {c.heads} heads, pp into {c.layers} layers, "
            f"ep into {c.experts} experts and into dp, cp into {c.sequence} tokens, interleave "
            "into the layers of a stage and pp into the micro-batches of an interleaved pipeline"
        )
    return made


def all_layouts(
    c: TransformerConfig,
    *,
    gpus: int,
    batch: int,
    sequence: int,
    recompute: Sequence[str] = RECOMPUTE,
    zero: Sequence[int] = ZERO_STAGES,
) -> Layouts:
    """Every configuration of `gpus` that runs `batch` samples an update.

    Raises
    ------
    EstimateError
        No GPUs, more than a million, or no samples.
    """
    if not 1 <= gpus <= MOST_GPUS:
        raise EstimateError(f"{gpus} GPUs: 1 to {MOST_GPUS:,}")
    if not 1 <= batch <= 10**9:
        raise EstimateError(f"a batch of {batch} samples: 1 to 1,000,000,000")
    ways = _ways(c, gpus, batch, sequence)
    if not len(ways):
        return Layouts(*(np.zeros(0, dtype=np.int64) for _ in fields(Layouts)))
    micro = [2**i for i in range(11) if 2**i <= batch]
    codes = [RECOMPUTE.index(r) for r in recompute]
    grid = np.meshgrid(
        np.arange(len(ways)), zero, micro, codes, [1, 2, 4, 8], [0, 1], indexing="ij"
    )
    row, stage, size, code, chunks, split = (np.asarray(g, dtype=np.int64).ravel() for g in grid)
    tp, pp, cp, ep, dp = (ways[row, i] for i in range(5))
    made = Layouts(
        tp, pp, cp, ep, dp, stage, size, batch // np.maximum(dp * size, 1), code, chunks, split
    )
    sensible = (batch % (dp * size) == 0) & ((split == 0) | (tp > 1)) & ((chunks == 1) | (pp > 1))
    sensible &= (stage == 0) | (dp * cp > 1)
    # A fused attention over parts of a sequence never holds the scores.
    sensible &= (cp == 1) | (code != RECOMPUTE.index("none"))
    made = made.take(np.asarray(sensible))
    return made.take(_runs(c, made, sequence))


def _ways(c: TransformerConfig, gpus: int, batch: int, sequence: int) -> I64:
    """Rows of tp, pp, cp, ep, dp whose product is `gpus`."""
    divisors = _divisors(gpus)
    rows = []
    for tp in (d for d in divisors if d <= LARGEST_TP and c.heads % d == 0):
        for pp in (d for d in _divisors(gpus // tp) if d <= c.layers):
            for cp in _divisors(gpus // (tp * pp)):
                dp = gpus // (tp * pp * cp)
                if cp & (cp - 1) or (cp > 1 and sequence // cp < LEAST_TOKENS_A_CP_RANK):
                    continue
                if batch % dp:
                    continue
                spread = [e for e in _divisors(max(c.experts, 1)) if dp % e == 0]
                rows += [(tp, pp, cp, ep, dp) for ep in spread]
    return np.array(rows, dtype=np.int64).reshape(-1, 5)


def _divisors(number: int) -> list[int]:
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def stage_layers(c: TransformerConfig, pp: I64) -> tuple[I64, I64]:
    """Layers of every stage but the last, and of the last."""
    most = -(-c.layers // pp)
    return most, c.layers - (pp - 1) * most


def _runs(c: TransformerConfig, x: Layouts, sequence: int) -> npt.NDArray[np.bool_]:
    """Mask of those that divide as they must."""
    most, last = stage_layers(c, x.pp)
    good = (c.heads % x.tp == 0) & (c.ffn % x.tp == 0) & (x.pp <= c.layers) & (last >= 1)
    # Key-value heads are shared out, or copied to ranks that share one.
    good &= (c.kv_heads % x.tp == 0) | (x.tp % c.kv_heads == 0)
    good &= (max(c.experts, 1) % x.ep == 0) & (x.dp % x.ep == 0) & (sequence % x.cp == 0)
    even = (c.layers % x.pp == 0) & (most % x.interleave == 0) & (x.micro_batches % x.pp == 0)
    good &= (x.interleave == 1) | (even & (x.pp > 1))
    return np.asarray(good & (x.micro_batches >= 1))
