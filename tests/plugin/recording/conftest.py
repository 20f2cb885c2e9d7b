"""What the tests of recordings take for granted of the process they run in."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True)
def _nothing_frozen() -> None:
    """The collector as in a fresh process: other tests of this worker may have frozen theirs."""
    gc.unfreeze()
