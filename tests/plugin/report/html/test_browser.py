"""What a reader does on the page, in a real Chromium."""

from __future__ import annotations

import csv
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from plugin.report.html.conftest import Open, follow
from plugin.report.html.pages import records, write


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return write(tmp_path / "report.html", *records())


def test_the_overview_has_each_limit_the_red_one_first(page: Path, browse: Open) -> None:
    driver = browse(page)
    rows = driver.find_elements("css selector", "#overview table.sortable tbody tr")
    texts = [row.text for row in rows]
    assert [text.split()[0] for text in texts[:3]] == ["FAIL", "PASS", "not"]
    # 0.41 of at least 0.6: 0.19/0.6 = 31.7% short of it.
    assert "41.0%" in texts[0]
    assert "≥ 60%" in texts[0]
    assert "−31.7%" in texts[0]
    # 1044 µs of at most 2000: 47.8% of the limit are left.
    assert "+47.8%" in texts[1]


def test_a_filter_leaves_the_rows_with_all_its_words(page: Path, browse: Open) -> None:
    driver = browse(page)
    driver.find_element("css selector", "#overview input.filter").send_keys("pass GREEN")
    rows = driver.find_elements("css selector", "#overview figure:first-of-type tbody tr")
    shown = [row for row in rows if row.is_displayed()]
    assert [row.text.split()[0] for row in shown] == ["PASS"]
    assert "1 of 3" in driver.find_element("css selector", "#overview .count").text


def test_a_click_sorts_by_number_and_a_second_one_turns_it(page: Path, browse: Open) -> None:
    driver = browse(page)
    button = driver.find_element("css selector", '[aria-label="sort by distance"]')
    cells = (
        "return [...document.querySelectorAll('#overview figure:first-of-type tbody tr')]"
        ".map(r => r.cells[6].textContent)"
    )
    button.click()
    assert driver.execute_script(cells) == ["−31.7%", "+47.8%", "-"]
    button.click()
    assert driver.execute_script(cells) == ["+47.8%", "−31.7%", "-"]
    head = button.find_element("xpath", "..")
    assert head.get_attribute("aria-sort") == "descending"


def test_a_link_opens_a_test_and_its_address_opens_it_again(page: Path, browse: Open) -> None:
    driver = browse(page)
    follow(driver, "test_b.py::test_green")
    titles = [
        h.text for h in driver.find_elements("css selector", "article h2") if h.is_displayed()
    ]
    assert titles == ["test_b.py::test_green PASS"]
    fragment = driver.current_url.partition("#")[2]
    assert driver.find_element("id", "overview").is_displayed() is False
    driver = browse(page, fragment)
    assert driver.find_element("id", fragment).is_displayed()


def _open_green(driver: Any) -> Any:
    follow(driver, "test_b.py::test_green")
    return driver.execute_async_script(
        "const done = arguments[0]; drawShown().then(() => done(document.querySelector("
        "'article:not([hidden]) figure.plot')))"
    )


def test_samples_zoom_by_button_and_key_and_come_back(page: Path, browse: Open) -> None:
    driver = browse(page)
    figure = _open_green(driver)
    whole = figure.get_attribute("data-range")
    assert whole == "1 60"
    figure.find_element("css selector", '[aria-label^="zoom in"]').click()
    low, high = map(float, figure.get_attribute("data-range").split())
    assert high - low == pytest.approx(59 / 2)
    figure.find_element("css selector", ".canvas").send_keys("0")
    assert figure.get_attribute("data-range") == whole


def test_limit_median_baseline_and_interval_are_told(page: Path, browse: Open) -> None:
    driver = browse(page)
    figure = _open_green(driver)
    legend = figure.find_element("css selector", ".legend").text
    for told in ("limit 2.000 ms", "median 1.044 ms", "baseline 1.020 ms", "1.030–1.060"):
        assert told in legend


def test_the_data_behind_a_plot_is_downloaded_in_full(page: Path, browse: Open) -> None:
    driver = browse(page)
    figure = _open_green(driver)
    figure.find_element("css selector", "button.csv").click()
    target = driver.downloads / "each-sample-timed-with-the-profiler-off-wall-clock.csv"
    _wait_for(target)
    rows = list(csv.reader(target.read_text(encoding="utf-8").splitlines()))
    assert rows[0] == ["sample", "step time (us)"]
    assert [float(r[1]) for r in rows[1:]] == records()[1]["samples_us"]
    target.unlink()


