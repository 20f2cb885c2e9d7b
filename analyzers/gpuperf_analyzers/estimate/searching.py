"""Configurations that fit, ranked by predicted step time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpuperf_analyzers.estimate.activations import RECOMPUTE, Counting
from gpuperf_analyzers.estimate.clusters import Cluster
from gpuperf_analyzers.estimate.layout_memory import LayoutMemory, layout_memory
from gpuperf_analyzers.estimate.layout_time import PARTS, LayoutTime, layout_time
from gpuperf_analyzers.estimate.layouts import Layouts, all_layouts
from gpuperf_analyzers.estimate.terms import EstimateError
from gpuperf_analyzers.estimate.transformer import TransformerConfig

if TYPE_CHECKING:
    import pandas as pd

HEADROOM = 0.1
"""Share of memory left to the context, to communication buffers and to fragmentation."""

COLUMNS = (
    "rank", "tp", "pp", "cp", "ep", "dp", "zero", "micro_batch", "micro_batches", "recompute",
    "interleave", "sequence_parallel", "step_us", "mfu", "memory_bytes", "fits",
    "binds", "binds_share", "next",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found: configurations in order, the best first.

    ``tried`` counts configurations that could run, ``fitting`` those that fit the memory;
    ``reason`` says why times are missing, "" where they are not.
    """

    model: TransformerConfig
    cluster: Cluster
    gpus: int
    batch: int
    sequence: int
    optimizer: str
    precision: str
    counting: Counting
    efficiency: float
    headroom: float
    layouts: Layouts
    memory: LayoutMemory
    time: LayoutTime
    order: npt.NDArray[np.int64]
    tried: int
    fitting: int
    reason: str = ""

    def rows(self, most: int | None = None) -> list[dict[str, Any]]:
        """The best `most` configurations as plain numbers, keys as in :data:`COLUMNS`."""
        return [self._row(place, i) for place, i in enumerate(self.order[:most].tolist(), 1)]

    def _row(self, place: int, i: int) -> dict[str, Any]:
        x = self.layouts
        row: dict[str, Any] = {"rank": place}
        for name in ("tp", "pp", "cp", "ep", "dp", "zero", "micro_batch", "micro_batches"):
            row[name] = int(getattr(x, name)[i])
        row["recompute"] = RECOMPUTE[int(x.recompute[i])]
        row["interleave"] = int(x.interleave[i])
        row["sequence_parallel"] = bool(x.sequence_parallel[i])
        row["step_us"] = _known(self.time.step[i])
        row["mfu"] = _known(self.time.mfu[i])
        row["memory_bytes"] = float(self.memory.total[i])
        row["fits"] = bool(self.memory.total[i] <= self.usable_bytes)
        row["binds"], row["binds_share"], row["next"] = self._binds(i, fits=row["fits"])
        return row

    @property
    def usable_bytes(self) -> float:
        """Memory of a GPU less the headroom; infinite where it is not known."""
        memory = self.cluster.memory_bytes
        return float("inf") if memory is None else memory * (1 - self.headroom)

    def _binds(self, i: int, *, fits: bool) -> tuple[str, float | None, str]:
        """What binds configuration `i`, its share of the step, and the largest other part.

        Memory where it does not fit, and where no time is known.
        """
        parts = {part: float(getattr(self.time, part)[i]) for part in PARTS}
        step = sum(parts.values())
        if not fits or np.isnan(step):
            return "memory", None, ""
        first, second = sorted(parts, key=lambda part: -parts[part])[:2]
        return first, parts[first] / step, second if parts[second] > 0 else ""

    def to_frame(self) -> pd.DataFrame:
        """One row a configuration that fits, the best first."""
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=list(COLUMNS))


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def search(
    c: TransformerConfig,
    on: Cluster,
    *,
    gpus: int,
    batch: int,
    sequence: int | None = None,
    optimizer: str = "adam",
    precision: str = "mixed",
    counting: Counting = "tensors",
    efficiency: float = 1.0,
    headroom: float = HEADROOM,
    recompute: Sequence[str] = RECOMPUTE,
    zero: Sequence[int] = (0, 1, 2, 3),
    layouts: Layouts | None = None,
) -> Found:
    """The configurations of `gpus` GPUs that fit, by predicted step time.

    Of equal times the one that sends fewer bytes comes first, then the one that holds fewer.

    Parameters
    ----------
    c, on
        The model and the cluster.
    gpus, batch, sequence
        GPUs in all, samples an update, tokens a sample (the model's own by default).
    optimizer, precision, counting
        As for :func:`~.model_states.state_bytes` and :func:`~.activations.layer_bytes`.
    efficiency
        Share of the peak that products reach.
    headroom
        Share of a GPU's memory that is left free.
    recompute, zero
        Kinds and stages to try.
    layouts
        Configurations to judge instead of all; those that do not fit stay in then.

    Raises
    ------
    EstimateError
        A size that cannot be, or a GPU whose memory is not known.
    """
    s = c.sequence if sequence is None else sequence
    if not 1 <= s <= 10**9:
        raise EstimateError(f"a sequence of {s} tokens: 1 or more")
    if not 0 < efficiency <= 1:
        raise EstimateError(f"an efficiency of {efficiency:g}: above 0, and 1 at most")
    if not 0 <= headroom < 1:
        raise EstimateError(f"a headroom of {headroom:g}: 0 or more, and below 1")
    asked = layouts is not None
    if layouts is None:
        if on.memory_bytes is None:
            raise EstimateError(
                f"the memory of {on.gpu!r} is not known: give --gpu-memory, such as 80GB"
            )
        layouts = all_layouts(c, gpus=gpus, batch=batch, sequence=s, recompute=recompute, zero=zero)
    memory = layout_memory(
        c, layouts, sequence=s, optimizer=optimizer, precision=precision, counting=counting
    )
    time = layout_time(c, layouts, on, sequence=s, precision=precision, efficiency=efficiency)
    usable = np.inf if on.memory_bytes is None else on.memory_bytes * (1 - headroom)
    fits = memory.total <= usable
    kept = np.arange(len(layouts)) if asked else np.flatnonzero(fits)
    # Of equal times the one that sends less comes first, then the one that holds less. Unknown
    # times sort last, by numpy's rule for NaN.
    order = kept[np.lexsort((memory.total[kept], time.sent[kept], time.step[kept]))]
    return Found(
        c, on, gpus, batch, s, optimizer, precision, counting, efficiency, headroom,
        layouts, memory, time, order, len(layouts), int(fits.sum()), _reason(on, time, order),
    )  # fmt: skip


