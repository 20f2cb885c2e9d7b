"""For every test: where the real traces are, and that the slowest files begin first."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester"]

# Torch's threads spin where they wait for each other: beside another worker and its processes that
# takes twice the time. A run without workers has all threads.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in each run, and none that is too slow where the machine is busy. What explores
# is `--hypothesis-profile=default`.
settings.register_profile(
    "gpuperf", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("gpuperf")

ROOT = Path(__file__).resolve().parent.parent
SLOWEST_FIRST = (
    "plugin/deploy/test_images.py",
    "plugin/test_docs.py",
    "plugin/test_gpu_check.py",
    "plugin/sweep/test_command.py",
    "plugin/against/test_against.py",
    "plugin/test_ddp_joined.py",
    "plugin/test_ddp.py",
    "plugin/ranks/test_launch.py",
    "plugin/door/test_runs.py",
    "plugin/door/test_baselines.py",
    "plugin/workloads/test_compiled.py",
    "plugin/sweep/test_cluster.py",
    "plugin/test_ddp_odd.py",
    "plugin/distributed/test_workloads.py",
)
"""Files of half a minute and more, relative to this folder."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the slowest files: where workers share the tests, none is left alone with one."""
    here = Path(__file__).parent
    order = {(here / name).resolve(strict=True): at for at, name in enumerate(SLOWEST_FIRST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))


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
