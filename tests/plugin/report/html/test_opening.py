"""What a named file is, by its content; two reports on one page; what cannot be shown is said."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foreign_samples import DMON
from kineto import KinetoTrace
from plugin.report.html.conftest import Open, follow
from plugin.report.html.pages import document, records
from plugin.report.records import record, value
from pytest_gpuperf.cli import main
from pytest_gpuperf.report.html import comparing
from pytest_gpuperf.report.html.comparing import apart
from pytest_gpuperf.report.html.model import environment_facts
from pytest_gpuperf.report.html.sections.distribution import distribution
from pytest_gpuperf.report.html.sections.limits import distance_cell
from pytest_gpuperf.report.html.thinning import thinned

MAMF = {
    "schema": 1, "complete": True, "stopped": "", "dtype": "bf16", "device": "NVIDIA H100",
    "grid": {"preset": "p"}, "effort": {"shapes_timed": 2, "shapes": 8}, "efficiency": 0.7,
    "dense_peak_tflops": 989.0, "dense_peak_source": "data sheet", "failed": [], "notes": [],
    "best": {"m": 2048, "n": 1024, "k": 512, "median_tflops": 690.0, "interval_tflops": None},
    "shapes": [
        {"m": 2048, "n": 1024, "k": 512, "calls": 9, "median_tflops": 690.0, "mean_tflops": 689.0,
         "best_tflops": 700.0},
        {"m": 1024, "n": 1024, "k": 512, "calls": 9, "median_tflops": 500.0, "mean_tflops": 499.0,
         "best_tflops": 510.0},
    ],
}  # fmt: skip
HISTORY = {
    "schema": 1,
    "series": [
        {"environment": "e", "test": "t.py::a", "name": "", "metric": "step_time",
         "runs": [{"at": "2026", "commit": f"{i:040x}", "value": 100.0 + 50 * (i > 4), "n": 5}
                  for i in range(10)],
         "changes": [{"index": 5, "before": 100.0, "after": 150.0, "relative": 0.5, "p": 0.01,
                      "commit": f"{5:040x}", "commit_before": f"{4:040x}"}]},
    ],
}  # fmt: skip
BUCKETS = {
    "world_size": 2, "backend": "gloo", "device_name": "cpu", "fastest_bucket_cap_mb": 25.0,
    "not_apart_from_fastest_mb": [50.0], "notes": [],
    "rows": [{"bucket_cap_mb": float(m), "buckets": 2, "bytes": 8, "step_time_us": 1000.0 + m,
              "step_time_us_low": 990.0, "step_time_us_high": 1100.0, "overlap": 0.5}
             for m in (25, 50)],
}  # fmt: skip
COLLECTIVES = {
    "world_size": 2, "backend": "gloo", "device_name": "cpu", "mean_busbw_gb_s": 3.0, "wrong": 0,
    "rows": [{"op": "all_reduce", "dtype": "float32", "bytes": 1024, "busbw_gb_s": 3.0}],
}  # fmt: skip


LAYOUTS = {
    "gpus": 8, "tried": 12, "fitting": 9, "formulas": {"mfu": "FLOP / (GPUs × peak × step)"},
    "layouts": [{"tp": 2, "pp": 1, "dp": 4, "zero": 1, "recompute": "none", "step_us": 1e6,
                 "mfu": 0.4, "memory_bytes": 2.0**35, "binds": "compute"}],
}  # fmt: skip
MODELS = {
    "models": [{"model": {"name": "gpt2"}, "parameters": 124439808.0, "sequence": 1024, "batch": 1,
                "memory": [{"name": "parameters", "value": 2.0**31, "unit": "bytes",
                            "formula": "2·N", "source": "s"}],
                "total_bytes": 2.0**31, "flops": []}],
}  # fmt: skip


SWEEP = {
    "kind": "sweep", "schema": 1, "axes": {"batch": [1, 2], "dim": [64, 128]}, "points": 4,
    "done": 4, "counts": {"measured": 3, "out of memory": 1}, "judged_by": "step_time",
    "best": {"index": 0, "values": {"batch": 1, "dim": 64}}, "not_apart_from_best": [],
    "results": [
        {"index": i, "values": {"batch": b, "dim": d},
         "status": "measured" if i < 3 else "out of memory",
         "detail": "" if i < 3 else "CUDA out of memory",
         "metrics": {"step_time": value(100.0 * (i + 1), "us", [99.0, 401.0])} if i < 3 else {}}
        for i, (b, d) in enumerate([(1, 64), (1, 128), (2, 64), (2, 128)])
    ],
}  # fmt: skip


def page_of(tmp_path: Path, *documents: Any) -> Path:
    """The page that the command makes of these files."""
    paths = []
    for i, found in enumerate(documents):
        paths.append(tmp_path / f"{i}.json")
        paths[-1].write_text(json.dumps(found))
    assert main(["report", *map(str, paths), "-o", str(tmp_path / "page.html")]) == 0
    return tmp_path / "page.html"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (MAMF, ["Maximum matmul FLOPS", "690 TFLOPS at 2048×1024×512. 70.0% of 989 TFLOPS",
                "2 of 8 shapes", "2 of 2 pairs of M and N"]),
        (HISTORY, ["step_time over 10 runs", "+50.0% in 00000000000"]),
        (SWEEP, ["4 of 4 points: 3 measured, 1 out of memory", "shortest step is at batch=1 dim=64",
                 "3 of 4 points have a value", "CUDA out of memory"]),
        (BUCKETS, ["The shortest step is with 25 MB", "Not told apart from it: 50 MB"]),
        (COLLECTIVES, ["Mean bus bandwidth 3.00 GB/s", "all_reduce"]),
        (LAYOUTS, ["Estimate", "9 of 12 layouts over 8 GPUs fit", "tp 2, pp 1", "40.0% MFU"]),
        (MODELS, ["gpt2: memory and FLOP", "2.000 GiB by formulas", "parameters: 2.000 GiB"]),
        ({"schema": 1, "anything": [{"a": 1, "b": "x"}]}, ["anything", "Facts"]),
    ],
)  # fmt: skip
def test_what_other_commands_wrote_is_recognised_by_its_fields(
    tmp_path: Path, browse: Open, given: dict[str, Any], said: list[str]
) -> None:
    driver = browse(page_of(tmp_path, given), "all")
    text = driver.find_element("tag name", "main").text
    for part in said:
        assert part in text


def test_a_history_is_shown_from_its_own_lines(tmp_path: Path, browse: Open) -> None:
    line = {"v": 1, "at": "2026", "environment": "e", "test": "t.py::a", "name": "", "exact": False,
            "metric": "step_time", "n": 5}  # fmt: skip
    path = tmp_path / "history.jsonl"
    with path.open("w") as out:
        for i in range(20):
            value = 100.0 + i % 3 + 50 * (i >= 10)
            out.write(json.dumps({**line, "commit": f"{i:02d}c0ffee{'0' * 32}", "value": value}))
            out.write("\n")
        out.write('{"torn')
    assert main(["report", str(path), "-o", str(tmp_path / "page.html")]) == 0
    text = browse(tmp_path / "page.html", "all").find_element("tag name", "main").text
    assert "step_time over 20 runs" in text
    assert "1 line was left out: torn, or of a newer version." in text
    # Levels of 101 and 151: half as much again, since the eleventh line.
    assert "changes of level: +49.5% in 10c0ffee0000." in text


def test_a_history_without_lines_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("torn\n")
    assert main(["report", str(path)]) == 2
    assert f"{path}: has no line of a history" in capsys.readouterr().err


def test_a_file_of_another_tool_is_shown_with_its_tables(tmp_path: Path, browse: Open) -> None:
    # torch's memory timeline as JSON: times in µs, and bytes of each category at each.
    sizes = [[0] * 9, [0, 2**20, 0, 0, 0, 0, 0, 0, 2**20], [0, 2**20, 0, 0, 0, 0, 0, 0, 2**21]]
    text = (
        browse(page_of(tmp_path, [[0, 5, 9], sizes]), "all").find_element("tag name", "main").text
    )
    assert "File of another tool" in text
    assert "Read from" in text
    assert "3.000 MiB" in text  # 1 MiB of parameters and 2 MiB of no category at 9 µs


def test_a_file_of_two_gpus_has_both_in_a_table(tmp_path: Path, browse: Open) -> None:
    # GPU 0 was at 80 and 100% and 100 and 200 W; GPU 1 at 0%, 60 and 61 W: means of the two rows.
    path, page = tmp_path / "dmon.log", tmp_path / "page.html"
    path.write_text(DMON)
    assert main(["report", str(path), "-o", str(page)]) == 0
    driver = browse(page, "all")
    text = driver.find_element("tag name", "main").get_attribute("textContent")
    assert "Measured, each of 2" in " ".join(text.split())
    rows = driver.find_elements("css selector", "article tbody tr")
    cells = [[c.get_attribute("textContent").strip() for c in r.find_elements("tag name", "td")]
             for r in rows]  # fmt: skip
    found = {(row[0], row[1]): row[2] for row in cells if row and row[0].startswith("GPU ")}
    assert found["GPU 0", "gpu_util"] == "90.0%"
    assert found["GPU 1", "gpu_util"] == "0%"
    assert found["GPU 0", "power"] == "150 W"
    assert found["GPU 1", "power"] == "60.5 W"


def test_the_environment_has_every_place_of_the_run_with_its_policy() -> None:
    gpu = {"device": "NVIDIA H100", "torch": "2.13.0", "power_limit": "700 W", "clocks": "default"}
    found = document(record(traces=[], environment={"device": "cpu", "torch": "2.13.0"}),
                     record(traces=[], environment=gpu))  # fmt: skip
    facts = environment_facts(found)
    assert facts[:4] == (
        ("device", "cpu; NVIDIA H100"), ("torch", "2.13.0"), ("power limit", "700 W"),
        ("clocks", "default"),
    )  # fmt: skip


def test_a_run_of_thousands_shows_the_worst_in_full_and_every_verdict(
    tmp_path: Path, browse: Open
) -> None:
    red, green, _ = records()
    many = [{**green, "test": f"t.py::test_{i}"} for i in range(1500)]
    page = page_of(tmp_path, document(*many, {**red, "test": "t.py::test_red"}))
    assert page.stat().st_size < 10e6
    driver = browse(page)
    from selenium.webdriver.support.ui import WebDriverWait

    rows = driver.find_elements("css selector", "#overview figure:first-of-type tbody tr")
    assert len(rows) > 1500
    assert sum(row.is_displayed() for row in rows[190:210]) == 10  # the first 200 of them
    field = driver.find_element("css selector", "#overview input.filter")
    field.send_keys("test_1499")
    row = "#overview figure:first-of-type tbody tr:not([hidden])"
    WebDriverWait(driver, 20).until(lambda d: len(d.find_elements("css selector", row)) == 1)
    follow(driver, "test_1499")
    shown = driver.find_element("css selector", "article:not([hidden])").text
    assert "95% interval" in shown
    assert "of 200 tests of this run" in shown
    driver = browse(page)
    more = driver.find_element("css selector", "#overview button.all")
    assert re.fullmatch(r"Show all 1,5\d\d rows", more.text)
    more.click()
    rows = driver.find_elements("css selector", "#overview figure:first-of-type tbody tr")
    assert all(row.is_displayed() for row in rows[190:210])
    assert not driver.find_elements("css selector", "#overview figure:first-of-type button.all")
    follow(driver, "test_red")
    assert "Distribution" in driver.find_element("css selector", "article:not([hidden])").text


def test_bounds_that_are_no_numbers_are_no_interval(tmp_path: Path, browse: Open) -> None:
    broken = record(traces=[])
    broken["values"]["step_time"] = value(float("nan"), "us", [float("inf"), float("nan")])
    text = browse(page_of(tmp_path, document(broken)), "all").find_element("tag name", "main").text
    assert "nan" not in text.lower()


def test_two_reports_are_compared_test_by_test(tmp_path: Path, browse: Open) -> None:
    after = records()
    after[1]["values"]["step_time"] = value(1566.0, "us", [1500.0, 1600.0])
    gone = record(test="old.py::test_gone", traces=[])
    page = page_of(tmp_path, document(*records(), gone), document(*after))
    driver = browse(page)
    assert driver.title == "gpuperf: 0.json against 1.json"
    assert comparing._title(Path("a/report.json"), Path("b/report.json")) == (
        "gpuperf: a/report.json against b/report.json"
    )
    # The title of a column of numbers stands over their right edge.
    head = driver.find_element("css selector", "#overview thead th:nth-child(3)")
    assert head.value_of_css_property("text-align") == "right"
    rows = driver.find_elements("css selector", "#overview figure:first-of-type tbody tr")
    (row,) = [r.text for r in rows if "test_green" in r.text and "step_time" in r.text]
    # 1566 over 1044 is half as much again, and [1030, 1060] does not meet [1500, 1600].
    assert "+50.0%" in row
    assert "worse, intervals apart" in row
    overview = driver.find_element("id", "overview").text
    assert "Only before: old.py::test_gone" in overview
    follow(driver, "test_b.py::test_green")
    assert "Samples, before and after" in driver.find_element("tag name", "main").text


def test_intervals_that_touch_are_not_apart() -> None:
    assert apart([1.0, 2.0], [2.0, 3.0]) is False
    assert apart([1.0, 2.0], [2.1, 3.0]) is True
    assert apart([3.0, 4.0], [1.0, 2.0]) is True
    assert apart(None, [1.0, 2.0]) is None


def test_two_runs_with_traces_are_explained_op_by_op(tmp_path: Path, browse: Open) -> None:
    documents = []
    for side, length in (("before", 30), ("after", 50)):
        t = KinetoTrace()
        for step in (1, 2):
            with t.step(step, at=100 * step, dur=90):
                t.op("aten::mm", at=100 * step, dur=8, dims=[[4, 4], [4, 4]], dtypes=["float"] * 2)
                begin = 100 * step + 10
                t.launch("gemm", at=begin - 8, runs=(begin, begin + length), stream=7)
        path = t.write(tmp_path / f"{side}.json.gz")
        documents.append(document(record(traces=[str(path)], samples_us=[])))
    driver = browse(page_of(tmp_path, *documents))
    follow(driver, "test_step")
    text = driver.find_element("css selector", "article:not([hidden])").text
    assert "What explains the change" in text
    assert re.search(r"aten::mm.*slower 30\.00 µs 50\.00 µs \+20\.00 µs", text)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("report.json", "{", "is no JSON"),
        ("report.json", '{"schema": 99, "results": []}', "newer"),
        ("report.json", '{"schema": 1, "results": [3]}', "no list of results"),
        ("a.json", '{"series": [{"runs": [{}], "metric": 1}]}', "cannot be shown"),
        ("a.json", '{"grid": 1, "shapes": 2, "best": 3, "dtype": 4}', "cannot be shown"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, said: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert main(["report", str(path)]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert str(path) in err
    assert err.count("\n") == 1


def test_a_file_that_is_not_there_and_a_place_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path / "none.json")]) == 2
    assert "no such file" in capsys.readouterr().err
    (tmp_path / "report.json").write_text(json.dumps(document(record(traces=[]))))
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert main(["report", str(tmp_path), "-o", str(blocked / "page.html")]) == 2
    assert "page.html" in capsys.readouterr().err


def test_a_record_of_nothing_but_a_name_is_a_page(tmp_path: Path, browse: Open) -> None:
    driver = browse(page_of(tmp_path, document({"test": "a.py::b"}, {})), "all")
    assert "a.py::b" in driver.find_element("tag name", "main").text


def test_numbers_that_are_none_are_absent_and_break_nothing(tmp_path: Path, browse: Open) -> None:
    odd = record(traces=[], samples_us=[float("nan"), float("inf"), 3.0, 4.0])
    odd["values"]["step_time"]["value"] = float("inf")
    driver = browse(page_of(tmp_path, document(odd)), "all")
    text = driver.find_element("tag name", "main").text
    assert "2 samples between 3.000 µs and 4.000 µs" in text


@pytest.mark.parametrize(
    "spoiled",
    [{"values": [1]}, {"limits": [1]}, {"values": {"step_time": 3}}, {"samples_us": "x"},
     {"limits": [{"verdict": "PASS", "metric": "m", "value": "a", "limit": "b"}]}],
)  # fmt: skip
def test_a_record_of_wrong_types_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spoiled: dict[str, Any]
) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document({**record(traces=[]), **spoiled})))
    assert main(["report", str(path)]) == 2
    err = capsys.readouterr().err
    assert f"{path}: cannot be shown" in err
    assert err.count("\n") == 1


def test_a_trace_that_is_gone_is_said(tmp_path: Path, browse: Open) -> None:
    page = page_of(tmp_path, document(record(traces=["/nowhere/traces/x/rank0.json.gz"])))
    driver = browse(page, "all")
    assert "/nowhere/traces/x/rank0.json.gz is not there any more" in driver.find_element(
        "tag name", "main").text  # fmt: skip


def test_a_report_moved_with_its_traces_finds_them(tmp_path: Path, browse: Open) -> None:
    t = KinetoTrace()
    t.launch("gemm", at=5, runs=(10, 40), stream=7)
    (tmp_path / "traces" / "x").mkdir(parents=True)
    t.write(tmp_path / "traces" / "x" / "rank0.json.gz")
    page = page_of(tmp_path, document(record(traces=["/elsewhere/traces/x/rank0.json.gz"])))
    driver = browse(page, "all")
    assert "Timeline" in driver.find_element("tag name", "main").text


@pytest.mark.parametrize(
    ("direction", "limit", "found", "share"),
    [("min", 0.6, 0.41, -0.19 / 0.6), ("max", 2.0, 1.5, 0.25), ("max", 2.0, 3.0, -0.5)],
)
def test_the_distance_is_the_share_of_the_limit_on_its_good_side(
    direction: str, limit: float, found: float, share: float
) -> None:
    cell = distance_cell({"direction": direction, "limit": limit, "value": found, "unit": "us"})
    assert cell.raw == pytest.approx(share)
    assert cell.text[0] == ("−" if share < 0 else "+")


def test_samples_far_off_are_told_and_do_not_squeeze_the_others() -> None:
    samples = [100.0 + i % 10 for i in range(100)] + [25_000.0, 30_000.0]
    (drawn,) = distribution(samples, [], None)
    assert "2 samples are far off and not drawn: 25.00 ms to 30.00 ms" in drawn.description
    counts = [row[2].raw for row in drawn.data.rows]
    assert sum(counts) == 100


def test_a_long_series_keeps_its_extremes() -> None:
    y = np.sin(np.arange(100_000) / 1000.0)
    y[54_321], y[65_432] = 7.0, -7.0
    kept = thinned(np.arange(100_000), y)
    assert len(kept) <= 2002
    assert {54_321, 65_432, 0, 99_999} <= set(kept.tolist())
    assert (np.diff(kept) > 0).all()
