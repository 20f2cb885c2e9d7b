"""What a file that another tool wrote says: values of our metrics, tables, findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuperf_analyzers.combining import values_json, worst_of
from gpuperf_analyzers.metrics import Metric, Value
from gpuperf_analyzers.trace.model import Finding

Cell = str | float | int | None


class ForeignError(ValueError):
    """A file that cannot be read: one line that names it, the place and the mend."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table of a reading.

    Attributes
    ----------
    title
        What the rows are.
    columns
        Header of each column, with its unit.
    rows
        Cells; None where the file says nothing.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one file says.

    Attributes
    ----------
    path, kind
        The file, and what it is in words (``nvidia-smi -q -x``).
    device_name, device_type
        The driver's name where the file gives one name for all its devices, else "";
        ``cuda``, ``hip`` or ``cpu`` as limits by device know them.
    parts
        Values of each device (or table) of the file: label and value by metric.
    sheets
        Tables to show.
    findings
        What makes the file, or a part of it, less than it seems.
    """

    path: str
    kind: str
    device_name: str = ""
    device_type: str = "cuda"
    parts: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    sheets: tuple[Sheet, ...] = ()
    findings: tuple[Finding, ...] = ()

    def values(self, metrics: Mapping[str, Metric]) -> dict[str, Value]:
        """One value a metric: of several devices the worst, named; in the order of `metrics`."""
        alone = len(self.parts) == 1
        found = {}
        for name, metric in metrics.items():
            said = [
                ("" if alone else label, values[name])
                for label, values in self.parts.items()
                if name in values
            ]
            if said:
                found[name] = worst_of(metric, said)
        return found

    @property
    def invalid(self) -> dict[str, str]:
        """Metrics that a finding makes invalid, with its message."""
        return {m: f.message for f in self.findings for m in sorted(f.invalidates)}

    def to_json(self, metrics: Mapping[str, Metric]) -> dict[str, Any]:
        """The reading as plain JSON types."""
        return {
            "path": self.path,
            "kind": self.kind,
            "device_name": self.device_name,
            "device_type": self.device_type,
            "values": values_json(self.values(metrics), metrics),
            "parts": {
                label: values_json(values, metrics) for label, values in self.parts.items()
            },
            "tables": [
                {"title": s.title, "columns": list(s.columns), "rows": [list(r) for r in s.rows]}
                for s in self.sheets
            ],
            "findings": [
                {
                    "code": f.code, "message": f.message, "count": f.count,
                    "example": f.example, "invalidates": sorted(f.invalidates),
                }
                for f in self.findings
            ],
        }  # fmt: skip


def one_name(names: Sequence[str]) -> str:
    """The name that all devices share; "" where they differ or there is none."""
    return names[0] if names and len(set(names)) == 1 else ""
