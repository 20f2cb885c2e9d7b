"""A region is judged by its samples, and by its spans in the trace."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuperf_analyzers import load_config, read_trace
from gpuperf_analyzers.limits import parse_limits
from gpuperf_analyzers.live_block import LiveBlock
from gpuperf_analyzers.metrics import Value
from pytest_gpuperf.recording import Options, record, region
from pytest_gpuperf.session.region_values import region_values

torch = pytest.importorskip("torch")

LIMITS = {
    "max_kernel_launches": 99, "max_host_syncs": 0, "min_tflops": {"cpu": 1e-9}, "max_idle": 0.9,
    "max_step_time": "1s", "min_power": "1W",
}  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the trace is."""
    return tmp_path_factory.mktemp("regions") / "t.json.gz"


@pytest.fixture(scope="module")
def values(path: Path) -> Callable[[str], dict[str, Value]]:
    """Of the regions of one recording: two passages of ``mm`` a step, one of ``read``."""
    a = torch.randn(64, 64)

    def step() -> None:
        for _ in range(2):
            with region("mm"):
                a @ a
        with region("read"):
            a[0, 0].item()

    options = Options(0.01, 0.05, steps=3, measure_peak=False)
    block = record(step, device=torch.device("cpu"), trace_path=path, options=options).block
    config = load_config()
    limits = parse_limits(LIMITS, config.metrics)
    trace = read_trace(path)

    def of(name: str) -> dict[str, Value]:
        return region_values(name, limits, blocks=[block], traces=[trace], config=config)

    return of


def test_counts_are_of_all_passages_of_a_step(
    values: Callable[[str], dict[str, Value]], path: Path
) -> None:
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    complete = [e for e in events if e.get("ph") == "X"]
    passages = [e for e in complete if e["name"] == "gpuperf.region:mm"]
    assert len(passages) == 3 * 2
    inside = sum(
        e.get("cat") == "cpu_op" and p["ts"] <= e["ts"] <= p["ts"] + p["dur"]
        for e in complete
        for p in passages
    )
    found = values("mm")["kernel_launches"]
    # Every step runs the same ops, so the worst has a third of all.
    assert (found.value, found.at) == (inside / 3, "region mm, ProfilerStep#1")
    assert values("mm")["host_syncs"].value == 0.0
    assert values("read")["host_syncs"].value == 1.0


def test_the_rate_is_the_spans_flops_over_the_regions_samples(
    values: Callable[[str], dict[str, Value]],
) -> None:
    found = values("mm")
    time, rate = found["step_time"].value, found["tflops"].value
    assert time is not None
    # The median of n rates and that of n times are of the same sample where n is odd; of an
    # even number the two middle ones are averaged, so a few percent lie between.
    assert rate == pytest.approx(2 * 2 * 64**3 / time / 1e6, rel=0.1)
    assert "not counted" in (values("read")["tflops"].absent_reason or "")


def test_every_metric_asked_for_has_a_value_or_a_reason(
    values: Callable[[str], dict[str, Value]],
) -> None:
    found = values("mm")
    assert set(found) == {
        "kernel_launches", "host_syncs", "tflops", "idle", "step_time", "power",
    }  # fmt: skip
    assert found["idle"].value is not None
    assert found["power"].absent_reason == "known of steps and of the whole trace, not of a span"
    nowhere = values("nowhere")
    assert nowhere["step_time"].absent_reason == (
        "the region was not entered while samples were taken"
    )
    assert nowhere["host_syncs"].absent_reason == (
        "the region was not entered in the profiled steps"
    )


def test_times_are_of_the_rank_on_which_it_took_longest() -> None:
    config = load_config()
    limits = parse_limits({"max_step_time": "1s"}, config.metrics)
    blocks = [LiveBlock(regions={"r": us}) for us in ((10.0, 20.0), (30.0, 40.0), ())]
    found = region_values("r", limits, blocks=blocks, traces=[], config=config)["step_time"]
    assert (found.value, found.at) == (35.0, "region r, rank 1")
