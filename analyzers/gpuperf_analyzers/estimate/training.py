"""A model's training memory as one sum, without a layout: does it fit, and on how many cards."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuperf_analyzers.estimate.activations import Counting, Recompute, activation_term
from gpuperf_analyzers.estimate.model_states import model_state_terms
from gpuperf_analyzers.estimate.terms import EstimateError, Term, total
from gpuperf_analyzers.estimate.transformer import TransformerConfig, flop_terms, parameters


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    """What training takes, laid out on nothing yet.

    ``memory`` are the terms that add up to ``total_bytes``, ``flops`` FLOP of a step by three
    counts; ``other_activations`` the activations by the other formula, not in the sum.
    """

    model: TransformerConfig
    parameters: float
    sequence: int
    batch: int
    memory: tuple[Term, ...]
    flops: tuple[Term, ...]
    other_activations: Term

    @property
    def total_bytes(self) -> float:
        """Sum of ``memory``."""
        return total(self.memory)

    def cards(self, card_bytes: float) -> int:
        """Cards of `card_bytes` each whose memory holds it, nothing left over or shared out badly.

        A card of 80 GB has 80e9 bytes.
        """
        if not card_bytes > 0:
            raise EstimateError(f"a card of {card_bytes:g} bytes holds nothing")
        return math.ceil(self.total_bytes / card_bytes)


def training_estimate(
    c: TransformerConfig,
    *,
    batch: int = 1,
    sequence: int | None = None,
    optimizer: str = "adam",
    precision: str = "mixed",
    recompute: Recompute = "selective",
    counting: Counting = "megatron",
    count: float | None = None,
) -> TrainingEstimate:
    """Memory and FLOP of a training step of `batch` samples.

    Parameters
    ----------
    c
        The model.
    batch, sequence
        Samples at once and tokens each; the model's own length by default.
    optimizer, precision
        As for :func:`~.model_states.state_bytes`.
    recompute, counting
        As for :func:`~.activations.layer_bytes`.
    count
        Parameters in place of the config's own: 70e9 for "70B", which has 68.98e9.
    """
    s = c.sequence if sequence is None else sequence
    if not 1 <= s <= 10**9 or not 1 <= batch <= 10**9:
        raise EstimateError(f"{batch} samples of {s} tokens: 1 to 1e9 of each")
    n = float(parameters(c).total if count is None else count)
    if not (n > 0 and math.isfinite(n)):
        raise EstimateError(f"{n:g} parameters: above 0")
    states = model_state_terms(n, optimizer=optimizer, precision=precision)
    kept = activation_term(c, s, batch, recompute, counting)
    other: Counting = "tensors" if counting == "megatron" else "megatron"
    return TrainingEstimate(
        c, n, s, batch, (*states, kept), flop_terms(c, float(batch) * s, s, count),
        activation_term(c, s, batch, recompute, other),
    )  # fmt: skip
