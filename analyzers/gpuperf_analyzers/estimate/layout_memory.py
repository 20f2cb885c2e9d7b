"""Bytes a GPU of each configuration: the fuller of a pipeline's first and last stage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuperf_analyzers.estimate.activations import RECOMPUTE, Counting, head_bytes, layer_bytes
from gpuperf_analyzers.estimate.layouts import F64, I64, Layouts, stage_layers
from gpuperf_analyzers.estimate.model_states import state_bytes
from gpuperf_analyzers.estimate.transformer import TransformerConfig, parameters


@dataclass(frozen=True, slots=True)
class StageParameters:
    """Parameters on one GPU of a stage: those that all replicas share, and experts."""

    dense: F64
    experts: F64


@dataclass(frozen=True, slots=True)
class LayoutMemory:
    """Bytes on the fullest GPU of each configuration, by kind.

    ``last_stage`` is 1 where the last stage is the fullest, 0 where the first is. ``working``
    is what a layer under recomputation, or a layer gathered by ZeRO-3, takes beside the rest.
    """

    weights: F64
    gradients: F64
    optimizer: F64
    activations: F64
    working: F64
    last_stage: I64
    in_flight: F64

    @property
    def total(self) -> F64:
        """All of it."""
        kinds = (self.weights, self.gradients, self.optimizer, self.activations, self.working)
        return np.asarray(sum(kinds))


def stage_parameters(c: TransformerConfig, x: Layouts, *, last: bool) -> StageParameters:
    """Parameters on one GPU of the first or last stage of each configuration."""
    p = parameters(c)
    most, fewer = stage_layers(c, x.pp)
    held = fewer if last else most
    # Key and value heads that are fewer than tp are held by several ranks.
    kv = 2 * c.hidden * c.kv_width
    copies = np.maximum(x.tp / c.kv_heads, 1.0)
    router = c.hidden * c.experts
    expert = (p.mlp - router) if c.experts else 0
    sharded = p.attention - kv + (0 if c.experts else p.mlp)
    layer = sharded / x.tp + kv * copies / x.tp + router + p.norms
    ends = np.zeros(len(x))
    if last:
        # A tied head is a second copy of the table, on another stage.
        head = np.where(x.pp > 1, p.head or c.vocabulary * c.hidden, p.head)
        ends += head / x.tp + p.final_norm
    ends += np.where((x.pp == 1) | (not last), p.embedding / x.tp, 0.0)
    if not last:
        ends += np.where(x.pp == 1, p.head / x.tp + p.final_norm, 0.0)
    return StageParameters(held * layer + ends, held * expert / (x.tp * x.ep))


def in_flight(x: Layouts) -> F64:
    """Micro-batches whose activations the first stage holds (see ``in_flight_1f1b``)."""
    held = np.where(x.interleave == 1, x.pp, x.pp + (x.pp - 1) / x.interleave)
    return np.asarray(np.minimum(held, x.micro_batches), dtype=np.float64)


def layout_memory(
    c: TransformerConfig,
    x: Layouts,
    *,
    sequence: int,
    optimizer: str = "adam",
    precision: str = "mixed",
    counting: Counting = "tensors",
) -> LayoutMemory:
    """Bytes a GPU of each configuration, on the stage that needs most."""
    first = _stage(c, x, sequence, optimizer, precision, counting, last=False)
    end = _stage(c, x, sequence, optimizer, precision, counting, last=True)
    worse = np.asarray(end.total > first.total) & (x.pp > 1)

    def pick(of_end: F64, of_first: F64) -> F64:
        return np.where(worse, of_end, of_first)

    return LayoutMemory(
        pick(end.weights, first.weights),
        pick(end.gradients, first.gradients),
        pick(end.optimizer, first.optimizer),
        pick(end.activations, first.activations),
        pick(end.working, first.working),
        worse.astype(np.int64),
        pick(end.in_flight, first.in_flight),
    )


def _stage(
    c: TransformerConfig,
    x: Layouts,
    sequence: int,
    optimizer: str,
    precision: str,
    counting: Counting,
    *,
    last: bool,
) -> LayoutMemory:
    each = state_bytes(optimizer, precision)
    on = stage_parameters(c, x, last=last)
    shared = (x.dp * x.cp).astype(np.float64)
    of_experts = shared / x.ep

    def sharded(amount: float, from_stage: int) -> F64:
        by, by_experts = (np.where(x.zero >= from_stage, w, 1.0) for w in (shared, of_experts))
        return np.asarray(amount * (on.dense / by + on.experts / by_experts))

    layer, working = layer_activations(c, x, sequence, counting)
    most, fewer = stage_layers(c, x.pp)
    flying = np.ones(len(x)) if last else in_flight(x)
    kept = layer * (fewer if last else most) * flying
    rows_ends = np.where((x.pp == 1) | last, 1.0, 0.0)
    samples, tp = x.micro_batch.astype(np.float64), x.tp.astype(np.float64)
    kept += rows_ends * head_bytes(c, sequence / x.cp, samples, tp)
    # Two layers' weights are whole at a time: the one at work and the one being gathered.
    whole_layer = (on.dense + on.experts) / (fewer if last else most)
    gathered = np.where(x.zero == 3, 2 * each.weight * whole_layer, 0.0)
    return LayoutMemory(
        sharded(each.weight, 3),
        sharded(each.gradient, 2),
        sharded(each.optimizer, 1),
        kept,
        working + gathered,
        np.full(len(x), int(last)),
        flying,
    )


def layer_activations(
    c: TransformerConfig, x: Layouts, sequence: int, counting: Counting
) -> tuple[F64, F64]:
    """Bytes that a layer keeps for one micro-batch, and those of a layer made again at once."""
    kept = np.zeros(len(x))
    working = np.zeros(len(x))
    for code, recompute in enumerate(RECOMPUTE):
        for split in (0, 1):
            mine = (x.recompute == code) & (x.sequence_parallel == split)
            if not mine.any():
                continue
            sizes = (sequence / x.cp[mine], x.micro_batch[mine].astype(np.float64))
            tp = x.tp[mine].astype(np.float64)
            kept[mine] = layer_bytes(
                c, *sizes, tp=tp, sequence_parallel=bool(split), recompute=recompute,
                counting=counting,
            )  # fmt: skip
            if recompute == "full":
                working[mine] = layer_bytes(
                    c, *sizes, tp=tp, sequence_parallel=bool(split), recompute="selective",
                    counting=counting,
                )  # fmt: skip
    return kept, working
