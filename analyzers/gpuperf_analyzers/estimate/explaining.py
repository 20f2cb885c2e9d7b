"""One configuration step by step: it fits, it reaches the batch, and how fast it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuperf_analyzers.estimate.activations import RECOMPUTE
from gpuperf_analyzers.estimate.communication import tp_bound, tp_bound_megatron
from gpuperf_analyzers.estimate.layout_memory import stage_parameters
from gpuperf_analyzers.estimate.layout_time import link_rates
from gpuperf_analyzers.estimate.layouts import stage_layers
from gpuperf_analyzers.estimate.model_states import state_bytes
from gpuperf_analyzers.estimate.searching import Found
from gpuperf_analyzers.estimate.terms import (
    COUNTED,
    DEFINITION,
    GSHARD,
    KORTHIKANTI,
    MEGATRON,
    MIXED,
    NARAYANAN,
    PALM,
    RING,
    RING_ATTENTION,
    ZERO,
    EstimateError,
    Term,
)
from gpuperf_analyzers.estimate.transformer import parameters, training_flops

_US = 1e6


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the explanation: a question, and the terms that answer it."""

    title: str
    terms: tuple[Term, ...]


def explain(found: Found, place: int = 1) -> tuple[Step, ...]:
    """The configuration at `place` (1 is the best), step by step, each number with its formula.

    Raises
    ------
    EstimateError
        There are not so many configurations.
    """
    if not 1 <= place <= len(found.order):
        raise EstimateError(f"there is no configuration {place}: 1 to {len(found.order)} fit")
    i = int(found.order[place - 1])
    steps = [
        Step("1. The model fits in memory", _memory(found, i)),
        Step("2. The batch is reached", _batch(found, i)),
        Step("3. Throughput", _throughput(found, i)),
        Step("Communication of a step by link, hidden or not", _links(found, i)),
    ]
    steps.append(Step("How far tensor parallelism carries", _bounds(found)))
    return tuple(step for step in steps if step.terms)


def _memory(found: Found, i: int) -> tuple[Term, ...]:
    m, x, c = found.memory, found.layouts, found.model
    each = state_bytes(found.optimizer, found.precision)
    one = x.take(slice(i, i + 1))  # type: ignore[arg-type] # a slice keeps arrays of one
    last = bool(m.last_stage[i])
    on = stage_parameters(c, one, last=last)
    held = float(on.dense[0] + on.experts[0])
    most, fewer = (int(v[0]) for v in stage_layers(c, one.pp))
    ways, zero = int(x.dp[i] * x.cp[i]), int(x.zero[i])
    stage = "last" if last else "first"

    def share(from_stage: int) -> str:
        return f" / {ways} (ZeRO-{zero})" if zero >= from_stage else ""

    recompute = RECOMPUTE[int(x.recompute[i])]
    layers = fewer if last else most
    source = KORTHIKANTI if found.counting == "megatron" else COUNTED
    limit = found.cluster.memory_bytes
    terms = [
        Term("parameters on this GPU", held, "count",
             f"{stage} stage of {int(x.pp[i])}: {layers} layers / tp {int(x.tp[i])}", COUNTED),
        Term("weights", float(m.weights[i]), "bytes", f"{each.weight:g} × parameters{share(3)}",
             MIXED if zero < 3 else ZERO),
        Term("gradients", float(m.gradients[i]), "bytes",
             f"{each.gradient:g} × parameters{share(2)}", MIXED if zero < 2 else ZERO),
        Term("optimizer state", float(m.optimizer[i]), "bytes",
             f"{each.optimizer:g} × parameters{share(1)}", MIXED if zero < 1 else ZERO),
        Term("activations", float(m.activations[i]), "bytes",
             f"{layers} layers × {m.in_flight[i]:.4g} micro-batches in flight, {recompute} "
             f"recomputation, {found.counting}; head's logits where the stage has it", source),
        Term("working space", float(m.working[i]), "bytes",
             "a layer being made again; two layers gathered by ZeRO-3", DEFINITION),
        Term("in all", float(m.total[i]), "bytes", "sum", DEFINITION),
    ]  # fmt: skip
    if limit is not None:
        terms.append(
            Term("of the GPU's memory", float(m.total[i]) / limit, "fraction",
                 f"/ {limit / 1e9:g} GB; {found.headroom:.0%} is to stay free", DEFINITION)
        )  # fmt: skip
    return tuple(terms)


def _batch(found: Found, i: int) -> tuple[Term, ...]:
    x = found.layouts
    dp, size, steps = (int(v[i]) for v in (x.dp, x.micro_batch, x.micro_batches))
    batch = dp * size * steps
    return (
        Term("replicas", dp, "count",
             f"{int(x.gpus[i])} GPUs / (tp {int(x.tp[i])} × pp {int(x.pp[i])} × cp "
             f"{int(x.cp[i])})", DEFINITION),
        Term("micro-batches accumulated", steps, "count",
             f"{batch} samples / ({dp} replicas × micro batch {size})", DEFINITION),
        Term("tokens an update", batch * found.sequence, "count",
             f"{batch} samples × {found.sequence}", DEFINITION),
        Term("micro-batches that fill the pipeline", int(x.pp[i]) * dp, "count",
             f"pp {int(x.pp[i])} × {dp} replicas; there are {steps * dp}", DEFINITION),
    )  # fmt: skip


