"""The live half of pytest-gpuperf: run, record, judge and report a workload under pytest.

Names are imported on first use (PEP 562), so that pytest's start-up does not feel the plugin.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gpuperf_analyzers._version import __version__

_HOME = {
    "Gpuperf": "pytest_gpuperf.session",
    "fit_memory": "pytest_gpuperf.recording",
    "ratio": "pytest_gpuperf.session.pairs",
    "region": "pytest_gpuperf.recording",
}

__all__ = ["Gpuperf", "__version__", "fit_memory", "ratio", "region"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
