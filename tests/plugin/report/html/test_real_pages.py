"""Pages of real traces and of a real run: every plot drawn, nothing complained about."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import ROOT
from plugin.report.html.conftest import Open, follow
from pytest_gpuperf.cli import main
from pytest_gpuperf.report.html.blocks import Plot, Section, Subject
from pytest_gpuperf.report.html.levels import Singles, chosen, row_spec
from pytest_gpuperf.report.html.page import Page, write_page
from pytest_gpuperf.report.schema import schema_text

jsonschema = pytest.importorskip("jsonschema")

_DRAW_ALL = "drawShown().then(arguments[0])"


@pytest.mark.parametrize(
    ("folder", "plots"),
    [
        ("param-dlrm-kineto", 1),  # 8 ranks
        ("local-torch214-cpu/ddp_gloo_4ranks", 1),
        ("tracelens-h100", 3),  # timeline, memory, launch queue
        ("hta-amd-trace", 1),
        ("kineto-gpu-metrics", 1),
        ("tracelens-mi300-ddp-resnet18-no-pool", 1),
    ],
)
def test_a_real_set_is_drawn_without_a_complaint(
    shared_traces: Path, tmp_path: Path, browse: Open, folder: str, plots: int
) -> None:
    given = shared_traces / folder
    if folder == "tracelens-h100":
        given = sorted(given.glob("*.json.gz"))[0]
    page = tmp_path / "page.html"
    assert main(["report", str(given), "-o", str(page)]) == 0
    assert page.stat().st_size < 3e6
    driver = browse(page, "trace")
    assert driver.execute_async_script(_DRAW_ALL) >= plots
    figure = driver.find_element("css selector", "figure.plot canvas")
    assert float(figure.get_attribute("data-ms") or 0) < 2000


def test_a_real_run_writes_its_page_with_the_report(tmp_path: Path, browse: Open) -> None:
    """A test of the example project, as its user runs it."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(ROOT / "example_project" / "tests" / "test_matmul.py"),
         "-k", "projection", "--gpuperf-report", "--gpuperf-dir", str(tmp_path),
         "-p", "no:cacheprovider"],
        cwd=ROOT / "example_project", capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert f"report in {tmp_path / 'report.html'}" in done.stdout, done.stdout + done.stderr
    schema = json.loads(schema_text())
    jsonschema.validate(json.loads((tmp_path / "report.json").read_text("utf-8")), schema)
    driver = browse(tmp_path / "report.html")
    follow(driver, "test_projection_reaches")
    assert driver.execute_async_script(_DRAW_ALL) >= 2  # samples and timeline
    text = driver.find_element("css selector", "article:not([hidden])").text
    for title in ("In plain words", "Verdict", "Samples", "Where the time went", "Timeline",
                  "Ops and kernels", "Roofline", "Memory", "All values"):  # fmt: skip
        assert title in text


def _million(path: Path) -> Path:
    """A timeline of a million kernels of 1 µs on four streams, a gap of 1 µs behind each."""
    count = 250_000
    rows, names = [], [f"kernel {i}" for i in range(50)]
    for stream in range(4):
        start = np.arange(count) * 2000 + stream * 100
        spans = np.stack((start, start + 1000), axis=1)
        length = np.full(count, 1000)
        keep = chosen(start, length, 6000, (10**8, 10**8 + 6 * 10**6))
        name = keep % 50
        singles = Singles(start[keep], length[keep], name, np.zeros(len(keep), np.int64), count)
        rows.append(row_spec(f"stream {stream}", {"compute": spans}, 0, count * 2000, 32_768,
                             singles))  # fmt: skip
    spec = {"rows": rows, "bins": 32_768, "length_us": count * 2.0, "unit_us": 1e-3,
            "kinds": ["compute", "comm", "memory"], "names": names,
            "steps": [["#1", 100_000.0, 106_000.0]], "unit": "us"}  # fmt: skip
    plot = Plot("Timeline", "timeline", spec, "a million")
    subject = Subject("trace", "Trace", sections=(Section("Timeline", (plot,)),))
    return write_page(Page("a million", "", (), (), (subject,)), path)


def test_a_million_kernels_stay_fluid_and_small(tmp_path: Path, browse: Open) -> None:
    page = _million(tmp_path / "page.html")
    assert page.stat().st_size < 1e6
    driver = browse(page, "trace")
    driver.execute_async_script(_DRAW_ALL)
    median_ms = driver.execute_async_script("""
        const done = arguments[0], figure = document.querySelector("figure.plot");
        const canvas = figure.querySelector("canvas"), times = [];
        draw(figure).then(view => {
          let n = 0;
          const next = () => {
            if (n) times.push(Number(canvas.dataset.ms));
            if (n++ === 40) return done(times.sort((a, b) => a - b)[Math.floor(times.length / 2)]);
            if (n < 20) view.zoom(0.7); else view.pan(0.1);
            requestAnimationFrame(() => requestAnimationFrame(next));
          };
          next();
        });""")
    # 60 frames a second are 16 ms; software drawing on a shared core is given six of them.
    assert median_ms < 100
    # Half of the time is busy, and the page says so at any zoom.
    driver.execute_async_script("const done = arguments[0];"
        "draw(document.querySelector('figure.plot')).then(v => { v.reset();"
        " requestAnimationFrame(() => requestAnimationFrame(done)); })")  # fmt: skip
    canvas = driver.find_element("css selector", "figure.plot canvas")
    driver.execute_script("""
        const c = document.querySelector("figure.plot canvas"), b = c.getBoundingClientRect();
        c.dispatchEvent(new PointerEvent("pointermove",
          { clientX: b.left + b.width / 2, clientY: b.top + 46 }));""")
    assert canvas.is_displayed()
    hover = driver.find_element("css selector", ".hover").text
    assert "stream 0" in hover
    share = float(hover.partition("compute ")[2].partition("%")[0])
    assert share == pytest.approx(50, abs=2)


def test_the_step_that_matters_can_be_looked_at_kernel_by_kernel(
    tmp_path: Path, browse: Open
) -> None:
    driver = browse(_million(tmp_path / "page.html"), "trace")
    driver.execute_async_script(_DRAW_ALL)
    driver.find_element("css selector", '[aria-label^="next step"]').click()
    low, high = map(float, driver.find_element("css selector", "figure.plot")
                    .get_attribute("data-range").split())  # fmt: skip
    assert (low, high) == pytest.approx((99_820.0, 106_180.0))
    driver.execute_async_script("""
        const done = arguments[0];
        draw(document.querySelector("figure.plot")).then(v => { v.set(100000, 100010);
          requestAnimationFrame(() => requestAnimationFrame(done)); });""")
    driver.execute_script("""
        const c = document.querySelector("figure.plot canvas"), b = c.getBoundingClientRect();
        c.dispatchEvent(new PointerEvent("pointermove",
          { clientX: b.left + 150 + (b.width - 152) * 0.05, clientY: b.top + 46 }));""")
    # Kernel 50,000 of stream 0 starts at 100 ms: its name is that of 0 modulo 50.
    assert "kernel 0: 1 µs from 100 ms" in driver.find_element("css selector", ".hover").text
