"""What one run leaves of one measurement for a baseline: plain JSON types that travel anywhere.

From a worker of a parallel run to the controller, into the file of the last run, into a baseline.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.baselines.environment import key_of, others_of

if TYPE_CHECKING:
    from gpuperf_analyzers.analysis import Analysis
    from gpuperf_analyzers.metrics import Value
    from pytest_gpuperf.session.baseline import Observed

SCHEMA = 1
# 1: first version.

MOST_SAMPLES = 1000
"""Samples that are kept of one run; of more, evenly spaced ones in their order."""
_ALONGSIDE = ("sm_clock", "power", "temperature")
"""Conditions of a GPU that may explain a change of time."""
_TENTH = 0.1


@dataclass(frozen=True, slots=True)
class Observation:
    """One measurement, ready to be stored or compared.

    Attributes
    ----------
    test, name
        Node id, and the measurement's name.
    key, others
        The environment: what must be equal, and what else is known.
    commit
        With ``+dirty`` where tracked files differ from it.
    conditions
        How it was measured: ``timer``, ``l2``, ``ranks``.
    counts
        By metric: lowest, highest, and why it is not exact ("" where it is).
    sampled
        By metric: value, the value that a tenth of the samples are at least as good as (None
        without samples), number of samples.
    alongside
        Clock, power and temperature of a GPU meanwhile.
    disturbed
        What is known to have disturbed it, "" where nothing is.
    samples_us
        Step times, µs.
    ops
        The packed op table, FLOP by op, allocations by op.
    """

    test: str
    name: str
    key: Mapping[str, str]
    others: Mapping[str, str]
    commit: str
    conditions: Mapping[str, str]
    counts: Mapping[str, tuple[float, float, str]]
    sampled: Mapping[str, tuple[float, float | None, int]]
    alongside: Mapping[str, float] = field(default_factory=dict)
    disturbed: str = ""
    samples_us: tuple[float, ...] = ()
    ops: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON types; :meth:`from_json` reads them back."""
        return {"schema": SCHEMA, **asdict(self)}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Observation:
        """The observation in `raw`.

        Raises
        ------
        ValueError
            It is none, or of another schema.
        """
        if raw.get("schema") != SCHEMA:
            raise ValueError(f"an observation of schema {raw.get('schema')!r}, not {SCHEMA}")
        try:
            return Observation(
                test=str(raw["test"]),
                name=str(raw["name"]),
                key=dict(raw["key"]),
                others=dict(raw["others"]),
                commit=str(raw["commit"]),
                conditions=dict(raw["conditions"]),
                counts={m: (float(a), float(b), str(c)) for m, (a, b, c) in raw["counts"].items()},
                sampled={
                    m: (float(v), None if t is None else float(t), int(n))
                    for m, (v, t, n) in raw["sampled"].items()
                },
                alongside={m: float(v) for m, v in raw["alongside"].items()},
                disturbed=str(raw["disturbed"]),
                samples_us=tuple(float(s) for s in raw["samples_us"]),
                ops=raw["ops"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"a damaged observation: {type(error).__name__}: {error}") from None


def observation_of(observed: Observed) -> Observation:
    """What `observed` leaves; a value that is not a finite number, or INVALID, is left out."""
    from gpuperf_analyzers.exactness import counts

    block = observed.blocks[0]
    environment = dict(block.environment)
    device_type = observed.analysis.device_type or block.device_type
    key = key_of(environment, device_type)
    limited = frozenset(limit.metric for limit in observed.limits)
    counted = counts(observed.analysis, limited)
    return Observation(
        test=observed.test,
        name=observed.name,
        key=key,
        others=others_of(environment, key),
        commit=environment.get("commit", ""),
        conditions=_conditions(observed),
        counts={m: (c.low, c.high, c.reason) for m, c in counted.items() if _finite(c.low, c.high)},
        sampled=_sampled(observed, limited - counted.keys()),
        alongside=_alongside(observed),
        disturbed=_disturbed(observed),
        samples_us=_thinned(block.samples_us),
        ops=_ops(observed),
    )


def _conditions(observed: Observed) -> dict[str, str]:
    block = observed.blocks[0]
    found = {"timer": block.timer, "ranks": str(len(observed.blocks))}
    return {**found, "l2": block.l2} if block.l2 else found


def _sampled(
    observed: Observed, limited: frozenset[str]
) -> dict[str, tuple[float, float | None, int]]:
    found = {}
    for name in dict.fromkeys(("step_time", *sorted(limited))):
        value = observed.analysis.values.get(name)
        metric = observed.analysis.metrics.get(name)
        if value is None or metric is None or value.value is None:
            continue
        if name in observed.analysis.invalid or not math.isfinite(value.value):
            continue
        samples = _samples(observed, name, value)
        tenth = best_tenth(samples, higher_is_better=metric.better == "higher")
        found[name] = (float(value.value), tenth, len(samples) or 1)
    return found


def _samples(observed: Observed, name: str, value: Value) -> tuple[float, ...]:
    """The samples behind a value, of the rank that it is the worst of."""
    if name != "step_time":
        return tuple(s for s in value.samples if math.isfinite(s))
    blocks = [b.samples_us for b in observed.blocks if b.samples_us]
    own = value.samples or (blocks[0] if len(blocks) == 1 else ())
    return tuple(s for s in own if math.isfinite(s))


def best_tenth(samples: tuple[float, ...], *, higher_is_better: bool) -> float | None:
    """The value that a tenth of `samples` are at least as good as; None without samples."""
    if not samples:
        return None
    from gpuperf_analyzers.stats import quantile

    if higher_is_better:
        return -quantile([-s for s in samples], _TENTH)
    return quantile(samples, _TENTH)


def _alongside(observed: Observed) -> dict[str, float]:
    values = observed.analysis.values
    return {
        name: float(values[name].value or 0.0)
        for name in _ALONGSIDE
        if name in values and values[name].value is not None
    }


def _disturbed(observed: Observed) -> str:
    """What the recorder saw of other work on the machine, and of a device that was held back."""
    from pytest_gpuperf.recording.busy_cpus import TOLD

    said = [n for b in observed.blocks for n in b.notes if TOLD in n]
    invalid = observed.analysis.invalid.get("step_time", "")
    return next((text for text in (*said, invalid) if text), "")


def _thinned(samples: tuple[float, ...]) -> tuple[float, ...]:
    finite = [round(s, 3) for s in samples if math.isfinite(s)]
    if len(finite) <= MOST_SAMPLES:
        return tuple(finite)
    return tuple(finite[i * len(finite) // MOST_SAMPLES] for i in range(MOST_SAMPLES))


def _ops(observed: Observed) -> dict[str, Any] | None:
    """The op table of all ranks, with FLOP and allocations by op; None where there is no device."""
    from gpuperf_analyzers.diff import op_table, pooled
    from pytest_gpuperf.baselines.op_tables import packed

    try:
        table = pooled([op_table(trace, observed.config) for trace in observed.traces])
    except ValueError:
        return None
    flops: dict[str, int] = {}
    for op, count in observed.blocks[0].flops_by_op.items():
        flops[op] = int(count)
    return {"table": packed(table), "flops": flops, "allocations": _allocations(observed)}


def _allocations(observed: Observed) -> dict[str, list[float]]:
    """Allocations and bytes of each op in a step of the first rank's first device."""
    analysis: Any = observed.analysis
    first: Analysis = getattr(analysis, "ranks", (analysis,))[0]
    memory = first.devices[0].results.get("memory") if first.devices else None
    steps = len(getattr(memory, "step_names", ()))
    if memory is None or not steps:
        return {}
    return {o.op: [o.allocations / steps, o.bytes / steps] for o in memory.by_op}


def _finite(*numbers: float) -> bool:
    return all(math.isfinite(n) for n in numbers)
