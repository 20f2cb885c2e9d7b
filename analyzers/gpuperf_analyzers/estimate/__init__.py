"""The arithmetic of training: FLOP, memory and communication from formulas; no trace, no torch.

:func:`training_estimate` says what a model takes, :func:`search` which layouts of it fit a
cluster and how fast each is at best, :func:`explain` why. Every number is a :class:`Term` that
names its formula and where that stands.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "Cluster": "clusters",
    "EstimateError": "terms",
    "Found": "searching",
    "Layer": "layers",
    "ModelSpec": "spec",
    "StepEstimate": "step_memory",
    "Term": "terms",
    "TrainingEstimate": "training",
    "TransformerConfig": "transformer",
    "cluster": "clusters",
    "explain": "explaining",
    "from_config": "known_models",
    "heat_map": "searching",
    "known_model": "known_models",
    "one_layout": "layouts",
    "parameters": "transformer",
    "rules_for": "rules",
    "search": "searching",
    "step_estimate": "step_memory",
    "token_flops": "transformer",
    "training_estimate": "training",
    "training_flops": "transformer",
}

__all__ = sorted(_HOME)  # noqa: PLE0605 - the keys are the names


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
