"""Stored baseline: several saved runs against the run or runs of now.

The unit is a run (a process): its median. Runs of one session (started close to each other on an
unchanged machine) differ less than sessions do, so that runs of one session count as one value,
their median; likewise the runs of now, which are one session, however many processes they are.
Without sessions told apart each run counts by itself.

The interval of the change is Student's t prediction interval of one new value from R earlier ones,
in logarithms: ``x − mean ± t(df)·s·√(1 + 1/R)``. The spread s is pooled with a prior spread that
counts as one run, so that few runs give a wide interval rather than a lucky one::

    s² = (s0² + Σ(mᵢ − mean)²) / R        df = R      (one degree of freedom of the prior)

(the moderated variance of Smyth, Statistical Applications in Genetics 3, 2004, with d0 = 1).

Assumptions: saved runs and the one of now are drawn alike (same machine, policy and load), and are
close to normal in logarithms. Where they are not (a rare disturbance hits this run and no saved
one; two modes), a t interval alone would raise false alarms, so a FAIL also asks that

- every run of now is beyond *every* saved run, outliers and modes included: without any assumption
  but exchangeability that has the probability 1/(R+1) for one run;
- the fastest tenth of each run's samples is itself beyond what is allowed over the baseline, which
  a load that comes and goes does not bring about;
- no run of now is known to have been disturbed by another process, a throttled clock or the like,
  unless most of the saved runs were;
- ``confirm`` runs of now, processes of their own, agree.

What misses one of these is AMBIGUOUS, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuperf_analyzers.regression.decision import (
    FALSE_ALARM,
    MISS,
    Allowed,
    Decision,
    exact_decision,
    holm,
    unusable,
)
from gpuperf_analyzers.stats import median
from gpuperf_analyzers.verdicts import Verdict

PRIOR_SPREAD = 0.027
"""Standard deviation between processes, of logarithms, that is assumed beside what was seen:
3.8%/√2, measured between processes of the same code on a shared two-core machine."""
FEW_RUNS = 5
"""Saved runs below which a reason says that the spread is mostly assumed."""


@dataclass(frozen=True, slots=True)
class RunValue:
    """One run's value of one metric.

    Attributes
    ----------
    value
        The metric, in its unit: the median of samples, or a count.
    best_tenth
        The value that a tenth of the samples are better than or equal to; None where there are no
        samples.
    session
        What tells runs apart that were not made together; "" where unknown.
    disturbed
        What is known to have disturbed it, in words; "" where nothing is.
    """

    value: float
    best_tenth: float | None = None
    session: str = ""
    disturbed: str = ""


def judge_runs(
    baseline: Mapping[str, Sequence[RunValue]],
    current: Mapping[str, Sequence[RunValue]],
    allowed: Mapping[str, Allowed],
    *,
    confirm: int = 1,
    looks: int = 1,
    last: bool = True,
    prior_spread: float = PRIOR_SPREAD,
    false_alarm: float = FALSE_ALARM,
    miss: float = MISS,
) -> dict[str, Decision]:
    """Every test's decision against its stored baseline.

    Parameters
    ----------
    baseline
        Saved runs by test; none or a missing test is NO-BASELINE.
    current
        The runs of now by test.
    allowed
        By test, for all of `current`: the family that the false-alarm rate is of.
    confirm
        Runs of now that a FAIL takes.
    looks
        How often this is asked for the same tests at most: `miss` is shared among the looks. A
        FAIL is said at the last look only, which has the whole of `false_alarm`.
    last
        Whether no run follows.
    prior_spread
        See :data:`PRIOR_SPREAD`; 0 for none. A deterministic metric has none.
    """
    found: dict[str, Decision] = {}
    fits: dict[str, _Fit] = {}
    for name, runs in current.items():
        saved, usual = _alike(baseline.get(name, ()))
        known = _without_statistics(saved, runs, allowed[name])
        if known is not None:
            found[name] = known
        else:
            prior = 0.0 if allowed[name].deterministic else prior_spread
            fits[name] = _fit(saved, runs, allowed[name], prior, usual=usual)
    levels = holm({n: f.p_fail for n, f in fits.items()}, false_alarm, family=max(1, len(current)))
    for name, fit in fits.items():
        found[name] = _judge(
            fit, allowed[name], levels[name], tail=miss / looks, confirm=confirm, last=last
        )
    return {name: found[name] for name in current}


@dataclass(frozen=True, slots=True)
class _Fit:
    """The numbers of one test; changes are differences of logarithms, above 0 is worse."""

    saved: tuple[RunValue, ...]
    runs: tuple[RunValue, ...]
    before: float
    change: float
    error: float
    degrees: int
    bound: float
    sessions: int
    usual: bool
    """Whether most saved runs were disturbed too."""
    p_fail: float
    p_pass: float


def _without_statistics(
    saved: Sequence[RunValue], runs: Sequence[RunValue], allowed: Allowed
) -> Decision | None:
    if not saved:
        return Decision(Verdict.NO_BASELINE, reason="no run of this test is stored")
    before, after = [r.value for r in saved], [r.value for r in runs]
    n, m = len(before), len(after)
    for values, side in ((before, "in the baseline"), (after, "of this run")):
        why = unusable(values, side)
        if why:
            return Decision(Verdict.INVALID, reason=why, n_before=n, n_after=m)
    equal = len(set(before)) == 1 and len(set(after)) == 1
    if equal and (allowed.deterministic or (before[0] == 0.0 and after[0] == 0.0)):
        return exact_decision(allowed, before[0], after[0], n_before=n, n_after=m)
    if 0.0 in before or 0.0 in after:
        why = "a value of 0 has no relative change"
        return Decision(Verdict.INVALID, reason=why, n_before=n, n_after=m)
    return None


def _alike(saved: Sequence[RunValue]) -> tuple[list[RunValue], bool]:
    """The saved runs that count, and whether being disturbed is usual here.

    Where most were disturbed that is how the machine is, and all count; else those that were not.
    """
    calm = [r for r in saved if not r.disturbed]
    usual = 2 * len(calm) < len(saved)
    return (list(saved) if usual else calm), usual


def _fit(
    saved: Sequence[RunValue],
    runs: Sequence[RunValue],
    allowed: Allowed,
    prior: float,
    *,
    usual: bool,
) -> _Fit:
    from scipy.special import stdtr

    before = _by_session(saved)
    logs = [allowed.log_change(1.0, value) for value in before]
    mean = math.fsum(logs) / len(logs)
    change = allowed.log_change(1.0, median([r.value for r in runs])) - mean
    squares = math.fsum((v - mean) ** 2 for v in logs)
    degrees = len(logs) - 1 + (1 if prior > 0 else 0)
    spread = math.sqrt((squares + prior**2) / degrees) if degrees else math.inf
    error = max(spread * math.sqrt(1 + 1 / len(logs)), 1e-12)
    centre = median(before)
    bound = allowed.log_bound(centre)
    t = (change - bound) / error if math.isfinite(error) else 0.0
    p_fail = float(stdtr(max(1, degrees), -t))
    return _Fit(
        tuple(saved), tuple(runs), centre, change, error, degrees, bound, len(logs), usual,
        p_fail, 1 - p_fail,
    )  # fmt: skip


def _by_session(saved: Sequence[RunValue]) -> list[float]:
    """One value a session: the median of its runs; runs of no known session each by itself."""
    grouped: dict[str, list[float]] = {}
    for index, run in enumerate(saved):
        grouped.setdefault(run.session or f"\0{index}", []).append(run.value)
    return [median(values) for values in grouped.values()]


def _judge(
    fit: _Fit, allowed: Allowed, level: float, *, tail: float, confirm: int, last: bool
) -> Decision:
    from scipy.special import stdtrit

    width = (
        float(-stdtrit(fit.degrees, tail)) * fit.error
        if fit.degrees and math.isfinite(fit.error)
        else math.inf
    )
    verdict, reason, more = Verdict.AMBIGUOUS, "", not last
    if fit.p_fail <= level:
        reason = _doubts(fit, allowed) or (
            f"{len(fit.runs)} of {confirm} runs that a FAIL takes"
            if len(fit.runs) < confirm
            else ""
        )
        if not reason and last:
            verdict, more = Verdict.FAIL, False
            reason = f"{_runs(fit)}, p {fit.p_fail:.2g}"
        reason = reason or "beyond the limit: to be confirmed by further runs"
    elif fit.p_pass <= tail:
        verdict, more, reason = Verdict.PASS, False, f"{_runs(fit)}, p {fit.p_pass:.2g}"
    else:
        leave = "leaves" if len(fit.saved) == 1 else "leave"
        reason = f"{_runs(fit)} {leave} the interval across the limit"
        if fit.sessions < FEW_RUNS:
            reason += "; so few that most of their spread is assumed, not measured"
    return Decision(
        verdict,
        allowed.as_change(fit.change),
        (allowed.as_change(fit.change - width), allowed.as_change(fit.change + width)),
        allowed.bound(fit.before),
        fit.before,
        median([r.value for r in fit.runs]),
        n_before=len(fit.saved),
        n_after=len(fit.runs),
        reason=reason,
        more=more,
        p_fail=fit.p_fail,
        p_pass=fit.p_pass,
        needed=level,
    )


def _runs(fit: _Fit) -> str:
    count = len(fit.saved)
    text = f"{count} saved run{'s' if count > 1 else ''}"
    return text if fit.sessions == count else f"{text} of {fit.sessions} sessions"


def _doubts(fit: _Fit, allowed: Allowed) -> str:
    """What speaks against a FAIL although the interval is beyond the limit; "" where nothing."""
    disturbed = next((r.disturbed for r in fit.runs if r.disturbed), "")
    if disturbed and not fit.usual:
        return f"beyond the limit, but this run was disturbed: {disturbed}"
    worst_saved = max(allowed.log_change(1.0, r.value) for r in fit.saved)
    best_now = min(allowed.log_change(1.0, r.value) for r in fit.runs)
    if best_now <= worst_saved:
        return "beyond the limit, but a saved run was as bad"
    for run in fit.runs:
        if run.best_tenth is not None and run.best_tenth > 0:
            tenth = allowed.log_change(fit.before, run.best_tenth)
            if tenth <= fit.bound:
                return "beyond the limit, but not by its fastest tenth of samples"
    return ""
