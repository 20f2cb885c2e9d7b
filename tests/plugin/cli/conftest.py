"""What the tests of the command take for granted of their surroundings."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _width_of_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """No width from outside: a worker of a parallel run has one in its environment."""
    monkeypatch.delenv("COLUMNS", raising=False)
