"""The screenshots of docs/, made from a run of the example project so that they stay true.

``.venv/bin/python scripts/screenshots.py`` runs the example project with ``--gpuperf-report``,
opens its page in headless Chromium and writes ``docs/images/report-*.png``. With ``--report DIR``
the run is one that was made before.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 300_000
"""A picture in the repository is smaller than this."""


def run_example(folder: Path) -> None:
    """The example project, measured, with its report in `folder`."""
    subprocess.run(
        [sys.executable, "-m", "pytest", str(ROOT / "example_project"), "--gpuperf-report",
         "--gpuperf-dir", str(folder), "-q", "-p", "no:cacheprovider"],
        cwd=ROOT / "example_project", check=True,
    )  # fmt: skip


def browser(profile: str) -> Any:
    """A headless Chromium."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        raise SystemExit("chromium and chromedriver are needed (Debian: chromium-driver)")
    options = Options()
    options.binary_location = chromium
    for argument in ("--headless=new", "--disable-gpu", "--hide-scrollbars",
                     f"--user-data-dir={profile}",
                     *(["--no-sandbox"] if os.geteuid() == 0 else [])):  # fmt: skip
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=Service(driver))


def shoot(driver: Any, name: str, width: int, height: int) -> None:
    """Write the window as ``report-NAME.png``."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.execute_async_script(
        "const done = arguments[0]; setTimeout(() => drawShown().then(() =>"
        " requestAnimationFrame(() => requestAnimationFrame(done))), 400)"
    )
    target = IMAGES / f"report-{name}.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    driver.save_screenshot(str(target))
    if target.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{target.name} is larger than {MOST_BYTES // 1000} kB")
    print(target.relative_to(ROOT))


def pictures(page: Path) -> None:
    """Overview, a test in light and dark, its ranks, and a narrow window."""
    with tempfile.TemporaryDirectory() as profile:
        driver = browser(profile)
        try:
            driver.get(page.as_uri())
            driver.execute_script("setTheme('light')")
            shoot(driver, "overview", 1100, 760)
            driver.find_element("partial link text", "gradients_travel").click()
            shoot(driver, "test", 1100, 1250)
            _scroll_to(driver, "Timeline")
            shoot(driver, "timeline", 1100, 420)
            driver.execute_script("setTheme('dark')")
            _scroll_to(driver, "Where the time went")
            shoot(driver, "ranks-dark", 1100, 900)
            # The click above scrolled its link into view.
            driver.execute_script(
                "setTheme('light'); location.hash = ''; route();"
                " for (const each of document.querySelectorAll('.scroll')) each.scrollTop = 0"
            )
            shoot(driver, "narrow", 400, 800)
        finally:
            driver.quit()


def _scroll_to(driver: Any, title: str) -> None:
    driver.execute_script(
        "for (const h of document.querySelectorAll('article:not([hidden]) h3'))"
        " if (h.textContent === arguments[0]) h.scrollIntoView()",
        title,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Make them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, metavar="DIR", help="a run made before")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        report = args.report or Path(folder)
        if args.report is None:
            run_example(report)
        page = report / "report.html"
        if not page.is_file():
            raise SystemExit(f"{page} is not there: run with --gpuperf-report")
        pictures(page.resolve())


if __name__ == "__main__":
    main()
