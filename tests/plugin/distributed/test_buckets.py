"""The sweep of bucket sizes: rows, table, plot."""

from __future__ import annotations

import json
from functools import partial

import pytest

pytest.importorskip("torch")

from gpuperf_analyzers.metrics import Value, absent
from pytest_gpuperf.cli import main
from pytest_gpuperf.distributed import plot_buckets, sweep_buckets
from pytest_gpuperf.distributed.bucket_sweep import SHOWN, BucketRow, BucketSweep
from pytest_gpuperf.recording import Options
from pytest_gpuperf.workloads.distributed import three_linears, three_linears_gradient_bytes

QUICK = Options(warmup_s=0.02, max_time_s=0.05, steps=6, min_samples=6, measure_peak=False)


@pytest.fixture(scope="module")
def swept():
    told = []
    sweep = sweep_buckets(
        partial(three_linears, width=64, batch=8),
        (0.01, 25),
        device="cpu",
        options=QUICK,
        timeout_s=90,
        told=told.append,
    )
    assert told == [0.01, 25.0]
    return sweep


def test_small_buckets_are_many_and_carry_the_same_bytes(swept):
    small, large = swept.rows
    assert (swept.world_size, swept.backend, large.buckets) == (2, "gloo", 1)
    assert small.buckets >= 3
    assert small.bytes == large.bytes == three_linears_gradient_bytes(64)


def test_step_time_and_overlap_have_intervals(swept):
    for row in swept.rows:
        for name in ("step_time", "overlap"):
            value = row.values[name]
            assert value.n >= 6
            assert value.interval[0] <= value.value <= value.interval[1]
        assert 0 <= row.values["overlap"].value <= 1


def test_the_sweep_is_a_frame_and_a_document(swept):
    frame = swept.to_frame()
    assert list(frame["bucket_cap_mb"]) == [0.01, 25.0]
    document = json.loads(json.dumps(swept.to_json()))
    assert document["rows"][1]["buckets"] == 1
    assert document["fastest_bucket_cap_mb"] in (0.01, 25.0)


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_plot_is_a_picture_and_nothing_else_is_left(swept, tmp_path, ending):
    pytest.importorskip("matplotlib")
    path = plot_buckets(swept, tmp_path / f"buckets.{ending}")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG") if ending == "png" else b"</svg>" in content
    assert list(tmp_path.iterdir()) == [path]


def _row(cap, value, interval, **changes):
    values = {name: Value(name, 1.0, (0.5, 1.5), 6) for name in SHOWN}
    values["step_time"] = Value("step_time", value, interval, 6)
    return BucketRow(cap, 2, 100, values | changes)


def _sweep(*rows):
    return BucketSweep(rows, 2, "gloo", "cpu")


def test_the_fastest_is_named_with_those_that_it_is_not_told_apart_from():
    sweep = _sweep(
        _row(1, 10.0, (9.0, 11.0)),
        _row(5, 12.0, (11.0, 13.0)),  # touches the first
        _row(25, 14.0, (13.5, 15.0)),
        _row(100, 11.5, None),  # too few samples to say
    )
    assert sweep.fastest().bucket_cap_mb == 1
    assert sweep.not_apart() == (5, 100)


def test_a_sweep_without_any_time_has_no_fastest_and_no_plot(tmp_path):
    row = _row(1, 1.0, None, step_time=absent("step_time", "the clock was held down"))
    assert _sweep(row).fastest() is None
    assert _sweep(row).not_apart() == ()
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_buckets(_sweep(row), tmp_path / "x.svg")


@pytest.mark.parametrize("name", ["x.jpg", "x", "no/such/folder/x.svg"])
def test_a_plot_that_cannot_be_drawn_is_refused_before_anything_is_measured(
    tmp_path, capsys, name, monkeypatch
):
    monkeypatch.setattr("pytest_gpuperf.distributed.sweep_buckets", None)
    assert main(["buckets", "--plot", str(tmp_path / name)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"gpuperf buckets: {tmp_path / name}: ")
    assert err.count("\n") == 1


def test_the_table_shows_intervals_the_fastest_and_why_a_value_is_absent(monkeypatch, capsys):
    sweep = _sweep(
        _row(1, 10_000.0, (9_000.0, 11_000.0)),
        _row(25, 20_000.0, (19_000.0, 21_000.0), overlap=absent("overlap", "no communication")),
    )
    monkeypatch.setattr("pytest_gpuperf.distributed.sweep_buckets", lambda *a, **k: sweep)
    assert main(["buckets"]) == 0
    out = capsys.readouterr().out
    assert "10.00 ms  9.000–11.00" in out
    assert "shortest step: 1 MiB\n" in out
    assert "overlap at 25 MiB is absent: no communication" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.py:make"], "write FILE.py:NAME of a file that is there"),
        (["--width", "0"], "width is 0"),
        (["--device", "cpu", "--world-size", "100000"], "100,000 ranks cannot be started here"),
        # On two ranks 3·(W² + W) parameters and gradients and 2·W of batch, fp32; W is 2^20.
        (
            ["--device", "cpu", "--width", "1048576", "--batch", "1"],
            f"take at least {2 * 4 * (6 * (2**40 + 2**20) + 2 * 2**20):,} B on 2 ranks",
        ),
        (["--backend", "nccl", "--device", "cpu"], "'nccl' needs GPUs"),
    ],
)
def test_what_cannot_be_swept_is_one_line_and_status_2(capsys, arguments, said):
    assert main(["buckets", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("gpuperf buckets: ")
    assert said in err
    assert err.count("\n") == 1


def test_a_file_that_breaks_is_named_with_its_error(tmp_path, capsys):
    (tmp_path / "broken.py").write_text("raise RuntimeError('no GPU')\n")
    assert main(["buckets", f"{tmp_path / 'broken.py'}:make"]) == 2
    assert "broken.py: RuntimeError: no GPU" in capsys.readouterr().err


@pytest.mark.parametrize("caps", ["", "1,x", "0", "-1,2", "nan", "inf"])
def test_caps_that_are_none_are_wrong_usage(capsys, caps):
    with pytest.raises(SystemExit) as ended:
        main(["buckets", f"--caps={caps}"])
    assert ended.value.code == 2
    assert "no list of sizes in MiB" in capsys.readouterr().err


def test_no_size_is_refused():
    with pytest.raises(ValueError, match="bucket sizes must be numbers of MiB above 0"):
        sweep_buckets(three_linears, [])
