"""Limits: what a user may write, which entry of a mapping counts, and the verdict that follows."""

from __future__ import annotations

import itertools

import pytest

from gpuperf_analyzers.limits import (
    Judgement,
    LimitError,
    Verdict,
    compare,
    judge,
    parse_limits,
    worst,
)
from gpuperf_analyzers.metrics import BUILTIN, Value, absent

METRICS = {metric.name: metric for metric in BUILTIN}
H100 = "NVIDIA H100 80GB HBM3"


def judged(
    value: Value | None,
    *,
    device: str = H100,
    invalid: dict[str, str] | None = None,
    **keywords: object,
) -> Judgement:
    (limit,) = parse_limits(keywords, METRICS)
    values = {} if value is None else {value.name: value}
    kind = "cpu" if device == "cpu" else "cuda"
    (judgement,) = judge(
        values, [limit], device_name=device, device_type=kind, invalid=invalid or {}
    )
    return judgement


# --- what may be written ------------------------------------------------------------------


def test_every_metric_takes_a_min_and_a_max() -> None:
    example = {
        "us": "3ms", "fraction": 0.5, "count": 3, "bytes": "1GiB", "TFLOPS": "1TFLOPS",
        "FLOP": "1GFLOP", "GB/s": "1GB/s", "items/s": "10/s", "W": "300W", "J": "3J",
        "celsius": "80C", "MHz": "1.5GHz", "x": "2x",
    }  # fmt: skip
    keywords = {f"{d}_{m.name}": example[m.unit] for m in BUILTIN for d in ("min", "max")}
    assert len(parse_limits(keywords, METRICS)) == 2 * len(BUILTIN)


@pytest.mark.parametrize(
    ("keyword", "written", "stored"),
    [
        ("max_step_time", "3ms", 3000.0),
        ("max_step_time", "50us", 50.0),
        ("max_step_time", "50 µs", 50.0),
        ("max_step_time", "1.2s", 1.2e6),
        ("max_step_time", "250ns", 0.25),
        ("max_peak_memory", "12GiB", 12 * 1024**3),
        ("max_peak_memory", "350MB", 350e6),
        ("max_host_to_device", "1KiB", 1024.0),
        ("min_busbw", "350GB/s", 350.0),
        ("min_busbw", "1TB/s", 1000.0),
        ("min_tflops", "1.2TFLOPS", 1.2),
        ("min_tflops", "500GFLOPS", 0.5),
        ("min_tflops", 250, 250.0),
        ("min_overlap", 0.6, 0.6),
        ("min_overlap", "60%", 0.6),
        ("min_overlap", "0.6", 0.6),
        ("max_kernel_launches", 1200, 1200.0),
        ("max_host_syncs", 0, 0.0),
        ("min_throughput", "1000/s", 1000.0),
        ("min_throughput", "1000 tokens/s", 1000.0),
        ("max_flops", "3GFLOP", 3e9),
    ],
)
def test_a_quantity_is_stored_in_the_metrics_own_unit(
    keyword: str, written: object, stored: float
) -> None:
    (limit,) = parse_limits({keyword: written}, METRICS)
    assert limit.default is not None
    assert limit.default.value == pytest.approx(stored, rel=1e-15)


@pytest.mark.parametrize(
    ("keyword", "written"),
    [
        ("max_step_time", 3),
        ("max_step_time", 3.0),
        ("max_step_time", "3"),
        ("max_peak_memory", 10**9),
        ("min_busbw", 350),
        ("min_throughput", 1000),
        ("max_power", 300),
        ("max_flops", 1e9),
        ("max_peak_memory", {"cpu": 5}),
    ],
)
def test_a_bare_number_for_a_dimensioned_quantity_is_refused(keyword: str, written: object) -> None:
    with pytest.raises(LimitError, match=f"^{keyword}.* needs a unit: write "):
        parse_limits({keyword: written}, METRICS)


