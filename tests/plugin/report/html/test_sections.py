"""Sections whose data only a GPU or a live run gives, from data made here."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuperf_analyzers.memory_block import Cause, MemoryBlock
from kineto import KinetoTrace
from plugin.report.html.conftest import Open
from pytest_gpuperf.cli import main
from pytest_gpuperf.report.html.blocks import Plot, Section, Subject
from pytest_gpuperf.report.html.page import Page, write_page
from pytest_gpuperf.report.html.sections.memory_categories import category_blocks

_DRAW_ALL = "drawShown().then(arguments[0])"


def with_counters() -> KinetoTrace:
    """A step with NVML's tracks as a live run writes them into a trace."""
    t = KinetoTrace()
    with t.step(1, at=0, dur=400):
        t.launch("gemm", at=5, runs=(10, 390), stream=7)
    series = {"gpu_util": ("%", (100.0, 100.0)), "sm_active": ("%", (12.0, 14.0)),
              "sm_clock": ("MHz", (1980.0, 1410.0)), "power": ("W", (640.0, 700.0)),
              "throttled": ("throttled", (0.0, 1.0)),
              "clock_reasons": ("sw_power_cap", (0.0, 1.0))}  # fmt: skip
    for name, (unit, values) in series.items():
        for at, value in zip((0, 200), values, strict=True):
            t.events.append({"ph": "C", "cat": "gpuperf", "name": name, "pid": 0,
                             "ts": t.base_us + at, "args": {unit: value}})  # fmt: skip
    return t


def test_utilization_stands_beside_saturation_clocks_power_and_throttling(
    tmp_path: Path, browse: Open
) -> None:
    path = with_counters().write(tmp_path / "rank0.json")
    assert main(["report", str(path), "-o", str(tmp_path / "page.html")]) == 0
    driver = browse(tmp_path / "page.html", "trace")
    driver.execute_async_script(_DRAW_ALL)
    titles = [c.text for c in driver.find_elements("css selector", "figure.plot figcaption")]
    for title in ("Utilization and saturation", "Clocks", "Power", "Throttling",
                  "Launch queue, device 0"):  # fmt: skip
        assert title in titles
    # One axis for all: a zoom of one is that of the others only where they share it, so the
    # ends of their data must be the same.
    ends = driver.execute_script(
        "return Object.values(DATA.plots).filter(p => p.sync === 'device')"
        ".map(p => [p.x.values[0], p.x.values.at(-1), p.x.factor].join())"
    )
    assert len(ends) == 4
    assert len(set(ends)) == 1
    said = driver.find_element("css selector", "article:not([hidden])").text
    assert "Utilization beside saturation" in said
    assert "NVML is sampled in a live run" in said


def test_a_counter_holds_until_its_next_value(tmp_path: Path, browse: Open) -> None:
    path = with_counters().write(tmp_path / "rank0.json")
    assert main(["report", str(path), "-o", str(tmp_path / "page.html")]) == 0
    driver = browse(tmp_path / "page.html", "trace")
    clocks = driver.execute_script(
        "return Object.values(DATA.plots).find(p => p.title === 'Clocks').series[0]"
    )
    assert clocks["label"] == "sm_clock"
    assert clocks["values"] == [1980.0, 1410.0]


MEMORY = MemoryBlock(
    start_bytes=2**20,
    peak_bytes=7 * 2**20,
    at_peak={"parameter": 2**20, "gradient": 2 * 2**20, "activation": 4 * 2**20},
    largest={"parameter": 2**20, "gradient": 2 * 2**20, "activation": 5 * 2**20},
    time_us=(0.0, 10.0, 20.0),
    over_time={
        "parameter": (2**20, 2**20, 2**20),
        "gradient": (0, 2 * 2**20, 0),
        "activation": (0, 4 * 2**20, 2**20),
    },
    causes=(Cause("activation", "aten::mm in model.fc", 4 * 2**20, 3),),
)


def test_memory_by_category_stands_on_each_other_and_the_peak_is_marked(
    tmp_path: Path, browse: Open
) -> None:
    blocks = category_blocks(MEMORY)
    plot = next(b for b in blocks if isinstance(b, Plot))
    # 1 + 2 + 4 MiB at 10 µs are the most.
    assert plot.spec["marks"] == [{"at": 10.0, "axis": "x", "kind": "peak", "label": "peak"}]
    assert "7.000 MiB at 10.00 µs" in plot.description
    subject = Subject("m", "Memory", sections=(Section("Memory", tuple(blocks)),))
    driver = browse(write_page(Page("m", "", (), (), (subject,)), tmp_path / "m.html"), "m")
    driver.execute_async_script(_DRAW_ALL)
    drawn = driver.execute_async_script(
        "const done = arguments[0]; draw(document.querySelector('figure.plot'))"
        ".then(v => done([v.plot.data.slice(1), v.plot.series.slice(1).map(s => s.label)]))"
    )
    # From the highest down: all three, the lowest two, the lowest; in MiB.
    assert drawn[0] == [[1, 7, 2], [1, 3, 1], [1, 1, 1]]
    assert drawn[1] == ["activation", "gradient", "parameter"]
    text = driver.find_element("tag name", "main").text
    assert "activation: 4.000 MiB" in text
    assert "aten::mm in model.fc" in text


def test_a_block_of_nothing_gives_nothing() -> None:
    assert category_blocks(MemoryBlock()) == []


@pytest.mark.parametrize("count", [33, 96])
def test_many_ranks_are_one_chart_and_the_page_stays_small(
    tmp_path: Path, browse: Open, count: int
) -> None:
    for rank in range(count):
        t = KinetoTrace(rank=rank, world_size=count)
        with t.step(1, at=0, dur=90):
            t.launch("gemm", at=5, runs=(10, 50 + rank % 7), stream=7)
        t.write(tmp_path / f"rank{rank}.json")
    page = tmp_path / "page.html"
    assert main(["report", str(tmp_path), "-o", str(page), "--no-cache"]) == 0
    assert page.stat().st_size < 3e6
    driver = browse(page, "trace")
    driver.execute_async_script(_DRAW_ALL)
    compute = driver.find_elements("css selector", "details:nth-of-type(2) svg.area rect.k-compute")
    assert len(compute) == count
