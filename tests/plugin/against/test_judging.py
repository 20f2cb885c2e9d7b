"""What a test is told, from made-up processes whose truth is known."""

import pytest

from gpuperf_analyzers.failure_text import failure_text
from gpuperf_analyzers.limits import parse_limits
from gpuperf_analyzers.metrics import BUILTIN
from gpuperf_analyzers.regression import Schedule
from pytest_gpuperf.baselines.against.judging import Comparison
from pytest_gpuperf.baselines.observation import Observation

METRICS = {metric.name: metric for metric in BUILTIN}
TITLE = "HEAD~1 (abc123456)"
TEST = "tests/test_a.py::test_step"


def process(step_time=100.0, *, syncs=2.0, name="", invalid=None, outcome="passed", said=""):
    """What one process leaves of the test."""
    record = {
        "test": TEST, "name": name, "verdict": None, "device": "cpu", "device_type": "cpu",
        "limits": [], "notes": [], "evidence": {},
        "values": {
            "step_time": {"value": step_time, "interval": None, "absent_reason": None},
            "host_syncs": {"value": syncs, "interval": None, "absent_reason": None},
        },
    }  # fmt: skip
    observation = Observation(
        TEST, name, {"device": "cpu"}, {}, "abc", {"timer": "wall", "ranks": "1"},
        {"host_syncs": (syncs, syncs, "")}, {"step_time": (step_time, step_time, 9)},
    ).to_json()  # fmt: skip
    observation["invalid"] = invalid or {}
    return {"outcome": outcome, "said": said, "records": [record], "observations": [observation]}


def comparison(**keywords):
    return Comparison({TEST: parse_limits(keywords, METRICS)}, METRICS, TITLE)


def told(found):
    (record,) = found.records(TEST)
    return record


def test_a_slowdown_in_all_pairs_fails_and_names_the_revision():
    found = comparison(max_regression="3%")
    for pair in range(8):
        found.add(TEST, {"there": process(100.0 + pair), "here": process((100.0 + pair) * 1.2)})
    found.look(next(iter(Schedule())))
    assert found.open_tests() == []
    record = told(found)
    assert record["verdict"] == "FAIL"
    text = failure_text(record).splitlines()[0]
    # Every pair is 20.0% worse, so that the interval is a point.
    assert text == (
        f"step time +20.0% worse (95% CI +20.0% to +20.0%) than {TITLE}, 3% allowed: "
        "8 pairs of processes, p 0.0039"
    )
    assert record["against"]["metrics"]["step_time"]["pairs"][0] == [100.0, 120.0]


def test_what_is_open_takes_more_pairs_and_ends_ambiguous():
    found = comparison(max_regression="3%")
    looks = list(Schedule())
    for pair in range(looks[-1].pairs):
        found.add(TEST, {"there": process(100.0), "here": process(103.0 + (-1) ** pair * 5)})
        for look in looks:
            if pair + 1 == look.pairs:
                found.look(look)
                assert found.open_tests() == ([] if look.last else [TEST])
    record = told(found)
    assert record["verdict"] == "AMBIGUOUS"
    assert "32 pairs of processes leave the interval across the limit" in failure_text(record)


def test_an_exact_count_that_rose_fails_after_one_pair():
    found = comparison(exact=["host_syncs"])
    found.add(TEST, {"there": process(syncs=2.0), "here": process(syncs=3.0)})
    record = told(found)
    assert record["verdict"] == "FAIL"
    assert failure_text(record).splitlines()[0].startswith("host syncs")
    found = comparison(exact=["host_syncs"])
    found.add(TEST, {"there": process(syncs=2.0), "here": process(syncs=2.0)})
    assert told(found)["verdict"] == "PASS"


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        ({}, f"this test is not in {TITLE}"),
        ({"outcome": "failed", "said": "ImportError: no shop"}, "ImportError: no shop"),
        ({"outcome": "skipped", "said": "no GPU"}, "no GPU"),
    ],
)
def test_a_test_of_one_side_has_no_baseline(there, reason):
    found = comparison(max_regression="3%", exact=["host_syncs"])
    found.add(TEST, {"there": there, "here": process()})
    found.look(next(iter(Schedule())))
    record = told(found)
    assert record["verdict"] == "NO-BASELINE"
    assert all(reason in limit["reason"] for limit in record["limits"])


def test_data_that_cannot_be_judged_is_invalid_and_its_pair_does_not_count():
    found = comparison(max_regression="3%")
    bad = process(500.0, invalid={"step_time": "the GPU was throttled"})
    for pair in range(9):
        here = bad if pair == 3 else process(100.0 + pair / 100)
        found.add(TEST, {"there": process(100.0 + pair / 100), "here": here})
    found.look(next(iter(Schedule())))
    record = told(found)
    assert record["verdict"] == "PASS"
    assert len(record["against"]["metrics"]["step_time"]["pairs"]) == 8
    found = comparison(max_regression="3%")
    found.add(TEST, {"there": process(), "here": bad})
    found.look(next(iter(Schedule())))
    record = told(found)
    assert (record["verdict"], record["limits"][0]["reason"]) == (
        "INVALID",
        "the GPU was throttled",
    )


def test_sides_that_ran_the_same_file_make_every_verdict_invalid():
    found = comparison(max_regression="3%", exact=["host_syncs"])
    found.add(TEST, {"there": process(), "here": process()})
    found.unfit = "both sides imported /site-packages/shop.py as shop"
    record = told(found)
    assert record["verdict"] == "INVALID"
    assert "both sides imported" in failure_text(record)


def test_two_measurements_of_a_test_are_judged_each():
    found = comparison(max_regression="3%")
    for pair in range(8):
        both = {}
        for side, slow in (("there", 1.0), ("here", 1.5)):
            forward, backward = (
                process(100.0 + pair, name="f"),
                process(slow * (50 + pair), name="b"),
            )
            both[side] = {
                "outcome": "passed", "said": "",
                "records": forward["records"] + backward["records"],
                "observations": forward["observations"] + backward["observations"],
            }  # fmt: skip
        found.add(TEST, both)
    found.look(next(iter(Schedule())))
    assert [r["verdict"] for r in found.records(TEST)] == ["PASS", "AMBIGUOUS"]
    # Two comparisons share the rate: 2^-8 is 0.39%, and 0.4%/2 is asked for; 12 pairs would do.
    assert found.open_tests() == [TEST]


def test_nan_and_missing_values_are_no_pairs():
    found = comparison(max_regression="3%")
    found.add(TEST, {"there": process(float("nan")), "here": process()})
    found.look(next(iter(Schedule())))
    assert told(found)["verdict"] == "UNMEASURED"