@pytest.mark.parametrize(
    ("keyword", "written", "said"),
    [
        ("max_step_time", "3GiB", "is in bytes, not in us"),
        ("max_step_time", "3mb", "unknown unit 'mb'"),
        ("max_peak_memory", "3Gib", "units: GiB"),
        ("max_host_syncs", "3ms", "a count has none"),
        ("max_host_syncs", 1.5, "not a whole number"),
        ("min_overlap", 60, "above 100%"),
        ("min_overlap", "140%", "above 100%"),
        ("min_overlap", -0.1, "0 or more"),
        ("min_overlap", float("nan"), "finite"),
        ("min_tflops", float("inf"), "finite"),
        ("min_overlap", True, "not a quantity"),
        ("min_overlap", None, "not a quantity"),
        ("min_overlap", "much", "not a quantity"),
        ("min_overlap", [0.5], "not a quantity"),
        ("min_overlap", {}, "empty mapping"),
        ("min_overlap", {0: 0.5}, "not a device name"),
    ],
)
def test_what_is_no_limit_is_refused_with_the_keyword_and_the_mend(
    keyword: str, written: object, said: str
) -> None:
    with pytest.raises(LimitError) as caught:
        parse_limits({keyword: written}, METRICS)
    assert str(caught.value).startswith(keyword)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("keyword", "near"),
    [
        ("min_tflop", "min_tflops"),
        ("max_exposed_coms", "max_exposed_comm"),
        ("maximum_step_time", "max_step_time"),
        ("warm_up", "warmup"),
        ("max_regresion", "max_regression"),
    ],
)
def test_an_unknown_keyword_is_answered_with_the_nearest_names(keyword: str, near: str) -> None:
    with pytest.raises(LimitError) as caught:
        parse_limits({keyword: 1}, METRICS, others=["warmup", "steps"])
    assert repr(keyword) in str(caught.value)
    assert near in str(caught.value).partition("did you mean")[2]


def test_an_unknown_keyword_near_nothing_points_to_the_list_of_metrics() -> None:
    with pytest.raises(LimitError, match="gpuperf metrics"):
        parse_limits({"zzzzqqqq": 1}, METRICS)


# --- which entry of a mapping counts ------------------------------------------------------


def test_the_longest_prefix_of_the_drivers_name_counts() -> None:
    by_device = {"NVIDIA": 0.1, "NVIDIA H100": 0.2, "NVIDIA H100 80GB": 0.3, "NVIDIA A100": 0.4}
    judgement = judged(Value("overlap", 0.5), min_overlap=by_device)
    assert judgement.limit == 0.3
    assert judgement.text == "min_overlap['NVIDIA H100 80GB']=0.3"


@pytest.mark.parametrize(
    ("prefix", "device"),
    [("NVIDIA A10", "NVIDIA A100-SXM4-40GB"), ("NVIDIA L4", "NVIDIA L40S")],
)
def test_a_prefix_does_not_cut_a_number_in_two(prefix: str, device: str) -> None:
    judgement = judged(Value("overlap", 0.5), device=device, min_overlap={prefix: 0.2})
    assert judgement.verdict is Verdict.UNMEASURED


def test_a_mig_slice_never_takes_the_limit_of_its_parent() -> None:
    device = "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    parent = {"NVIDIA A100-SXM4-40GB": 0.2, "NVIDIA A100": 0.1}
    judgement = judged(Value("overlap", 0.5), device=device, min_overlap=parent)
    assert (judgement.verdict, judgement.reason) == (
        Verdict.UNMEASURED,
        f"no limit declared for {device}",
    )
    own = parent | {"NVIDIA A100-SXM4-40GB MIG 1g": 0.3}
    assert judged(Value("overlap", 0.5), device=device, min_overlap=own).limit == 0.3


def test_a_device_without_an_entry_takes_the_default() -> None:
    limits = {"NVIDIA A100": 0.9, "cpu": 0.8, "default": 0.3}
    judgement = judged(Value("overlap", 0.5), min_overlap=limits)
    assert (judgement.limit, judgement.verdict) == (0.3, Verdict.PASS)
    assert judgement.text == "min_overlap['default']=0.3"


