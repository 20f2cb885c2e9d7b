"""Published rules of thumb by size of model and cluster, as notes beside a search's numbers."""

from __future__ import annotations

from dataclasses import dataclass

from gpuperf_analyzers.estimate.terms import PLAYBOOK
from gpuperf_analyzers.estimate.transformer import TransformerConfig, parameters

LONG_SEQUENCE = 32768
FEW_GPUS = 8


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that applies, in words, and where it is published."""

    text: str
    source: str = PLAYBOOK


def rules_for(c: TransformerConfig, gpus: int, sequence: int) -> tuple[Rule, ...]:
    """The rules that apply to `c` on `gpus` GPUs with `sequence` tokens a sample.

    They are notes: the search ranks by its own numbers, and where the two differ the reader
    should know both.
    """
    return tuple(
        Rule(text)
        for text in (
            _by_size(parameters(c).total, gpus),
            _by_gpus(gpus),
            *_others(c, gpus, sequence),
        )
        if text
    )


def _by_size(count: int, gpus: int) -> str:
    if gpus <= 1:
        return ""
    if count < 10e9:
        return "under 10B parameters one technique over 8 GPUs will do: TP, or ZeRO-3"
    if count <= 100e9:
        return "10B to 100B parameters: TP=8 with PP, TP=8 with ZeRO-3, or ZeRO-3 alone"
    return "over 100B parameters: TP=8 inside the node, PP between nodes, then data parallelism"


def _by_gpus(gpus: int) -> str:
    if gpus >= 1024:
        return "from 1,024 GPUs: TP=8 with data parallelism (ZeRO-2) and PP"
    if gpus >= 512:
        return (
            "from 512 GPUs pure data parallelism or ZeRO-3 begins to wait for communication: "
            "combine it with TP or PP"
        )
    return ""


def _others(c: TransformerConfig, gpus: int, sequence: int) -> tuple[str, ...]:
    found = []
    if sequence >= LONG_SEQUENCE:
        found.append("long sequences: context parallelism between nodes")
    if c.experts:
        found.append("experts: expert parallelism")
    if gpus <= FEW_GPUS:
        found.append(
            "few GPUs: full recomputation, and accumulation of gradients for a large batch; "
            "slower, but it fits"
        )
    return tuple(found)
