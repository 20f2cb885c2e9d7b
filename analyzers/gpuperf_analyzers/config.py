"""What the hooks added up to: one immutable object that analyzers and doors are handed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuperf_analyzers.hookspecs import Analyzer, CommClassifier, FlopFormula, Peak, Report
from gpuperf_analyzers.metrics import Metric
from gpuperf_analyzers.thresholds import Thresholds


@dataclass(frozen=True, slots=True)
class PluginModule:
    """A module that implements hooks and is no installed plugin, such as a ``conftest.py``.

    Another process finds it by its file and name; ``hook`` is one of the functions it has.
    """

    path: str
    name: str
    hook: str


@dataclass(frozen=True, slots=True)
class Config:
    """The resolved hookspecs.

    Made once by :func:`gpuperf_analyzers.registry.load_config`; ``metrics`` keeps the order of
    tables. ``modules`` are what a process of its own must load to come to the same.
    """

    metrics: Mapping[str, Metric]
    flop_formulas: Mapping[str, FlopFormula] = field(default_factory=dict)
    comm_classifiers: tuple[CommClassifier, ...] = ()
    peaks: tuple[Peak, ...] = ()
    analyzers: tuple[Analyzer, ...] = ()
    reports: tuple[Report, ...] = ()
    thresholds: Thresholds = field(default_factory=Thresholds)
    modules: tuple[PluginModule, ...] = ()
