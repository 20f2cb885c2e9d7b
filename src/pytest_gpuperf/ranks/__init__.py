"""A function of a module, run by several processes at once: time limit, failures, clean-up.

Knows no workload: what the ranks do, and what their values mean, is the caller's. Standard
library only.
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