def _throughput(found: Found, i: int) -> tuple[Term, ...]:
    t, x, c = found.time, found.layouts, found.model
    if math.isnan(float(t.step[i])):
        return (Term("step time", None, "us", found.reason, DEFINITION),)
    batch = float(x.dp[i] * x.micro_batch[i] * x.micro_batches[i])
    flops = training_flops(c, batch * found.sequence, found.sequence)
    v, pp = int(x.interleave[i]), int(x.pp[i])
    m = int(x.micro_batches[i])
    rate = f"{(found.cluster.peak_flops_s or 0) / 1e12:g} TFLOPS × {found.efficiency:g}"
    parts = [
        ("compute", t.compute, f"{m} × executed FLOP of the slowest stage / {rate}", KORTHIKANTI),
        ("tensor-parallel communication", t.tensor,
         _sent(float(t.tensor_bytes[i]), "4 all-reduces of 2·s·b·h a layer, 6 with full "
               "recomputation; none is hidden"), f"{MEGATRON}; {RING}"),
        ("context-parallel communication", t.context,
         _sent(float(t.context_bytes[i]), "keys and values round the ring, beyond the time of "
               "attention"), RING_ATTENTION),
        ("expert-parallel communication", t.expert,
         _sent(float(t.expert_bytes[i]), "4 all-to-alls a layer; none is hidden"), GSHARD),
        ("pipeline communication", t.pipeline,
         _sent(float(t.pipeline_bytes[i]), "2·s·b·h each way a micro-batch; none is hidden"),
         NARAYANAN),
        ("gradients and ZeRO", t.data,
         _sent(float(t.data_bytes[i]), f"ZeRO-{int(x.zero[i])}; beyond the compute beside it"),
         f"{ZERO}; {RING}"),
        ("bubble", t.bubble, f"({pp} - 1)/({v}·{m}) of the time of the micro-batches", NARAYANAN),
    ]  # fmt: skip
    terms = [Term(n, float(value[i]), "us", f, source) for n, value, f, source in parts]
    terms += [
        Term("step", float(t.step[i]), "us", "sum", DEFINITION),
        Term("model FLOP", flops, "FLOP", "3 × forward, matrix by matrix", COUNTED),
        Term("MFU", float(t.mfu[i]), "fraction",
             f"model FLOP / ({int(x.gpus[i])} GPUs × peak × step)", PALM),
        Term("tokens/s", batch * found.sequence / float(t.step[i]) * _US, "count",
             "tokens an update / step", DEFINITION),
    ]  # fmt: skip
    return tuple(terms)


def _sent(sent: float, what: str) -> str:
    return f"{sent / 1e9:.4g} GB a GPU and step: {what}" if sent else f"none: {what}"


_KINDS = {
    "tensor": ("tensor-parallel", f"{MEGATRON}; {RING}"),
    "context": ("context-parallel", RING_ATTENTION),
    "expert": ("expert-parallel", GSHARD),
    "pipeline": ("pipeline", NARAYANAN),
    "data": ("gradients and ZeRO", f"{ZERO}; {RING}"),
}


def _links(found: Found, i: int) -> tuple[Term, ...]:
    """Bytes of each kind, the link that they go over, and their time on it; and the ratio."""
    one = found.layouts.take(slice(i, i + 1))  # type: ignore[arg-type] # keeps arrays of one
    inside = found.cluster.intra_bytes_s
    terms = []
    whole = 0.0
    for kind, rate in link_rates(one, found.cluster).items():
        name, source = _KINDS[kind]
        sent = float(getattr(found.time, f"{kind}_bytes")[i])
        one_way = float(rate[0])
        if not sent > 0:
            continue
        if math.isnan(one_way):
            terms.append(Term(name, None, "us", "the link's bandwidth is not known", source))
            continue
        where = "in the node" if one_way == inside else "between nodes"
        took = sent / one_way * _US
        whole += took
        what = f"{sent / 1e9:.4g} GB one way / {one_way / 1e9:g} GB/s {where}"
        terms.append(Term(name, took, "us", what, source))
    if whole:
        ratio = float(found.time.compute[i]) / whole
        terms.append(
            Term("compute / communication", ratio, "count", "time of compute / sum", DEFINITION)
        )
    return tuple(terms)


def _bounds(found: Found) -> tuple[Term, ...]:
    """The largest TP that is not bound by communication, by two formulas, in one direction."""
    on, c = found.cluster, found.model
    if on.peak_flops_s is None or on.intra_bytes_s is None:
        return ()
    way = f"{on.intra_bytes_s / 1e9:g} GB/s one way"
    peak = f"{on.peak_flops_s / 1e12:g} TFLOPS"
    p = parameters(c)
    layer = p.attention + p.active_mlp
    return (
        Term("TP, to plan with", tp_bound_megatron(
            c.hidden, on.peak_flops_s, on.intra_bytes_s, layer_parameters=layer),
            "count", f"t ≤ 1 + 6·P/(16·h)·bw/peak, P of a layer; {way}, {peak}; four ring "
            "all-reduces a layer", f"{MEGATRON}; {RING}"),
        Term("TP, simplified", tp_bound(c.hidden, on.peak_flops_s, on.intra_bytes_s), "count",
             f"t ≤ 3·h·bw/peak; {way}, {peak}", DEFINITION),
    )  # fmt: skip
