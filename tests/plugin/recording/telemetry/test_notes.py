"""What the user is told of the sampler."""

from __future__ import annotations

import pytest

from pytest_gpuperf.recording import notes
from pytest_gpuperf.recording.notes import telemetry_notes


def test_a_missing_driver_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "_told", set())
    first = telemetry_notes("Driver Not Loaded", {})
    assert first == ("no clocks, power or temperature: Driver Not Loaded",)
    assert telemetry_notes("Driver Not Loaded", {}) == ()
    assert telemetry_notes("GPU is lost", {}) != ()


def test_a_rate_far_below_the_one_asked_for_is_told() -> None:
    slow = {"sampler_rate": {"value": 21.0, "n": 30.0, "max": 50.0}}
    (note,) = telemetry_notes(None, slow)
    assert "21 times a second where 50" in note
    fine = {"sampler_rate": {"value": 41.0, "n": 60.0, "max": 50.0}}
    assert telemetry_notes(None, fine) == ()
    assert telemetry_notes(None, {}) == ()
