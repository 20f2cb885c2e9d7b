"""Whether a value got worse than allowed, from runs whose noise is between processes.

Two questions, each a function that returns a :class:`Decision` a test:

- :func:`judge_runs`: the runs of a stored baseline against the run or runs of now;
- :func:`judge_pairs`: pairs of processes measured side by side (A/B), looked at in stages.

Both take a FAIL only from what is significant *and* beyond the effect allowed, a PASS only where
the interval excludes that effect, and say AMBIGUOUS otherwise. The error rates, and what they are
an error of:

- :data:`FALSE_ALARM` (1%): the probability that a run says FAIL of *any* test whose true change is
  within its limit, over all tests (Holm, 1979) and all looks (spending: Lan and DeMets, 1983);
- :data:`MISS` (2.5%): the probability that one test whose true change is at or beyond its limit is
  called PASS, over all looks. The interval shown has both tails at this level: it holds the true
  change with 95%, whichever look ended the sampling.
"""

from gpuperf_analyzers.regression.decision import (
    FALSE_ALARM,
    MISS,
    Allowed,
    Decision,
    holm,
)
from gpuperf_analyzers.regression.paired import judge_pairs, pair_effects
from gpuperf_analyzers.regression.schedule import DEFAULT_PAIRS, FEWEST_PAIRS, Look, Schedule
from gpuperf_analyzers.regression.signed_rank import signed_rank_interval, signed_rank_p
from gpuperf_analyzers.regression.stored import PRIOR_SPREAD, RunValue, judge_runs

__all__ = [
    "DEFAULT_PAIRS",
    "FALSE_ALARM",
    "FEWEST_PAIRS",
    "MISS",
    "PRIOR_SPREAD",
    "Allowed",
    "Decision",
    "Look",
    "RunValue",
    "Schedule",
    "holm",
    "judge_pairs",
    "judge_runs",
    "pair_effects",
    "signed_rank_interval",
    "signed_rank_p",
]
