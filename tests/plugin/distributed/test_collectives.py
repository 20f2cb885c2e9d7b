"""The table of collectives: sizes, factors and matched times by hand, and two ranks of gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from pytest_gpuperf.cli import main
from pytest_gpuperf.cli.collectives import byte_count
from pytest_gpuperf.distributed import measure_collectives
from pytest_gpuperf.distributed.collective_run import sizes_between
from pytest_gpuperf.distributed.collective_table import (
    CollectiveRow,
    CollectiveTable,
    clocks_ahead_ns,
    matched_times_us,
    row_of,
)
from pytest_gpuperf.workloads.distributed import COLLECTIVES
from pytest_gpuperf.workloads.distributed.collective_calls import DTYPES, elements_of, prepare

# nccl-tests' PERFORMANCE.md, for 2 ranks.
FACTORS = {
    "all_reduce": 1.0,
    "all_gather": 0.5,
    "reduce_scatter": 0.5,
    "broadcast": 1.0,
    "all_to_all": 0.5,
}


@pytest.fixture(scope="module")
def table():
    found = measure_collectives(
        sizes=(4, 100, 4096), world_size=2, device="cpu", max_time_s=0.02, timeout_s=60
    )
    return {(row.op, i % 3): row for i, row in enumerate(found.rows)}, found


def test_every_collective_is_there_in_every_size_and_right(table):
    rows, whole = table
    assert [op for op, i in rows if i == 0] == list(COLLECTIVES)
    assert (whole.world_size, whole.backend, whole.hosts, whole.wrong) == (2, "gloo", 1, 0)


def test_s_is_what_fits_and_can_be_shared_out(table):
    rows, _ = table
    for op in COLLECTIVES:
        shared = FACTORS[op] == 0.5
        # 100 B are 25 floats: of 2 ranks each can have 12.
        assert (rows[op, 1].bytes, rows[op, 1].elements) == ((96, 24) if shared else (100, 25))
        assert rows[op, 2].bytes == 4096
        if shared:
            reason = f"4 B are too few: {op} of 2 ranks takes 8 B or more"
            assert (rows[op, 0].absent, rows[op, 0].time_us) == (reason, None)
        else:
            assert (rows[op, 0].bytes, rows[op, 0].absent) == (4, "")


@pytest.mark.parametrize("op", COLLECTIVES)
def test_bandwidths_are_bytes_over_time_and_the_factor(table, op):
    row = table[0][op, 2]
    # 1 GB/s is 1e9 B in 1e6 µs.
    assert row.algbw_gb_s == pytest.approx(4096 / 1e9 / (row.time_us / 1e6))
    assert row.busbw_gb_s == pytest.approx(row.algbw_gb_s * FACTORS[op])
    assert row.samples >= 10
    low, high = row.time_interval_us
    assert low <= row.time_us <= high
    assert row.busbw_interval_gb_s[0] == pytest.approx(4096 / high / 1e3 * FACTORS[op])


def test_the_mean_is_of_the_rows_that_have_a_bandwidth(table):
    _, whole = table
    known = [r.busbw_gb_s for r in whole.rows if not r.absent]
    assert len(known) == 12
    assert whole.mean_busbw_gb_s() == pytest.approx(sum(known) / 12)
    assert json.loads(json.dumps(whole.to_json()))["rows"][0]["op"] == "all_reduce"
    assert len(whole.to_frame()) == 15


def test_a_time_runs_from_the_last_start_to_the_last_end():
    starts, ends = [[0, 1000], [500, 900]], [[2000, 3000], [1800, 3500]]
    assert matched_times_us(starts, ends) == [1.5, 2.5]
    assert matched_times_us(starts, ends, calls=5) == [0.3, 0.5]
    late = 10**12
    of_another_clock = [[t + late for t in row] for row in (starts[1], ends[1])]
    assert matched_times_us(
        [starts[0], of_another_clock[0]], [ends[0], of_another_clock[1]], [0, late]
    ) == [1.5, 2.5]


def test_clocks_are_apart_by_the_median_difference_of_common_ends():
    # One of three all-reduces woke rank 1 late by 900 ns.
    assert clocks_ahead_ns([[10, 20, 30], [5010, 5920, 5030]]) == [0, 5000]


def _seen(start, end, **changes):
    seen = {"absent": "", "bytes": 1000, "elements": 250, "wrong": 0, "calls": 1}
    return {**seen, "starts_ns": start, "ends_ns": end, **changes}


CASE = {"op": "all_reduce", "dtype": "float32", "size": 1000}


def test_the_factor_of_an_all_reduce_of_four_ranks_is_three_halves():
    seen = [_seen([0] * 6, [2000, 2000, 2000, 4000, 4000, 4000]) for _ in range(4)]
    row = row_of(CASE, seen, [])
    # The median of 2 and 4 µs is 3; 1000 B in 3 µs are 1/3 GB/s.
    assert (row.time_us, row.time_interval_us) == (3.0, (2.0, 4.0))
    assert row.algbw_gb_s == pytest.approx(1 / 3)
    assert row.busbw_gb_s == pytest.approx(0.5)
    assert row.busbw_interval_gb_s == pytest.approx((0.375, 0.75))


def test_of_one_rank_there_is_no_bus_bandwidth():
    row = row_of(CASE, [_seen([0], [1000])], [])
    assert (row.algbw_gb_s, row.busbw_gb_s, row.time_interval_us) == (1.0, None, None)


def test_what_one_rank_cannot_do_has_no_numbers_and_the_reason():
    fine = _seen([0], [1000])
    row = row_of(CASE, [fine, {"absent": "gloo has none"}], [])
    assert (row.absent, row.time_us, row.bytes) == ("gloo has none", None, 1000)


def test_wrong_elements_of_all_ranks_add_up():
    assert row_of(CASE, [_seen([0], [9], wrong=2), _seen([0], [9], wrong=3)], []).wrong == 5


def test_times_that_clocks_make_negative_are_absent():
    row = row_of(CASE, [_seen([0], [1000]), _seen([5000], [900])], [])
    assert "clocks differ" in row.absent
    assert row.time_us is None


@pytest.mark.parametrize("op", COLLECTIVES)
def test_a_result_that_nobody_made_is_wrong(op):
    import torch

    made = prepare(op, 1, 2, size=64, dtype="float32", device=torch.device("cpu"))
    made.fill()
    # Without the call rank 1 still has what it was filled with. Moved values are (i + r) % 127,
    # of which only i + r = 0 is 0; summed ones are 1 where 8 divides i + r.
    wrong = {
        "broadcast": 15,  # zeros, for 0 … 15
        "all_gather": 7 + 8,  # zeros, for 0 … 7 and 1 … 8
        "all_to_all": 8 + 8,  # zeros, for 8 … 15 and 9 … 16
        "all_reduce": 2,  # its own ones, without rank 0's at i = 0 and 8
        "reduce_scatter": 2,  # zeros, for a one of each rank in 8 … 15
    }
    assert made.wrong() == wrong[op]


def test_what_can_be_asked_for_is_checked():
    import torch

    assert elements_of("all_to_all", 4096, 4, 3) == 1023
    with pytest.raises(ValueError, match="unknown collective 'gather'"):
        elements_of("gather", 8, 4, 2)
    with pytest.raises(ValueError, match=r"unknown dtype 'complex64': one of float32"):
        prepare("broadcast", 0, 2, size=8, dtype="complex64", device=torch.device("cpu"))
    assert all(hasattr(torch, dtype) for dtype in DTYPES)
    with pytest.raises(ValueError, match="unknown collective"):
        measure_collectives(["gather"])
    with pytest.raises(ValueError, match="sizes must be 1 B or more"):
        measure_collectives(sizes=[0])
    with pytest.raises(ValueError, match="unknown dtype"):
        measure_collectives(dtype="fp32")


@pytest.mark.parametrize(
    ("text", "size"),
    [("8", 8), ("4K", 4096), ("1KiB", 1024), ("32M", 2**25), ("1.5k", 1536), ("2MB", 2_000_000)],
)
def test_sizes_are_written_as_for_nccl_tests(text, size):
    assert byte_count(text) == size


def test_sizes_grow_by_the_factor_to_the_largest():
    assert sizes_between(8, 128, 4) == (8, 32, 128)
    assert sizes_between(8, 127, 4) == (8, 32)
    for wrong in ((0, 8, 2), (16, 8, 2), (8, 16, 1)):
        with pytest.raises(ValueError, match="sizes"):
            sizes_between(*wrong)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--op", "gather"], "unknown collective"),
        (["--dtype", "fp32"], "unknown dtype 'fp32'"),
        (["-b", "8M", "-e", "1M"], "8388608 B to 1048576 B do not"),
        (["--backend", "nccl", "--device", "cpu"], "'nccl' needs GPUs"),
        (["--world-size", "0"], "world_size must be a whole number from 1"),
        (["--device", "tpu"], "cannot measure on 'tpu'"),
        (["--device", "cpu", "--world-size", "100000"], "100,000 ranks cannot be started here"),
        # 1 KiB x 4^20 = 1 PiB on each of two ranks.
        (["--device", "cpu", "-e", "1048576G"], "takes 2,251,799,813,685,248 B and more"),
    ],
)
def test_what_cannot_be_measured_is_one_line_and_status_2(capsys, arguments, said):
    assert main(["collectives", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("gpuperf collectives: ")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("size", ["x", "-8", "0", "0.5", "1e3", ""])
def test_a_size_that_is_none_is_wrong_usage(capsys, size):
    with pytest.raises(SystemExit) as ended:
        main(["collectives", f"--min-bytes={size}"])
    assert ended.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def _canned(**changes):
    row = CollectiveRow(
        "all_reduce", "float32", 4096, 1024, 12.5, (12.0, 13.0), 0.328, (0.31, 0.34), 0.328,
        (0.31, 0.34), samples=20,
    )  # fmt: skip
    lacking = CollectiveRow("all_to_all", "float32", 4096, absent="this backend has none")
    made = {"rows": (row, lacking), "world_size": 2, "backend": "gloo", "device_name": "cpu"}
    return CollectiveTable(**{**made, "torch_version": "2.13.0", **changes})


def test_the_table_shows_time_bandwidths_and_why_a_row_is_empty(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "100")  # a worker of xdist says 80
    monkeypatch.setattr("pytest_gpuperf.distributed.measure_collectives", lambda *a, **k: _canned())
    assert main(["collectives"]) == 0
    out = capsys.readouterr().out
    assert "2 ranks, gloo, cpu, torch 2.13.0" in out
    (line,) = [line for line in out.splitlines() if line.startswith("all_reduce")]
    assert line.split() == [
        *("all_reduce", "4096", "1024", "float32", "12.5", "12.0–13.0", "0.328", "0.328", "0", "20")
    ]
    assert "absent: all_to_all of 4096 B: this backend has none" in out
    assert "mean bus bandwidth: 0.328 GB/s" in out


def test_a_table_without_a_number_does_not_pass_in_silence(monkeypatch, capsys):
    empty = _canned(rows=(CollectiveRow("broadcast", "float32", 8, absent="too small"),))
    monkeypatch.setattr("pytest_gpuperf.distributed.measure_collectives", lambda *a, **k: empty)
    assert main(["collectives"]) == 1
    assert "nothing was measured" in capsys.readouterr().err


def test_wrong_elements_make_the_command_fail(monkeypatch, capsys):
    wrong = _canned(rows=(CollectiveRow("broadcast", "float32", 8, 2, 1.0, wrong=1),))
    monkeypatch.setattr("pytest_gpuperf.distributed.measure_collectives", lambda *a, **k: wrong)
    assert main(["collectives"]) == 1
    assert "1 elements of the results are wrong" in capsys.readouterr().err


def test_under_torchrun_its_ranks_are_used_and_rank_0_prints(tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", "-m", "pytest_gpuperf.cli", "collectives", "--json"),
            *("--op", "broadcast", "-b", "4K", "-e", "4K", "--max-time", "0.02", "--device=cpu"),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        # No wait for what else is measured on this machine.
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)  # one document: the other rank printed nothing
    assert (document["world_size"], len(document["rows"]), document["wrong"]) == (2, 1, 0)
