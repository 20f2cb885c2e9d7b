"""What a baseline holds: the last runs, and of each measurement what they measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_gpuperf.baselines.observation import Observation

Name = tuple[str, str]
"""Node id of the test, and the measurement's name ("" for an only one)."""

DEFAULT = "default"
"""The baseline that is meant where none is named."""


@dataclass(frozen=True, slots=True)
class SavedRun:
    """One run that was saved.

    Attributes
    ----------
    number
        Counts up from 1 within a baseline; a clock may go backwards, this does not.
    at
        When it was saved, ISO 8601, UTC.
    commit
        With ``+dirty`` where tracked files differed from it; "" outside git.
    others
        What is known of the environment beside the key.
    """

    number: int
    at: str
    commit: str
    others: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CountSince:
    """A count from one run on, until the next of them.

    ``low`` and ``high`` are its range in that run; ``exact`` whether it did not vary in three
    repeats or more.
    """

    run: int
    low: float
    high: float
    exact: bool


@dataclass(frozen=True, slots=True)
class SampledIn:
    """A sampled value in one run: value, its best tenth (None without samples), samples."""

    run: int
    value: float
    best_tenth: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One measurement of one test.

    Attributes
    ----------
    runs
        The runs that measured it, in order.
    conditions
        How it was measured, in the last of them.
    counts
        By metric, in the order of runs.
    sampled
        By metric, one a run.
    alongside
        Clock, power and temperature in the last run.
    disturbed
        By run, what is known to have disturbed it.
    ops
        The op table of the last run with FLOP and allocations by op; None where there is none.
    """

    runs: tuple[int, ...]
    conditions: Mapping[str, str]
    counts: Mapping[str, tuple[CountSince, ...]] = field(default_factory=dict)
    sampled: Mapping[str, tuple[SampledIn, ...]] = field(default_factory=dict)
    alongside: Mapping[str, float] = field(default_factory=dict)
    disturbed: Mapping[int, str] = field(default_factory=dict)
    ops: Mapping[str, Any] | None = None

    def count(self, metric: str) -> CountSince | None:
        """The count of the last run; None where it was not counted."""
        since = self.counts.get(metric)
        return since[-1] if since else None

    def count_in(self, metric: str, run: int) -> CountSince | None:
        """The count that stood in `run`."""
        known = [c for c in self.counts.get(metric, ()) if c.run <= run]
        return known[-1] if known else None


@dataclass(frozen=True, slots=True)
class Baseline:
    """The last runs of one name, and what they measured."""

    runs: tuple[SavedRun, ...] = ()
    entries: Mapping[Name, Entry] = field(default_factory=dict)

    @property
    def next_number(self) -> int:
        """The number of the next run."""
        return max((run.number for run in self.runs), default=0) + 1

    def with_run(
        self, run: SavedRun, observed: Sequence[Observation], *, keep: int, anew: bool = False
    ) -> Baseline:
        """The baseline with one more run; of each measurement the last `keep` runs stay.

        Parameters
        ----------
        run
            The run, of :attr:`next_number`.
        observed
            What it measured; measurements that it did not make are left as they are.
        keep
            Runs kept of each measurement.
        anew
            Whether the earlier runs of what was measured are dropped: a change is accepted.
        """
        entries = dict(self.entries)
        for observation in observed:
            name = (observation.test, observation.name)
            earlier = None if anew else entries.get(name)
            if earlier is not None and earlier.conditions != observation.conditions:
                earlier = None  # measured in another way, its values are of something else
            entries[name] = _last(_added(earlier, run.number, observation), keep)
        return Baseline((*self.runs, run), entries).tidied()

    def pruned(self, keep: int, *, without: frozenset[Name] = frozenset()) -> Baseline:
        """The baseline with the last `keep` runs of each measurement, `without` some of them."""
        entries = {n: _last(e, keep) for n, e in self.entries.items() if n not in without}
        return Baseline(self.runs, entries).tidied()

    def tidied(self) -> Baseline:
        """The baseline without runs that no measurement refers to."""
        used = {run for entry in self.entries.values() for run in entry.runs}
        return Baseline(tuple(r for r in self.runs if r.number in used), self.entries)


def _added(earlier: Entry | None, run: int, seen: Observation) -> Entry:
    """`earlier` with what `seen` says of `run`; a count is written where it changed."""
    before = earlier or Entry((), seen.conditions)
    counts = {}
    for metric, (low, high, reason) in seen.counts.items():
        since = before.counts.get(metric, ())
        now = CountSince(run, low, high, exact=not reason)
        same = since and replace(since[-1], run=run) == now
        counts[metric] = since if same else (*since, now)
    sampled = {
        metric: (*before.sampled.get(metric, ()), SampledIn(run, *values))
        for metric, values in seen.sampled.items()
    }
    said = {run: seen.disturbed} if seen.disturbed else {}
    return Entry(
        runs=(*before.runs, run),
        conditions=seen.conditions,
        counts=counts,
        sampled=sampled,
        alongside=seen.alongside,
        disturbed={**before.disturbed, **said},
        ops=seen.ops,
    )


def _last(entry: Entry, keep: int) -> Entry:
    """`entry` with its last `keep` runs; a count that stood before them begins with the first."""
    runs = entry.runs[-keep:]
    if runs == entry.runs:
        return entry
    first = runs[0]
    counts = {}
    for metric, since in entry.counts.items():
        older = [c for c in since if c.run <= first]
        begins = (replace(older[-1], run=first),) if older else ()
        counts[metric] = (*begins, *(c for c in since if c.run > first))
    return replace(
        entry,
        runs=runs,
        counts=counts,
        sampled={m: kept for m, s in entry.sampled.items() if (kept := _in(s, first))},
        disturbed={r: text for r, text in entry.disturbed.items() if r >= first},
    )


def _in(sampled: tuple[SampledIn, ...], first: int) -> tuple[SampledIn, ...]:
    return tuple(s for s in sampled if s.run >= first)
