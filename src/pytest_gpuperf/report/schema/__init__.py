"""The published JSON Schema of ``report.json``."""

from __future__ import annotations

from importlib.resources import files


def schema_text() -> str:
    """The schema as JSON; ``gpuperf report --schema`` prints it."""
    return (files(__package__) / "report.schema.json").read_text(encoding="utf-8")
