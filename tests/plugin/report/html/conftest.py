"""A real Chromium, without a window, for the pages that the tests write."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Open = Callable[..., Any]


@pytest.fixture(scope="session")
def _driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    chromedriver = shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("no browser: chromium and chromedriver (Debian: chromium-driver) are not here")
    selenium = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = chromium
    downloads = tmp_path_factory.mktemp("downloads")
    profile = tmp_path_factory.mktemp("profile")
    # As root there is no sandbox to be had; the pages are our own.
    for argument in ("--headless=new", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                     "--disable-background-networking", f"--user-data-dir={profile}",
                     "--window-size=1280,1000", "--disable-dev-shm-usage",
                     *(["--no-sandbox"] if os.geteuid() == 0 else [])):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    driver = selenium.Chrome(options=options, service=Service(chromedriver))
    driver.downloads = downloads
    yield driver
    driver.quit()


@pytest.fixture
def browse(_driver: Any) -> Iterator[Open]:
    """Opens a page from disk and waits until its scripts are through; afterwards no console error.

    ``browse(path, hash, errors=True)`` says that this page may complain.
    """
    allowed = []

    def opened(page: Path, fragment: str = "", *, errors: bool = False) -> Any:
        allowed.append(errors)
        _driver.get("about:blank")
        _driver.get_log("browser")
        _driver.get(page.as_uri() + (f"#{fragment}" if fragment else ""))
        ready = "return document.documentElement.dataset.ready === '1'"
        assert _driver.execute_script(ready), _driver.get_log("browser")
        return _driver

    yield opened
    said = [entry for entry in _driver.get_log("browser") if entry["level"] != "INFO"]
    _driver.set_window_size(1280, 1000)
    assert any(allowed) or said == []


def follow(driver: Any, part: str) -> None:
    """Click the link whose text has `part`, and wait until what it leads to is shown."""
    link = driver.find_element("partial link text", part)
    anchor = link.get_attribute("href").partition("#")[2]
    link.click()
    driver.execute_async_script(
        "const [id, done] = arguments, look = () => document.getElementById(id)"
        ".closest('article').hidden ? setTimeout(look, 10) : done(); look();",
        anchor,
    )
