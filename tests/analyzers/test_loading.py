"""A report as tables, and tables as files that come back as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gpuperf_analyzers import analyze_set, load_report
from gpuperf_analyzers.tables import analysis_tables, write_tables
from gpuperf_analyzers.trace import read_traces
from kineto import KinetoTrace


def written(path: Path, **changes: Any) -> Path:
    limit = {"text": "max_step_time='2ms'", "metric": "step_time", "direction": "max",
             "limit": 2000.0, "verdict": "PASS", "value": 1500.0, "interval": [1400.0, 1600.0],
             "reason": "", "at": "", "unit": "us"}  # fmt: skip
    value = {"value": 1500.0, "interval": [1400.0, 1600.0], "n": 3, "source": "s",
             "absent_reason": None, "at": "", "unit": "us"}  # fmt: skip
    record = {"test": "t.py::a", "name": "", "verdict": "PASS", "device": "cpu", "world_size": 1,
              "limits": [limit], "values": {"step_time": value}, "samples_us": [1.0, 2.5],
              "findings": []}  # fmt: skip
    path.write_text(json.dumps({"schema": 1, "results": [record], **changes}), encoding="utf-8")
    return path


def test_a_report_is_five_tables(tmp_path: Path) -> None:
    report = load_report(written(tmp_path / "report.json"))
    assert report.results.loc[0, ["test", "verdict", "step_time", "samples"]].tolist() == [
        "t.py::a", "PASS", 1500.0, 2,
    ]  # fmt: skip
    assert report.values.loc[0, "interval_high"] == 1600.0
    # 500 of the limit's 2000 µs are left.
    assert report.limits.loc[0, "distance"] == 0.25
    assert report.samples["us"].tolist() == [1.0, 2.5]
    assert report.findings.empty
    assert load_report(tmp_path).results.equals(report.results)


def test_half_a_surrogate_pair_is_written_out(tmp_path: Path) -> None:
    odd = [{"test": "a\ud800", "values": {}, "samples_us": [1.0]}]
    report = load_report(written(tmp_path / "report.json", results=odd))
    assert report.samples["test"].tolist() == ["a\\ud800"]


def test_an_empty_report_has_its_columns(tmp_path: Path) -> None:
    report = load_report(written(tmp_path / "report.json", results=[]))
    assert list(report.samples.columns) == ["test", "name", "index", "us"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no JSON"),
        ("[]", "is no report"),
        ('{"schema": 2, "results": []}', "newer than 1"),
        ('{"results": []}', "newer than 1"),
    ],
)
def test_what_is_no_report_is_said_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=said) as told:
        load_report(path)
    assert str(path) in str(told.value)
    assert "\n" not in str(told.value)


def test_tables_of_a_set_say_which_rank_and_device_a_row_is_of(tmp_path: Path) -> None:
    for rank in (0, 1):
        t = KinetoTrace(rank=rank, world_size=2)
        with t.step(1, at=0, dur=100):
            t.launch("gemm", at=5, runs=(10, 40 + rank), stream=7)
        t.write(tmp_path / f"rank{rank}.json")
    found = analyze_set(read_traces([str(p) for p in sorted(tmp_path.iterdir())]))
    kernels = analysis_tables(found)["kernels"]
    assert kernels[["in_rank", "in_device", "name", "total_us"]].values.tolist() == [
        ["rank 0", "device 0", "gemm", 30.0],
        ["rank 1", "device 0", "gemm", 31.0],
    ]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_comes_back_as_it_was(tmp_path: Path, form: Any) -> None:
    frame = pd.DataFrame(
        {"name": ['a,"b"\n', "c"], "us": [1.5, float("nan")], "count": [2**53 + 1, 3]}
    )
    if form == "parquet":
        pytest.importorskip("pyarrow")
    [path] = write_tables({"t": frame}, tmp_path / "out", form)
    back = pd.read_parquet(path) if form == "parquet" else pd.read_csv(path)
    pd.testing.assert_frame_equal(back, frame)
    assert [p.name for p in path.parent.iterdir()] == [f"t.{form}"]


def test_nested_and_odd_cells_can_be_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    odd = pd.Series(["\ud800", "b"], dtype=object)
    frame = pd.DataFrame({"mixed": [(1, 2), None], "odd": odd})
    [path] = write_tables({"t": frame}, tmp_path, "parquet")
    back = pd.read_parquet(path)
    assert back["mixed"].fillna("").tolist() == ["(1, 2)", ""]
    assert back["odd"].tolist() == ["\\ud800", "b"]


def test_real_traces_give_every_table_in_both_formats(shared_traces: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    files = sorted((shared_traces / "param-dlrm-kineto").iterdir())[:2]
    found = analyze_set(read_traces([str(path) for path in files]))
    tables = analysis_tables(found)
    assert {"values", "timeline", "kernels", "kernels_ops", "flops", "collectives", "host",
            "memory", "ranks", "matched", "stragglers"} <= tables.keys()  # fmt: skip
    for form in ("csv", "parquet"):
        assert len(write_tables(tables, tmp_path / form, form)) == len(tables)  # type: ignore[arg-type]
