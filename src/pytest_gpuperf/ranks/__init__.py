"""A function of a module, run by several processes at once: time limit, failures, clean-up.

Knows no workload: what the ranks do, and what their values mean, is the caller's. Torch's elastic
launcher starts the ranks, in a process of its own; nothing else here imports torch.
"""

from pytest_gpuperf.ranks.launcher import LaunchError, launch
from pytest_gpuperf.ranks.outcome import RankContext, RankError, RankOutcome, State, ToldError
from pytest_gpuperf.ranks.target import Target

__all__ = [
    "LaunchError",
    "RankContext",
    "RankError",
    "RankOutcome",
    "State",
    "Target",
    "ToldError",
    "launch",
]
