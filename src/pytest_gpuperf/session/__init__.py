"""One measurement from request to result: what is declared, the fixture, the record.

Names are imported on first use (PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gpuperf.session.declaration import Declaration
    from pytest_gpuperf.session.fixture import Gpuperf
    from pytest_gpuperf.session.measurement import Measurement

_HOME = {"Declaration": "declaration", "Gpuperf": "fixture", "Measurement": "measurement"}

__all__ = ["Declaration", "Gpuperf", "Measurement"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
