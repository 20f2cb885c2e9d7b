"""A measurement against what is stored: found, refused with what differs, or judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers.limits import Judgement, Verdict, parse_limits
from gpuperf_analyzers.metrics import BUILTIN
from observations import CPU, observation
from pytest_gpuperf.baselines.comparison import StoredBaselines
from pytest_gpuperf.baselines.model import Baseline, Entry, SavedRun
from pytest_gpuperf.baselines.observation import Observation
from pytest_gpuperf.baselines.regression import judge_regression
from pytest_gpuperf.baselines.store import Store

METRICS = {m.name: m for m in BUILTIN}
OTHER = {**CPU, "torch": "2.12.0"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "gpuperf-baselines")


def _baselines(store: Store, name: str = "default", **settings: bool) -> StoredBaselines:
    return StoredBaselines(Store(store.folder), name, **settings)


def test_nothing_stored_says_how_to_store(store: Store) -> None:
    found = _baselines(store).find(observation())
    assert found.verdict is Verdict.NO_BASELINE
    assert "pytest --gpuperf-save" in found.reason


def test_another_name_says_which_there_are(store: Store) -> None:
    store.save([observation()], name="main")
    found = _baselines(store).find(observation())
    assert "there is main" in found.reason


def test_another_environment_is_incomparable_with_the_difference_named(store: Store) -> None:
    store.save([observation(key=OTHER)], name="default")
    found = _baselines(store).find(observation())
    assert (found.verdict, found.entry) == (Verdict.INCOMPARABLE, None)
    assert found.reason == "torch 2.12.0 in the baseline, 2.13.0 here"


def test_of_several_environments_the_nearest_is_named(store: Store) -> None:
    far = {**OTHER, "cpu_model": "Else", "cores": "64"}
    store.save([observation(key=OTHER), observation(key=far)], name="default")
    assert _baselines(store).find(observation()).reason.startswith("torch 2.12.0")


def test_other_ranks_are_incomparable(store: Store) -> None:
    store.save([observation(ranks=4)], name="default")
    found = _baselines(store).find(observation(ranks=2))
    assert found.verdict is Verdict.INCOMPARABLE
    assert found.reason == "measured on 4 ranks in the baseline, on 2 here"


def test_a_renamed_test_is_told_its_nearest_old_name(store: Store) -> None:
    store.save([observation("tests/test_a.py::test_training_step")], name="default")
    found = _baselines(store).find(observation("tests/test_a.py::test_train_step"))
    assert found.verdict is Verdict.NO_BASELINE
    assert "the nearest there is tests/test_a.py::test_training_step" in found.reason
    assert "gpuperf baseline rename" in found.reason


def test_a_test_that_moved_to_another_file_is_found_by_its_function(store: Store) -> None:
    store.save([observation("tests/test_old.py::test_step[fp32]")], name="default")
    found = _baselines(store).find(observation("tests/test_new.py::test_step[fp32]"))
    assert "tests/test_old.py::test_step[fp32]" in found.reason


def test_a_damaged_file_is_invalid_with_its_path(store: Store) -> None:
    ((path, _, _),) = store.save([observation()], name="default")
    path.write_text("{")
    found = _baselines(store).find(observation())
    assert found.verdict is Verdict.INVALID
    assert str(path) in found.reason


def test_counts_of_another_cpu_are_compared_only_where_the_project_says_so(store: Store) -> None:
    store.save([observation(key={**CPU, "cpu_model": "Else"})], name="default")
    assert _baselines(store).find(observation()).verdict is Verdict.INCOMPARABLE
    found = _baselines(store, across_cpus=True).find(observation())
    assert found.entry is not None
    assert found.counts_only == "CPU Else in the baseline, Made-up 9000 here"
    store.save([observation(key=OTHER)], name="default")
    other_torch = {**CPU, "torch": "2.14.0"}
    found = _baselines(store, across_cpus=True).find(observation(key=other_torch))
    assert found.verdict is Verdict.INCOMPARABLE


# --- sampled values -----------------------------------------------------------------------


def _entry(*runs: Observation) -> Entry:
    baseline = Baseline()
    for seen in runs:
        run = SavedRun(baseline.next_number, "", "")
        baseline = baseline.with_run(run, [seen], keep=20)
    return baseline.entries[("tests/test_a.py::test_step", "")]


def _judged(entry: Entry, now: Observation, family: int = 1) -> Judgement:
    (limit,) = parse_limits({"max_regression": "3%"}, METRICS)
    metric = METRICS["step_time"]
    return judge_regression(limit, metric, entry, now, absent="", family=family)


TEN = [observation(step_us=1000.0 + d) for d in (-4, -3, -2, -1, 0, 0, 1, 2, 3, 4)]


def test_twice_as_slow_as_ten_steady_runs_fails() -> None:
    judged = _judged(_entry(*TEN), observation(step_us=2000.0))
    assert judged.verdict is Verdict.FAIL
    assert judged.value == pytest.approx(1.0, abs=0.01)
    assert judged.limit == pytest.approx(0.03)


def test_the_same_again_is_no_fail_and_faster_passes() -> None:
    assert _judged(_entry(*TEN), observation(step_us=1001.0)).verdict is not Verdict.FAIL
    assert _judged(_entry(*TEN), observation(step_us=700.0)).verdict is Verdict.PASS


def test_one_saved_run_cannot_make_a_fail_of_a_tenth() -> None:
    judged = _judged(_entry(TEN[0]), observation(step_us=1100.0))
    assert judged.verdict is Verdict.AMBIGUOUS


def test_a_disturbed_run_does_not_fail() -> None:
    judged = _judged(_entry(*TEN), observation(step_us=2000.0, disturbed="others took 40%"))
    assert judged.verdict is Verdict.AMBIGUOUS
    assert "others took 40%" in judged.reason


def test_many_limits_share_one_false_alarm_rate() -> None:
    # p is about 0.005 here: enough for one limit at 1%, not for a hundred.
    now = observation(step_us=1065.0)
    assert _judged(_entry(*TEN), now, family=1).verdict is Verdict.FAIL
    assert _judged(_entry(*TEN), now, family=10_000).verdict is Verdict.AMBIGUOUS


@pytest.mark.parametrize("step_us", [None])
def test_a_value_that_was_not_stored_has_no_baseline(step_us: None) -> None:
    judged = _judged(_entry(observation(step_us=step_us)), observation())
    assert judged.verdict is Verdict.NO_BASELINE


def test_no_samples_now_is_unmeasured() -> None:
    assert _judged(_entry(*TEN), observation(step_us=None)).verdict is Verdict.UNMEASURED


def test_a_time_of_zero_is_invalid_and_not_a_division() -> None:
    entry = _entry(*[observation(step_us=1000.0)] * 3)
    assert _judged(entry, observation(step_us=0.0, tenth=1.0)).verdict is Verdict.INVALID
