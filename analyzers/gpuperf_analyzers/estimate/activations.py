"""Bytes of activations that a layer keeps for its backward pass, and a model at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from gpuperf_analyzers.estimate.terms import COUNTED, KORTHIKANTI, EstimateError, Term
from gpuperf_analyzers.estimate.transformer import TransformerConfig

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Amount: TypeAlias = float | npt.NDArray[np.float64]

Recompute = Literal["none", "selective", "full"]
RECOMPUTE: tuple[Recompute, ...] = ("none", "selective", "full")
Counting = Literal["megatron", "tensors"]
COUNTINGS: tuple[Counting, ...] = ("megatron", "tensors")


def megatron_layer_bytes(
    c: TransformerConfig,
    sequence: Amount,
    batch: Amount,
    *,
    tp: Amount = 1,
    sequence_parallel: bool = False,
    recompute: Recompute = "selective",
) -> Amount:
    """Bytes of one layer by Megatron's formula, in two-byte activations.

    s·b·h·(10 + 24/t) with selective recomputation; 34/t in the bracket with sequence
    parallelism; plus 5·a·s/(h·t) without recomputation; 2·s·b·h with full recomputation (that
    shards only where the input of a layer does, with sequence parallelism). The formula is for a
    GELU of four hidden widths, one key-value head a head, and dropout.
    """
    _checked(recompute)
    unit = sequence * batch * c.hidden
    if recompute == "full":
        return 2 * unit / (tp if sequence_parallel else 1)
    factor = 34 / tp if sequence_parallel else 10 + 24 / tp
    if recompute == "none":
        factor += 5 * c.heads * sequence / (c.hidden * tp)
    return unit * factor


def layer_tensors(
    c: TransformerConfig,
    sequence: Amount,
    batch: Amount,
    *,
    tp: Amount = 1,
    sequence_parallel: bool = False,
    recompute: Recompute = "selective",
) -> dict[str, Amount]:
    """Bytes of each tensor that one layer keeps, from the config's own widths.

    With a GELU of four hidden widths, one key-value head a head and dropout the sum is
    Megatron's. ``selective`` keeps no scores: they are made again, by checkpointing them or by a
    fused (flash) attention, which keeps one fp32 number a row beside its output.
    Norms are taken to be fused: each keeps its input. Of experts each token's own are counted,
    spread evenly.
    """
    _checked(recompute)
    rows = sequence * batch
    whole = rows / (tp if sequence_parallel else 1)
    part = rows / tp
    if recompute == "full":
        return {"input of the layer": 2 * whole * c.hidden}
    per_token = max(c.experts_per_token, 1)
    kept = {
        "inputs of both norms": 2 * 2 * whole * c.hidden,
        "input of query, key and value": 2 * whole * c.hidden,
        "queries": 2 * part * c.query_width,
        "keys and values": 2 * 2 * part * c.kv_width,
        "output of attention": 2 * part * c.query_width,
        "input of the feed-forward part": 2 * whole * c.hidden * per_token,
        "inside the feed-forward part": (4 if c.gated else 2) * 2 * part * c.ffn * per_token,
    }
    if c.dropout:
        kept["masks of dropout"] = 2 * whole * c.hidden
    if recompute == "none":
        scores = c.heads * sequence * part
        kept["scores"] = 2 * scores
        if c.dropout:
            kept["scores after dropout, and their mask"] = 3 * scores
    else:
        kept["row sums of attention"] = 4 * part * c.heads
    return kept


def layer_bytes(
    c: TransformerConfig,
    sequence: Amount,
    batch: Amount,
    *,
    tp: Amount = 1,
    sequence_parallel: bool = False,
    recompute: Recompute = "selective",
    counting: Counting = "megatron",
) -> Amount:
    """Bytes of one layer, counted by Megatron's formula or tensor by tensor.

    Sizes may be arrays, one entry a configuration; so may those of the other functions here.
    """
    if counting == "megatron":
        return megatron_layer_bytes(
            c, sequence, batch,
            tp=tp, sequence_parallel=sequence_parallel, recompute=recompute,
        )  # fmt: skip
    kept = layer_tensors(
        c, sequence, batch, tp=tp, sequence_parallel=sequence_parallel, recompute=recompute
    )
    return sum(kept.values())


def head_bytes(c: TransformerConfig, sequence: Amount, batch: Amount, tp: Amount = 1) -> Amount:
    """Bytes that the last stage keeps beside its layers: norm's and head's inputs, fp32 logits."""
    rows = sequence * batch
    return 2 * 2 * rows * c.hidden + 4 * rows * c.vocabulary / tp


def activation_term(
    c: TransformerConfig,
    sequence: int,
    batch: float,
    recompute: Recompute = "selective",
    counting: Counting = "megatron",
) -> Term:
    """Bytes of all layers' activations on one device, one batch in flight."""
    layer = layer_bytes(c, sequence, batch, recompute=recompute, counting=counting)
    value = float(c.layers * layer)
    if recompute == "full":
        return Term("activations", value, "bytes", "2·s·b·h·L", KORTHIKANTI)
    if counting == "tensors":
        what = "L·Σ bytes of the tensors kept a layer"
        return Term("activations, tensor by tensor", value, "bytes", what, COUNTED)
    formula = "34·s·b·h·L" if recompute == "selective" else "(34·s·b·h + 5·a·s²·b)·L"
    return Term("activations, Megatron", value, "bytes", formula, KORTHIKANTI)


def _checked(recompute: str) -> None:
    if recompute not in RECOMPUTE:
        raise EstimateError(f"recomputation {recompute!r} is unknown: write {', '.join(RECOMPUTE)}")
