"""A user's project in a folder of its own, measured quickly."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

QUICK = """
[pytest]
addopts = -p no:randomly
gpuperf_warmup = 1ms
gpuperf_max_time = 30ms
gpuperf_steps = 2
gpuperf_device = cpu
"""

Project = Callable[..., pytest.RunResult]


@pytest.fixture(scope="session")
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One user cache for all projects: what is measured once per machine is measured once here."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def torch_loaded() -> Iterator[None]:
    """Compiled modules that an inner run would import, forget, and fail to import again."""
    import jinja2  # noqa: F401
    import msgspec  # noqa: F401
    import numpy as np  # noqa: F401
    import pandas as pd  # noqa: F401
    import rich.console
    import rich.table  # noqa: F401
    import scipy.stats  # noqa: F401

    import pytest_gpuperf.recording.recorder
    import pytest_gpuperf.report.html.analysed
    import pytest_gpuperf.report.html.sources
    import pytest_gpuperf.report.terminal  # noqa: F401
    from gpuperf_analyzers.analysis import QUESTIONS

    torch = pytest.importorskip("torch")
    # Threads that spin for each other on a busy machine would be all that is measured.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.profiler.profile():  # its first start imports the compiler
        torch.ones(1)
    for question in (*QUESTIONS, "set_analysis"):
        import_module(f"gpuperf_analyzers.{question}")
    yield
    gc.unfreeze()
    torch.set_num_threads(threads)


@pytest.fixture
def project(
    torch_loaded: None,
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    cache_home: Path,
) -> Project:
    """``project(source, *options)`` runs pytest on one test module, in this process."""
    # A recording collects garbage between its rounds: all of torch need not be looked through.
    gc.freeze()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_home))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("COLUMNS", "200")
    # Device locks of our own: numbers do not matter here, and waiting for others would.
    monkeypatch.setenv("TMPDIR", str(cache_home))
    monkeypatch.setattr("tempfile.tempdir", str(cache_home))
    pytester.makefile(".ini", pytest=QUICK)

    def run(source: str | None, *options: str, **settings: Any) -> pytest.RunResult:
        if source is not None:
            pytester.makepyfile(source)
        if settings.get("subprocess"):
            return pytester.runpytest_subprocess(*options)
        return pytester.runpytest_inprocess(*options)

    return run
