"""A count against the baseline's: equal passes, worse fails, better is said, varying is judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuperf_analyzers.limits import Judgement, Verdict, parse_limits
from gpuperf_analyzers.metrics import BUILTIN
from observations import observation
from pytest_gpuperf.baselines.exact import judge_exact
from pytest_gpuperf.baselines.model import Baseline, Entry, SavedRun

METRICS = {m.name: m for m in BUILTIN}
Now = tuple[float, float, str] | None


def _entry(*counts: tuple[float, float, str]) -> Entry:
    baseline = Baseline()
    for low, high, reason in counts:
        seen = replace(observation(), counts={"host_syncs": (low, high, reason)})
        run = SavedRun(baseline.next_number, "", "")
        baseline = baseline.with_run(run, [seen], keep=10)
    return baseline.entries[("tests/test_a.py::test_step", "")]


def _judged(entry: Entry, now: Now, absent: str = "") -> tuple[Judgement, str]:
    (limit,) = parse_limits({"exact": ["host_syncs"]}, METRICS)
    return judge_exact(limit, METRICS["host_syncs"], entry, now, absent)


EXACT = (4.0, 4.0, "")


def test_an_equal_count_passes_without_a_word() -> None:
    judged, note = _judged(_entry(EXACT), EXACT)
    assert (judged.verdict, judged.value, judged.limit, note) == (Verdict.PASS, 4.0, 4.0, "")


def test_one_more_fails() -> None:
    judged, _ = _judged(_entry(EXACT), (5.0, 5.0, ""))
    assert (judged.verdict, judged.value, judged.limit) == (Verdict.FAIL, 5.0, 4.0)


def test_one_less_passes_and_says_how_to_keep_it() -> None:
    judged, note = _judged(_entry(EXACT), (3.0, 3.0, ""))
    assert judged.verdict is Verdict.PASS
    assert "better than the baseline (3 after 4)" in note
    assert "gpuperf baseline update" in note


def test_a_count_without_a_value_is_unmeasured_with_its_reason() -> None:
    judged, _ = _judged(_entry(EXACT), None, "no shapes")
    assert (judged.verdict, judged.reason) == (Verdict.UNMEASURED, "no shapes")


def test_a_count_that_the_baseline_lacks_has_no_baseline() -> None:
    entry = replace(_entry(EXACT), counts={})
    assert _judged(entry, EXACT)[0].verdict is Verdict.NO_BASELINE


VARIES = "it varies between steps (3, 5, 4)"


@pytest.mark.parametrize(
    ("now", "verdict"),
    [
        ((3.0, 5.0, VARIES), Verdict.PASS),  # no repeat is worse than the worst before
        ((6.0, 8.0, VARIES), Verdict.FAIL),  # every repeat is
        ((5.0, 7.0, VARIES), Verdict.AMBIGUOUS),
        ((5.0, 5.0, ""), Verdict.PASS),
        ((6.0, 6.0, ""), Verdict.AMBIGUOUS),  # one value against a range proves nothing
    ],
)
def test_one_that_varies_is_told_and_judged_by_its_range(
    now: tuple[float, float, str], verdict: Verdict
) -> None:
    judged, note = _judged(_entry((3.0, 5.0, VARIES)), now)
    assert judged.verdict is verdict
    assert "not exact" in note


FEW = "1 step was profiled: it takes 3 identical ones (steps=3)"


def test_too_few_repeats_prove_neither_side() -> None:
    assert _judged(_entry((4.0, 4.0, FEW)), (4.0, 4.0, FEW))[0].verdict is Verdict.PASS
    assert _judged(_entry((4.0, 4.0, FEW)), (5.0, 5.0, FEW))[0].verdict is Verdict.AMBIGUOUS
    assert _judged(_entry(EXACT), (5.0, 5.0, FEW))[0].verdict is Verdict.AMBIGUOUS


def test_three_saved_runs_of_one_value_are_three_repeats() -> None:
    few = (4.0, 4.0, FEW)
    assert _judged(_entry(few, few, few), (5.0, 5.0, ""))[0].verdict is Verdict.FAIL
    assert _judged(_entry(few, few), (5.0, 5.0, ""))[0].verdict is Verdict.AMBIGUOUS