def _reason(on: Cluster, time: LayoutTime, order: npt.NDArray[np.int64]) -> str:
    """Why times are missing."""
    if on.peak_flops_s is None:
        return f"no dense peak of {on.gpu!r} is known, so no time and no MFU; give --tflops"
    if len(order) and np.isnan(time.step[order]).any():
        links = (("--link", on.intra_bytes_s), ("--network", on.inter_bytes_s))
        missing = " and ".join(option for option, known in links if known is None)
        return (
            "a link's bandwidth is not known, and configurations that need it have no time: "
            f"give {missing}"
        )
    return ""


def heat_map(found: Mapping[tuple[str, int], Found]) -> dict[str, Any]:
    """The best configuration of each model on each number of nodes, as rows of numbers.

    ``models`` and ``nodes`` name rows and columns; ``mfu``, ``step_us`` and ``memory_bytes`` hold
    one row a model, None where nothing fits or no time is known; ``fits`` says which.
    """
    models = list(dict.fromkeys(model for model, _ in found))
    nodes = sorted({n for _, n in found})
    table: dict[str, Any] = {"models": models, "nodes": nodes, "fits": []}
    values = ("mfu", "step_us", "memory_bytes")
    table.update({value: [] for value in values})
    for model in models:
        best = [found[model, n].rows(1) if (model, n) in found else [] for n in nodes]
        for value in values:
            table[value].append([rows[0][value] if rows else None for rows in best])
        table["fits"].append([bool(rows) for rows in best])
    return table
