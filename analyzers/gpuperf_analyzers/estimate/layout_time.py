"""Step time of each configuration from compute, communication by link, and the bubble.

Everything is at the peaks given: a lower bound of the time, and an upper bound of the MFU. Time
that a kernel launch, a norm, the optimizer and waiting for data take is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from gpuperf_analyzers.estimate.activations import RECOMPUTE
from gpuperf_analyzers.estimate.clusters import Cluster
from gpuperf_analyzers.estimate.layout_memory import stage_parameters
from gpuperf_analyzers.estimate.layouts import F64, Layouts, stage_layers
from gpuperf_analyzers.estimate.model_states import PRECISIONS
from gpuperf_analyzers.estimate.transformer import TransformerConfig, token_flops, training_flops

_US = 1e6
ACTIVATION_BYTES = 2


@dataclass(frozen=True, slots=True)
class LayoutTime:
    """Time of a step, µs, of each configuration: parts that add up to ``step``.

    ``compute`` of all micro-batches on the slowest stage; ``tensor``, ``context``, ``expert``,
    ``pipeline``: communication that compute does not hide; ``data`` that of gradients and ZeRO,
    likewise; ``bubble`` the pipeline's filling and draining. ``micro_compute`` is the compute of
    one micro-batch, the ``…_bytes`` what a GPU sends one way in a step, hidden or not.
    """

    compute: F64
    tensor: F64
    context: F64
    expert: F64
    pipeline: F64
    data: F64
    bubble: F64
    micro_compute: F64
    tensor_bytes: F64
    context_bytes: F64
    expert_bytes: F64
    pipeline_bytes: F64
    data_bytes: F64
    mfu: F64

    @property
    def step(self) -> F64:
        """All of it."""
        return np.asarray(sum(getattr(self, part) for part in PARTS))

    @property
    def sent(self) -> F64:
        """Bytes that a GPU sends one way in a step, of every kind."""
        return np.asarray(sum(getattr(self, f"{kind}_bytes") for kind in PARTS[1:6]))


PARTS = ("compute", "tensor", "context", "expert", "pipeline", "data", "bubble")
"""Fields of :class:`LayoutTime` that add up to a step."""


def no_time(count: int) -> LayoutTime:
    """For `count` configurations, where the peak or a link is not known."""
    return LayoutTime(*(np.full(count, np.nan) for _ in fields(LayoutTime)))


def layout_time(
    c: TransformerConfig,
    x: Layouts,
    on: Cluster,
    *,
    sequence: int,
    precision: str = "mixed",
    efficiency: float = 1.0,
) -> LayoutTime:
    """Time of a step of each configuration.

    Parameters
    ----------
    c, x, on
        Model, configurations, cluster.
    sequence
        Tokens a sample.
    precision
        For the bytes of weights and gradients.
    efficiency
        Share of the peak that products reach (``gpuperf mamf`` measures it); 1 for the bound.
    """
    if on.peak_flops_s is None:
        return no_time(len(x))
    rate = on.peak_flops_s * efficiency
    micro = micro_flops(c, x, sequence) / rate * _US
    links = link_rates(x, on)
    sent = _sent(c, x, sequence)
    m = x.micro_batches.astype(np.float64)
    tensor = _time(sent["tensor"], links["tensor"])
    attention = _attention_flops(c, x, sequence) / rate * _US
    context = np.maximum(_time(sent["context"], links["context"]) - attention, 0.0)
    expert = _time(sent["expert"], links["expert"])
    pipeline = _time(sent["pipeline"], links["pipeline"])
    each = micro + tensor + context + expert + pipeline
    per_micro, per_step = _data_bytes(c, x, precision)
    # Gathering and scattering a layer goes on while others compute, the last reduction beside
    # the last backward pass, which is two thirds of the compute.
    hidden = np.maximum(_time(per_micro, links["data"]) - micro, 0.0) * m
    hidden += np.maximum(_time(per_step, links["data"]) - micro * 2 / 3, 0.0)
    bubble = (x.pp - 1) / x.interleave * each
    step = m * each + hidden + bubble
    tokens = float(sequence) * (x.dp * x.micro_batch * x.micro_batches)
    mfu = training_flops(c, 1, sequence) * tokens / (x.gpus * on.peak_flops_s * step / _US)
    return LayoutTime(
        m * micro, m * tensor, m * context, m * expert, m * pipeline, hidden, bubble, micro,
        m * sent["tensor"], m * sent["context"], m * sent["expert"], m * sent["pipeline"],
        m * per_micro + per_step, mfu,
    )  # fmt: skip


def micro_flops(c: TransformerConfig, x: Layouts, sequence: int) -> F64:
    """FLOP that a GPU of the slowest stage executes for one micro-batch, recomputation included.

    Forward once, backward twice; full recomputation makes the layers' forward pass again,
    selective their attention (Korthikanti et al. (2022), section 5).
    """
    each = token_flops(c, sequence)
    most, fewer = stage_layers(c, x.pp)
    again = np.choose(x.recompute, [0.0, float(each.layer_attention), float(each.layer)])
    layer = 3.0 * each.layer + again
    head = 3.0 * each.head
    first = most * layer + np.where(x.pp == 1, head, 0.0)
    slowest = np.maximum(first, fewer * layer + head)
    return np.asarray(slowest * sequence * x.micro_batch / (x.tp * x.cp))


def _attention_flops(c: TransformerConfig, x: Layouts, sequence: int) -> F64:
    most, _ = stage_layers(c, x.pp)
    each = 3.0 * token_flops(c, sequence).layer_attention * most
    return np.asarray(each * sequence * x.micro_batch / (x.tp * x.cp))


def link_rates(x: Layouts, on: Cluster) -> dict[str, F64]:
    """Bytes/s one way that each kind of communication has; ranks are laid tp, cp, dp, pp.

    A data-parallel ring over several nodes uses the network cards of all its members in a node.
    A link that is needed and not known is NaN, so that no number comes of it.
    """
    node = on.gpus_per_node
    unknown = float("nan")
    inside = on.intra_bytes_s or unknown
    outside = on.inter_bytes_s or unknown
    members = np.maximum(node // (x.tp * x.cp), 1)
    return {
        "tensor": np.where(x.tp <= node, inside, outside),
        "context": np.where(x.tp * x.cp <= node, inside, outside),
        "expert": np.where(x.tp * x.cp * x.ep <= node, inside, outside),
        "pipeline": np.where(x.tp * x.cp * x.dp * x.pp <= node, inside, outside),
        "data": np.where(x.tp * x.cp * x.dp <= node, inside, np.minimum(inside, outside * members)),
    }


def _sent(c: TransformerConfig, x: Layouts, sequence: int) -> dict[str, F64]:
    """Bytes that a GPU sends one way for one micro-batch, forward and backward, by kind."""
    most, _ = stage_layers(c, x.pp)
    values = ACTIVATION_BYTES * sequence * x.micro_batch / x.cp
    reduces = np.where(x.recompute == RECOMPUTE.index("full"), 6, 4)
    tensor = most * reduces * 2 * (x.tp - 1) / x.tp * values * c.hidden
    # Keys and values go round once forward; backward they do again, with their gradients.
    context = most * 3 * (x.cp - 1) * 2 * values * c.kv_width / x.tp
    routed = values * c.hidden * c.experts_per_token / x.tp
    expert = most * 4 * (x.ep - 1) / x.ep * routed
    # With sequence parallelism each rank of a tensor-parallel group sends its part on.
    split = np.where(x.sequence_parallel == 1, x.tp, 1)
    pipeline = np.where(x.pp > 1, 2 * x.interleave * values * c.hidden / split, 0.0)
    return {"tensor": tensor, "context": context, "expert": expert, "pipeline": pipeline}


def _data_bytes(c: TransformerConfig, x: Layouts, precision: str) -> tuple[F64, F64]:
    """Bytes sent one way for gradients and ZeRO: a micro-batch, and an update.

    Stage 0 all-reduces gradients once an update, stage 1 scatters them and gathers weights, as
    much together; stage 2 scatters gradients of each micro-batch, as it keeps only its share;
    stage 3 gathers the weights forward and backward too (ZeRO, section 7).
    """
    kind = PRECISIONS[precision]
    first, end = (stage_parameters(c, x, last=last) for last in (False, True))
    held = np.maximum(first.dense, end.dense)
    experts = np.maximum(first.experts, end.experts)
    group = (x.dp * x.cp).astype(np.float64)
    ring = held * (group - 1) / group + experts * (group / x.ep - 1) / (group / x.ep)
    update = np.choose(
        x.zero, [2 * kind.gradient * ring, (kind.gradient + kind.weight) * ring,
                 kind.weight * ring, 0 * ring],
    )  # fmt: skip
    micro = np.choose(
        x.zero, [0 * ring, 0 * ring, kind.gradient * ring,
                 (kind.gradient + 2 * kind.weight) * ring],
    )  # fmt: skip
    return np.asarray(micro), np.asarray(update)


def _time(sent: F64, one_way: F64) -> F64:
    """µs of `sent` bytes; 0 where nothing is sent, whatever is known of the link."""
    return np.where(sent > 0, sent / one_way * _US, 0.0)
