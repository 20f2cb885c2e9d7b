"""One line of an estimate: a number with its formula and where the formula stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class EstimateError(ValueError):
    """What was asked for cannot be estimated: one line that names it and the mend."""


@dataclass(frozen=True, slots=True)
class Term:
    """A named number of an estimate.

    Attributes
    ----------
    name
        What it is, in words.
    value
        The number, in `unit`; None where it cannot be had, `formula` then says why.
    unit
        ``bytes``, ``FLOP``, ``us``, ``count``, ``fraction``, ``GB/s``.
    formula
        The formula with its letters, and with the numbers put in where that helps.
    source
        The publication or definition that the formula is from.
    """

    name: str
    value: float | None
    unit: str
    formula: str
    source: str


def total(terms: Iterable[Term]) -> float:
    """Sum of the values of `terms` that have one, in their unit."""
    return sum(term.value for term in terms if term.value is not None)


# Where the formulas stand.
KORTHIKANTI = "Korthikanti et al., Reducing Activation Recomputation (2022), table 2"
ZERO = "Rajbhandari et al., ZeRO (2019), section 3 and 5"
MIXED = "Micikevicius et al., Mixed Precision Training (2018); ZeRO, section 3.1: 2+2+K, K=12"
EIGHT_BIT = "Dettmers et al., 8-bit Optimizers via Block-wise Quantization (2021)"
NARAYANAN = "Narayanan et al., Efficient Large-Scale Training with Megatron-LM (2021), section 2.2"
MEGATRON = "Shoeybi et al., Megatron-LM (2019), section 3"
KAPLAN = "Kaplan et al., Scaling Laws (2020), section 2.1"
PALM = "Chowdhery et al., PaLM (2022), appendix B"
RING = "Patarasuk and Yuan, bandwidth-optimal all-reduce (2009); nccl-tests, PERFORMANCE.md"
RING_ATTENTION = "Liu et al., Ring Attention (2023)"
GSHARD = "Lepikhin et al., GShard (2020)"
COUNTED = "counted from the config's own sizes"
COUNTED_OPS = "counted from the model's own operations"
DEFINITION = "definition"
PLAYBOOK = "Hugging Face, The Ultra-Scale Playbook (2025), finding the best configuration"
