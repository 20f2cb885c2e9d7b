"""What a report shows of a baseline beside a measurement: its values, and what changed since."""

from __future__ import annotations

from statistics import median
from typing import Any

from pytest_gpuperf.baselines.explanation import diff_since
from pytest_gpuperf.baselines.model import Entry
from pytest_gpuperf.baselines.observation import Observation

_CHANGES = 25
"""Ops of the diff that go into a report; what the others changed is one sum."""


def shown(entry: Entry, now: Observation) -> dict[str, Any]:
    """Runs, the median over them of each sampled value, and the diff of the op tables.

    ``diff`` is None where one of the sides has no op table.
    """
    found = diff_since(entry, now)
    return {
        "runs": len(entry.runs),
        "values": {
            metric: median(run.value for run in runs)
            for metric, runs in entry.sampled.items()
            if runs
        },
        "diff": None if found is None else found.to_json(_CHANGES),
    }
