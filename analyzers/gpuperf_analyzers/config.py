"""What the hooks added up to: one immutable object that analyzers and doors are handed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuperf_analyzers.hookspecs import Analyzer, CommClassifier, FlopFormula, Peak, Report
from gpuperf_analyzers.metrics import Metric


@dataclass(frozen=True, slots=True)
class Config:
    """The resolved hookspecs.

    Made once by :func:`gpuperf_analyzers.registry.load_config`; ``metrics`` keeps the order of
    tables.
    """

    metrics: Mapping[str, Metric]
    flop_formulas: Mapping[str, FlopFormula] = field(default_factory=dict)
    comm_classifiers: tuple[CommClassifier, ...] = ()
    peaks: tuple[Peak, ...] = ()
    analyzers: tuple[Analyzer, ...] = ()
    reports: tuple[Report, ...] = ()