def test_without_an_entry_and_a_default_nothing_is_judged_and_the_device_is_named() -> None:
    judgement = judged(Value("overlap", 0.5), min_overlap={"NVIDIA A100": 0.9, "cpu": 0.9})
    assert judgement.verdict is Verdict.UNMEASURED
    assert judgement.reason == f"no limit declared for {H100}"
    assert judgement.limit is None


def test_a_cpu_takes_its_own_entry_and_no_gpu_does() -> None:
    both = {"cpu": 0.2, "NVIDIA": 0.6}
    assert judged(Value("overlap", 0.5), device="cpu", min_overlap=both).verdict is Verdict.PASS
    assert judged(Value("overlap", 0.5), min_overlap=both).verdict is Verdict.FAIL


def test_a_bare_number_on_a_rate_means_an_accelerator() -> None:
    value = Value("tflops", 0.1)
    judgement = judged(value, device="cpu", min_tflops=250)
    assert judgement.verdict is Verdict.UNMEASURED
    assert "accelerator" in judgement.reason
    assert judged(value, min_tflops=250).verdict is Verdict.FAIL
    default = judged(value, device="cpu", min_tflops={"NVIDIA H100": 600, "default": 250})
    assert default.verdict is Verdict.UNMEASURED


@pytest.mark.parametrize("written", [{"cpu": 250}, "250TFLOPS", {"default": "250TFLOPS"}])
def test_a_rate_with_its_unit_or_for_the_cpu_is_judged_on_a_cpu(written: object) -> None:
    judgement = judged(Value("tflops", 0.1), device="cpu", min_tflops=written)
    assert judgement.verdict is Verdict.FAIL


def test_a_bare_fraction_or_count_is_judged_on_a_cpu() -> None:
    assert judged(Value("mfu", 0.1), device="cpu", min_mfu=0.4).verdict is Verdict.FAIL
    assert judged(Value("host_syncs", 1.0), device="cpu", max_host_syncs=0).verdict is Verdict.FAIL


# --- the verdict --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((0.61, 0.70), Verdict.PASS),
        ((0.60, 0.70), Verdict.PASS),
        ((0.59, 0.70), Verdict.AMBIGUOUS),
        ((0.50, 0.60), Verdict.AMBIGUOUS),
        ((0.50, 0.59), Verdict.FAIL),
    ],
)
def test_a_minimum_passes_if_all_of_the_interval_meets_it_and_fails_if_none_does(
    interval: tuple[float, float], verdict: Verdict
) -> None:
    value = Value("overlap", sum(interval) / 2, interval, n=20)
    assert judged(value, min_overlap=0.6).verdict is verdict


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((2800.0, 2999.0), Verdict.PASS),
        ((2800.0, 3000.0), Verdict.PASS),
        ((2800.0, 3001.0), Verdict.AMBIGUOUS),
        ((3000.0, 3100.0), Verdict.AMBIGUOUS),
        ((3001.0, 3100.0), Verdict.FAIL),
    ],
)
def test_a_maximum_passes_if_all_of_the_interval_meets_it_and_fails_if_none_does(
    interval: tuple[float, float], verdict: Verdict
) -> None:
    value = Value("step_time", sum(interval) / 2, interval, n=20)
    judgement = judged(value, max_step_time="3ms")
    assert judgement.verdict is verdict
    assert judgement.limit == 3000.0
    assert judgement.interval == interval


def test_a_value_without_an_interval_is_judged_exactly() -> None:
    assert judged(Value("host_syncs", 2.0), max_host_syncs=2).verdict is Verdict.PASS
    assert judged(Value("host_syncs", 3.0), max_host_syncs=2).verdict is Verdict.FAIL
    assert judged(Value("overlap", 0.6), min_overlap=0.6).verdict is Verdict.PASS


def test_a_value_that_is_not_a_number_is_invalid() -> None:
    nan = float("nan")
    assert compare(nan, None, "min", 1.0) is Verdict.INVALID
    assert compare(1.0, (nan, nan), "max", 1.0) is Verdict.INVALID