def test_a_table_is_downloaded_with_its_raw_values(page: Path, browse: Open) -> None:
    driver = browse(page)
    driver.find_element("css selector", "#overview button.csv").click()
    target = driver.downloads / "results.csv"
    _wait_for(target)
    rows = list(csv.DictReader(target.read_text(encoding="utf-8").splitlines()))
    assert float(rows[0]["value"]) == 0.41
    assert float(rows[0]["limit"]) == 0.6
    target.unlink()


def _wait_for(path: Path) -> None:
    until = time.monotonic() + 15
    while not path.exists():
        assert time.monotonic() < until, f"{path.name} was not downloaded"
        time.sleep(0.05)


def test_the_theme_turns_dark_and_stays_readable(page: Path, browse: Open) -> None:
    driver = browse(page)
    button = driver.find_element("id", "theme")
    for expected in ("light", "dark"):
        button.click()
        assert button.text == f"Theme: {expected}"
        for selector in ("body", ".badge.bad", ".badge.good", "footer", "#overview a", ".made"):
            # WCAG 2.1, success criterion 1.4.3: 4.5 to 1 for text.
            assert driver.execute_script(_CONTRAST, selector) >= 4.5, (expected, selector)


_CONTRAST = """
const parse = c => c.match(/[0-9.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
  .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const element = document.querySelector(arguments[0]);
let behind = element;
while (behind.parentElement && parse(getComputedStyle(behind).backgroundColor)[3] === 0)
  behind = behind.parentElement;
const a = light(parse(getComputedStyle(element).color));
const b = light(parse(getComputedStyle(behind).backgroundColor));
return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
"""


def test_a_definition_is_one_focus_away_and_goes_with_escape(page: Path, browse: Open) -> None:
    driver = browse(page)
    name = driver.find_element("css selector", '#overview .def[data-metric="overlap"]')
    driver.execute_script("arguments[0].focus()", name)
    tip = driver.find_element("id", "tip")
    assert tip.is_displayed()
    assert "unit: 1; higher is better" in tip.text
    assert name.get_attribute("aria-describedby") == "tip"
    name.send_keys("\ue00c")
    assert not tip.is_displayed()


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_but_tables_is_wider_than_the_window(page: Path, browse: Open, width: int) -> None:
    driver = browse(page)
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": width, "height": 800, "deviceScaleFactor": 1,
                            "mobile": False})  # fmt: skip
    try:
        driver.refresh()
        _open_green(driver)
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_every_control_and_picture_has_a_name(page: Path, browse: Open) -> None:
    driver = browse(page, "all")
    nameless = driver.execute_script(
        "return [...document.querySelectorAll('button, select, input, [role=img], [role=group],"
        " [role=region]')].filter(e => !(e.textContent.trim() && e.tagName === 'BUTTON')"
        " && !e.getAttribute('aria-label') && !(e.labels && e.labels.length))"
        ".map(e => e.outerHTML.slice(0, 80))"
    )
    assert nameless == []
    assert driver.execute_script("return document.documentElement.lang") == "en"
    levels = driver.execute_script(
        "return [...document.querySelectorAll('h1, h2, h3')].map(h => Number(h.tagName[1]))"
    )
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_everything_is_drawn_for_a_print_that_the_browser_begins(page: Path, browse: Open) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    driver = browse(page, "all")
    # Nobody scrolled to them: Ctrl-P would print frames without pictures.
    undrawn = (
        "return [...document.querySelectorAll('figure.plot')].filter("
        "f => f.offsetParent !== null && !f.querySelector('canvas')).length"
    )
    WebDriverWait(driver, 20).until(lambda d: d.execute_script(undrawn) == 0)
    widest = (
        "return Math.max(...[...document.querySelectorAll('figure.plot canvas')]"
        ".map(c => c.clientWidth))"
    )
    assert driver.execute_script(widest) > 720
    driver.execute_async_script(
        "dispatchEvent(new Event('beforeprint')); setTimeout(arguments[0], 300)"
    )
    # A4 less its margins is 720 px wide.
    assert 260 < driver.execute_script(widest) <= 720
    driver.execute_async_script(
        "dispatchEvent(new Event('afterprint')); setTimeout(arguments[0], 600)"
    )
    assert driver.execute_script(widest) > 720


def test_it_prints_without_its_controls(page: Path, browse: Open) -> None:
    driver = browse(page)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert not driver.find_element("id", "theme").is_displayed()
        assert driver.find_element("css selector", "#overview table").is_displayed()
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    printed = driver.execute_cdp_cmd("Page.printToPDF", {})
    assert len(printed["data"]) > 10_000
