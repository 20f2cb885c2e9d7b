"""Observations that read like what they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_gpuperf.baselines.observation import Observation

CPU = {"device": "cpu", "cpu_model": "Made-up 9000", "cores": "4", "torch": "2.13.0"}


def observation(
    test: str = "tests/test_a.py::test_step",
    *,
    name: str = "",
    launches: float | None = 120,
    step_us: float | None = 1000.0,
    tenth: float | None = None,
    samples: tuple[float, ...] = (),
    key: Mapping[str, str] = CPU,
    others: Mapping[str, str] | None = None,
    commit: str = "",
    ranks: int = 1,
    disturbed: str = "",
    alongside: Mapping[str, float] | None = None,
    ops: Mapping[str, Any] | None = None,
) -> Observation:
    """One measurement: exact launches, a step time in µs."""
    sampled = {} if step_us is None else {"step_time": (step_us, tenth or step_us * 0.99, 30)}
    return Observation(
        test=test,
        name=name,
        key=dict(key),
        others=dict(others or {"python": "3.11.7"}),
        commit=commit,
        conditions={"timer": "wall", "ranks": str(ranks)},
        counts={} if launches is None else {"kernel_launches": (launches, launches, "")},
        sampled=sampled,
        alongside=dict(alongside or {}),
        disturbed=disturbed,
        samples_us=samples,
        ops=ops,
    )