def test_an_absent_value_is_unmeasured_with_its_own_reason() -> None:
    judgement = judged(absent("overlap", "no communication"), min_overlap=0.6)
    assert (judgement.verdict, judgement.reason) == (Verdict.UNMEASURED, "no communication")
    assert judged(None, min_overlap=0.6).verdict is Verdict.UNMEASURED


def test_a_metric_whose_data_cannot_be_judged_is_invalid_whatever_its_value() -> None:
    judgement = judged(Value("overlap", 1.0), invalid={"overlap": "truncated"}, min_overlap=0.6)
    assert (judgement.verdict, judgement.reason) == (Verdict.INVALID, "truncated")


def test_the_rank_or_step_of_a_value_is_named_in_its_judgement() -> None:
    value = Value("overlap", 0.1, at="rank 3")
    assert judged(value, min_overlap=0.6).at == "rank 3"


# --- baselines ----------------------------------------------------------------------------


def test_a_regression_without_a_baseline_is_said_to_have_none() -> None:
    (limit,) = parse_limits({"max_regression": "3%"}, METRICS)
    assert (limit.metric, limit.direction) == ("step_time", "regression")
    assert limit.default is not None
    assert limit.default.value == pytest.approx(0.03)
    judgement = judged(Value("step_time", 1.0), max_regression="3%")
    assert judgement.verdict is Verdict.NO_BASELINE
    assert "no baseline" in judgement.reason


def test_regressions_take_a_relative_and_an_absolute_part_by_metric() -> None:
    limits = parse_limits(
        {"max_regression": {"step_time": ("3%", "50us"), "peak_memory": "1%"}}, METRICS
    )
    found = [(lim.metric, lim.default.value, lim.default.floor) for lim in limits if lim.default]
    assert found == [
        ("step_time", pytest.approx(0.03), 50.0),
        ("peak_memory", pytest.approx(0.01), None),
    ]


def test_exact_names_counts_that_must_not_change() -> None:
    limits = parse_limits({"exact": ["kernel_launches", "host_syncs"]}, METRICS)
    assert [lim.metric for lim in limits] == ["kernel_launches", "host_syncs"]
    assert judged(Value("flops", 1.0), exact=["flops"]).verdict is Verdict.NO_BASELINE


@pytest.mark.parametrize(
    "keywords",
    [
        {"max_regression": 3},
        {"max_regression": {"step_tim": "3%"}},
        {"max_regression": {"step_time": ("3%", 50)}},
        {"max_regression": {}},
        {"exact": "kernel_launches"},
        {"exact": ["kernel_launch"]},
        {"exact": []},
    ],
)
def test_a_comparison_that_cannot_be_understood_is_refused(keywords: dict[str, object]) -> None:
    with pytest.raises(LimitError, match=f"^{next(iter(keywords))}"):
        parse_limits(keywords, METRICS)


# --- precedence ---------------------------------------------------------------------------

ORDER = [
    Verdict.FAIL,
    Verdict.INVALID,
    Verdict.INCOMPARABLE,
    Verdict.NO_BASELINE,
    Verdict.AMBIGUOUS,
    Verdict.UNMEASURED,
    Verdict.PASS,
]


def test_of_several_verdicts_the_worst_stands() -> None:
    for earlier, later in itertools.combinations(ORDER, 2):
        assert worst([later, earlier]) is earlier
        assert worst([earlier, later]) is earlier
    assert worst(reversed(ORDER)) is Verdict.FAIL


def test_without_limits_nothing_stands_against_a_pass() -> None:
    assert worst([]) is Verdict.PASS


def test_only_fail_and_invalid_fail_a_test_and_strict_leaves_only_pass() -> None:
    assert [v for v in ORDER if v.fails()] == [Verdict.FAIL, Verdict.INVALID]
    assert [v for v in ORDER if v.fails(strict=True)] == ORDER[:-1]
    assert [v for v in ORDER if v.soft] == ORDER[2:-1]
