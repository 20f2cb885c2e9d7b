"""Workloads of several ranks on gloo: averaged gradients, FLOP and bytes by their closed forms."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("torch")

from pytest_gpuperf.distributed import measure_step
from pytest_gpuperf.ranks import ToldError
from pytest_gpuperf.recording import Options
from pytest_gpuperf.session.ddp import run_ddp_once
from pytest_gpuperf.session.ddp_failure import RankFailure
from pytest_gpuperf.workloads.distributed import (
    scaled_product,
    scaled_product_gradient,
    sharded_linears,
    sharded_product,
    three_linears,
    three_linears_flops,
    three_linears_gradient_bytes,
)

QUICK = Options(warmup_s=0.02, max_time_s=0.05, steps=2, measure_peak=False)
LIMIT_S = 90.0


def _once(make_step, folder, **environment):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, str(value))
        run_ddp_once(make_step, 2, device="cpu", workdir=folder / "work", timeout_s=LIMIT_S)


def _tell(rank, value):
    Path(os.environ["TOLD"], str(rank)).write_text(json.dumps(value))


def telling(rank, world_size):
    """The gradient of y = 7wx, and the losses of the linears under DDP and under FSDP2."""
    product = scaled_product(rank, world_size, size=3)
    share = sharded_product(rank, world_size, size=3)
    replicated, sharded = (
        make(rank, world_size, width=16, batch=4) for make in (three_linears, sharded_linears)
    )

    def step():
        gradient = [product().tolist(), share().tolist()]
        losses = [[float(one()) for _ in range(3)] for one in (replicated, sharded)]
        _tell(rank, [gradient, *losses])

    return step


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("told")
    _once(telling, folder, TOLD=folder)
    return [json.loads((folder / str(rank)).read_text()) for rank in (0, 1)]


def test_the_averaged_gradient_is_seven_times_the_mean_of_x(told):
    # x is 1 on rank 0 and 2 on rank 1: 7 · 1.5 on both.
    assert scaled_product_gradient(2) == 10.5
    assert [gradient for (gradient, _), _, _ in told] == [[10.5] * 3] * 2


def test_fsdp_leaves_each_rank_its_share_of_the_averaged_gradient(told):
    # Of three elements the first rank holds two.
    assert [share for (_, share), _, _ in told] == [[10.5] * 2, [10.5]]


def test_fsdp_trains_as_ddp_does(told):
    for _, replicated, sharded in told:
        assert replicated[0] > replicated[-1]
        assert sharded == pytest.approx(replicated, rel=1e-5)


def expecting_another_gradient(rank, world_size):
    from pytest_gpuperf.workloads.distributed import known_gradient

    known_gradient.scaled_product_gradient = lambda _: 11.0
    return scaled_product(rank, world_size)


def test_another_averaged_gradient_is_told_before_anything_is_measured(tmp_path):
    with pytest.raises(RankFailure, match=r"averaged gradient of y = 7·w·x is 10\.5, not 11 "):
        _once(expecting_another_gradient, tmp_path)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    make = partial(three_linears, width=64, batch=8, bucket_cap_mb=0.01)
    return measure_step(
        make, 2, device="cpu", options=QUICK, folder=folder, stem="it", timeout_s=LIMIT_S
    )


def test_a_step_computes_16_b_w_squared_and_sends_every_gradient_once(measured):
    values = measured.analysis.values
    assert three_linears_flops(64, 8) == 16 * 8 * 64**2 == values["flops"].value
    assert three_linears_gradient_bytes(64) == 4 * 3 * (64 * 64 + 64)
    assert values["collective_bytes"].value == three_linears_gradient_bytes(64)
    # 0.01 MiB are 10486 B, and each weight 16384 B: a bucket is closed with each of the three.
    assert values["collectives"].value >= 3


def test_the_traces_of_all_ranks_are_exported(measured):
    names = [path.name for path in measured.outcome.trace_paths]
    assert names == ["it.rank0.pt.trace.json.gz", "it.rank1.pt.trace.json.gz"]
    assert all(path.is_file() for path in measured.outcome.trace_paths)


@pytest.mark.parametrize(("reshard", "gathers"), [(True, 2), (False, 1)])
def test_fsdp_gathers_each_parameter_before_it_is_used_and_scatters_each_gradient(reshard, gathers):
    make = partial(sharded_linears, width=64, batch=8, reshard_after_forward=reshard)
    found = measure_step(make, 2, device="cpu", options=QUICK, timeout_s=LIMIT_S)
    values = found.analysis.values
    parameters = three_linears_gradient_bytes(64)
    assert values["flops"].value == three_linears_flops(64, 8)
    # Three layers, gathered each time they are needed, and three reduce-scatters.
    assert values["collectives"].value == 3 * gathers + 3
    assert values["collective_bytes"].value == (gathers + 1) * parameters


def test_the_sizes_of_the_example_are_those_that_everybody_starts_from():
    assert three_linears_flops() == 256_000_000_000
    assert three_linears_gradient_bytes() == 192_048_000


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (partial(three_linears, width=0), "width is 0"),
        (partial(three_linears, bucket_cap_mb=0), "bucket_cap_mb is 0"),
        (partial(three_linears, bucket_cap_mb=float("nan")), "bucket_cap_mb is nan"),
        (partial(sharded_linears, batch=-1), "batch is -1"),
        (partial(scaled_product, size=0), "size is 0"),
        (partial(sharded_product, size=0), "size is 0"),
    ],
)
def test_sizes_that_are_none_are_refused(make, reason):
    with pytest.raises(ValueError, match=reason):
        make(0, 2)


@pytest.mark.parametrize(
    ("make", "needed"),
    [
        # 3·(W² + W) parameters of 4 bytes, W being 2^20; w of 2^50 elements.
        (partial(three_linears, width=2**20, batch=1), 4 * 3 * (2**40 + 2**20)),
        (partial(scaled_product, size=2**50), 4 * 2**50),
    ],
    ids=["linears", "product"],
)
def test_what_no_rank_could_hold_is_refused_before_it_is_made(make, needed):
    with pytest.raises(ToldError, match=f"takes at least {needed:,} bytes on cpu, and "):
        make(0, 1, device="cpu")


def test_an_argument_that_cannot_be_sent_to_the_ranks_is_refused(tmp_path):
    with pytest.raises(ValueError, match="an argument of make_step cannot be sent to the ranks"):
        _once(partial(three_linears, ddp={"hook": lambda: None}), tmp_path)


def test_importing_the_workloads_does_not_import_torch():
    import subprocess
    import sys

    code = (
        "import sys; import pytest_gpuperf.workloads.distributed as w, pytest_gpuperf.distributed;"
        "w.three_linears, w.collective; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
