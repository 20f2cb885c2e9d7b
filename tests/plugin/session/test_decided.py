"""When sampling may stop: once no limit's interval straddles it."""

from __future__ import annotations

import pickle

from gpuperf_analyzers.limits import parse_limits
from gpuperf_analyzers.metrics import BUILTIN
from pytest_gpuperf.session.decided import Decided, decider

METRICS = {metric.name: metric for metric in BUILTIN}

# Ten samples of 95..104 µs: the order-statistic interval of the median at 95% is the 2nd to the
# 9th of them (2·P(Bin(10, ½) < 2) = 2.1%, < 3 would be 10.9%), 96 to 103 µs.
TEN = tuple(float(us) for us in range(95, 105))


def deciding(
    *, items: float | None = None, flops: float | None = None, **limits: object
) -> Decided | None:
    parsed = parse_limits(limits, METRICS)
    return decider(parsed, device_name="cpu", device_type="cpu", items=items, flops=flops)


def test_limits_on_events_are_not_decided_by_more_samples() -> None:
    assert deciding(min_overlap=0.5, max_host_syncs=0, exact=["flops"]) is None


def test_a_limit_that_does_not_hold_here_is_not_waited_for() -> None:
    assert deciding(min_tflops=250) is None
    assert deciding(max_step_time={"NVIDIA H100": "1ms"}) is None
    assert deciding(min_throughput="10/s") is None


def test_samples_decide_a_step_time_when_its_interval_is_on_one_side() -> None:
    for written, decided in {"103us": True, "102us": False, "96us": False, "95.9us": True}.items():
        ask = deciding(max_step_time=written)
        assert ask is not None
        assert ask(TEN) is decided, written


def test_too_few_samples_for_an_interval_decide_nothing() -> None:
    ask = deciding(max_step_time="1s")
    assert ask is not None
    assert not ask(TEN[:5])
    assert ask(TEN[:6])


def test_throughput_is_decided_through_its_items() -> None:
    # 1000 items in 96..103 µs: 9.71 to 10.42 million a second.
    for written, decided in {"9.7e6/s": True, "1e7/s": False, "10.5e6/s": True}.items():
        ask = deciding(items=1000, min_throughput=written)
        assert ask is not None
        assert ask(TEN) is decided, written


def test_tflops_are_decided_through_declared_flops_and_undecided_without() -> None:
    # 1e9 FLOP in 96..103 µs: 9.71 to 10.42 TFLOPS.
    known = deciding(flops=1e9, min_tflops={"cpu": 9.7})
    assert known is not None
    assert known(TEN)
    unknown = deciding(min_tflops={"cpu": 9.7})
    assert unknown is not None
    assert not unknown(TEN)


def test_all_limits_must_be_decided() -> None:
    ask = deciding(max_step_time="200us", min_step_time="100us")
    assert ask is not None
    assert not ask(TEN)


def test_it_travels_to_other_processes() -> None:
    ask = deciding(max_step_time="103us")
    assert pickle.loads(pickle.dumps(ask))(TEN)  # noqa: S301 - written in the line itself
