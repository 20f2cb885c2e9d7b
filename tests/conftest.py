"""Fixtures for every test: where the real traces are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of real traces beside the checkout; a skip with the reason where it is absent."""
    folder = ROOT.parent / "shared" / "traces"
    if not (folder / "expected.json").is_file():
        pytest.skip(f"no real traces: {folder} is not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def expected(shared_traces: Path) -> dict[str, Any]:
    """Exact values of the real traces, computed independently of this project."""
    loaded: dict[str, Any] = json.loads((shared_traces / "expected.json").read_text())
    return loaded
