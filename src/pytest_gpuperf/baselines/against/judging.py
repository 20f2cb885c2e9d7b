"""Of what the processes of all pairs left to what each test is told."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.limits import Judgement, Limit, Verdict, worst
from gpuperf_analyzers.regression import Allowed, Decision, Look, judge_pairs
from pytest_gpuperf.baselines.against.side import INVALID
from pytest_gpuperf.baselines.against.sides import HERE, THERE
from pytest_gpuperf.baselines.exact import judge_exact
from pytest_gpuperf.baselines.explanation import explained
from pytest_gpuperf.baselines.model import Baseline, SavedRun
from pytest_gpuperf.baselines.observation import Observation

if TYPE_CHECKING:
    from gpuperf_analyzers.metrics import Metric

Key = tuple[str, str, str]
"""Test, measurement, metric."""
_PASSED = {"outcome": "passed"}


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement in one process: its record and what a baseline would keep of it."""

    record: Mapping[str, Any]
    observation: Mapping[str, Any]


@dataclass(slots=True)
class Comparison:
    """What was measured so far of every test.

    Attributes
    ----------
    limits
        Of each test, those against a baseline.
    metrics
        Every metric by name.
    title
        What the working tree is compared with: the revision as it was named, and its commit.
    """

    limits: Mapping[str, Sequence[Limit]]
    metrics: Mapping[str, Metric]
    title: str
    pairs: dict[Key, list[tuple[float, float]]] = field(default_factory=dict)
    unusable: dict[Key, str] = field(default_factory=dict)
    results: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    decisions: dict[Key, Decision] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unfit: str = ""
    """Why no two values of the sides may be compared; "" where they may."""
    pairs_run: int = 0

    def add(self, test: str, sides: Mapping[str, Mapping[str, Any]]) -> None:
        """Take in what one pair of processes left of `test`; of the first pair all is kept."""
        first = test not in self.results
        if first:
            self.results[test] = dict(sides)
        measured = {name: by_name(result) for name, result in sides.items()}
        failed = {name: str(r["said"]) for name, r in sides.items() if r.get("said")}
        here, there = measured.get(HERE, {}), measured.get(THERE, {})
        if not (here and there):
            self.lost[test] = self.lost.get(test, 0) + 1
        for name, limit in self._regressions(test, here if first else None):
            key = (test, name, limit.metric)
            self.pairs.setdefault(key, [])
            values = _value(there.get(name), limit.metric), _value(here.get(name), limit.metric)
            numbers = [v for v in values if isinstance(v, float)]
            if len(numbers) == 2:
                self.pairs[key].append((numbers[0], numbers[1]))
            else:
                why = next(v for v in values if isinstance(v, str))
                self.unusable[key] = next(iter(failed.values()), why)

    def _regressions(
        self, test: str, here: Mapping[str, Measured] | None
    ) -> Iterator[tuple[str, Limit]]:
        """Each limit on a regression with each measurement of the test, as the first pair had."""
        names = list(here or ()) or list(dict.fromkeys(n for t, n, _ in self.pairs if t == test))
        for name in names:
            for limit in self.limits.get(test, ()):
                if limit.direction == "regression" and limit.default is not None:
                    yield name, limit

    def look(self, look: Look) -> None:
        """Judge all regressions at `look`."""
        named = {"\0".join(key): key for key in self.pairs}
        allowed = {text: self._allowed(key) for text, key in named.items()}
        earlier = {text: self.decisions[key] for text, key in named.items()
                   if key in self.decisions}  # fmt: skip
        found = judge_pairs(
            {text: self.pairs[key] for text, key in named.items()}, allowed, look, earlier=earlier
        )
        self.decisions = {named[text]: decision for text, decision in found.items()}

    def _allowed(self, key: Key) -> Allowed:
        test, name, metric = key
        limit = next(
            m for m in self.limits[test] if m.direction == "regression" and m.metric == metric
        )
        assert limit.default is not None  # noqa: S101 - such a limit is not among the pairs
        here = by_name(self.results[test].get(HERE, {})).get(name)
        counted = here is not None and metric in here.observation.get("counts", {})
        return Allowed(
            limit.default.value,
            limit.default.floor or 0.0,
            higher_is_better=self.metrics[metric].better == "higher",
            deterministic=counted,
        )

    def open_tests(self) -> list[str]:
        """Tests that more pairs could still decide."""
        still = {key[0] for key, decision in self.decisions.items() if decision.more}
        return [test for test in self.limits if test in still]

    def records(self, test: str) -> list[dict[str, Any]]:
        """What `test` is told: a record a measurement, judged."""
        sides = self.results.get(test, {})
        here, there = by_name(sides.get(HERE, {})), by_name(sides.get(THERE, {}))
        found = []
        for name, mine in here.items():
            judged = list(self._judged(test, name, mine, there.get(name), sides.get(THERE, {})))
            found.append(self._record(test, name, mine, there.get(name), judged))
        return found

    def _judged(
        self, test: str, name: str, mine: Measured, theirs: Measured | None,
        other: Mapping[str, Any],
    ) -> Iterator[Judgement]:  # fmt: skip
        why = self._nothing_there(other, name) if theirs is None else ""
        for limit in self.limits.get(test, ()):
            if self.unfit:
                yield _said(limit, Verdict.INVALID, self.unfit)
            elif why:
                yield _said(limit, Verdict.NO_BASELINE, why)
            elif limit.direction == "exact" and theirs is not None:
                yield self._exact(limit, mine, theirs)
            elif limit.direction == "regression":
                yield self._regression(limit, (test, name, limit.metric))

    def _nothing_there(self, other: Mapping[str, Any], name: str) -> str:
        said = str(other.get("said") or "")
        if not other:
            return f"this test is not in {self.title}"
        if other.get("outcome") == "failed":
            return f"this test fails at {self.title}: {said}"
        if other.get("outcome") == "skipped":
            return f"this test is skipped at {self.title}: {said}"
        return f"{self.title} does not measure {name or 'anything'} in this test"

    def _exact(self, limit: Limit, mine: Measured, theirs: Measured) -> Judgement:
        now, before = _observation(mine), _observation(theirs)
        if limit.metric in mine.observation[INVALID]:
            return _said(limit, Verdict.INVALID, str(mine.observation[INVALID][limit.metric]))
        entry = _stored(before).entries[(before.test, before.name)]
        value = mine.record["values"].get(limit.metric) or {}
        absent = str(value.get("absent_reason") or "not measured")
        counted = now.counts.get(limit.metric)
        return judge_exact(limit, self.metrics[limit.metric], entry, counted, absent)[0]

    def _regression(self, limit: Limit, key: Key) -> Judgement:
        decision = self.decisions.get(key)
        if decision is None or not self.pairs.get(key):
            why = self.unusable.get(key, "not measured on both sides")
            invalid = why.startswith(_INVALID)
            verdict = Verdict.INVALID if invalid else Verdict.UNMEASURED
            return _said(limit, verdict, why.removeprefix(_INVALID))
        interval = decision.interval
        if interval is not None and not all(map(math.isfinite, interval)):
            interval = None
        return Judgement(
            limit.text, limit.metric, "regression", "fraction", decision.verdict, decision.bound,
            decision.change, interval, decision.reason,
        )  # fmt: skip

    def _record(
        self, test: str, name: str, mine: Measured, theirs: Measured | None,
        judged: Sequence[Judgement],
    ) -> dict[str, Any]:  # fmt: skip
        record = dict(mine.record)
        own = [entry for entry in record["limits"]
               if entry["direction"] not in ("regression", "exact")]  # fmt: skip
        record["limits"] = [*own, *(_limit_record(j, self.title) for j in judged)]
        verdicts = [Verdict(entry["verdict"]) for entry in record["limits"]]
        record["verdict"] = worst(verdicts).value if verdicts else None
        record["explained"] = self._explained(mine, theirs, judged)
        record["against"] = self._against(test, name)
        record["notes"] = [*record["notes"], *self.notes]
        record["traces"] = []
        return record

    def _explained(
        self, mine: Measured, theirs: Measured | None, judged: Sequence[Judgement]
    ) -> list[str]:
        if theirs is None:
            return []
        before = _observation(theirs)
        baseline = _stored(before)
        entry = baseline.entries[(before.test, before.name)]
        lines = explained(judged, entry, baseline, _observation(mine))
        # Which commits these are stands in every verdict already.
        return [
            line.replace("the baseline", self.title)
            for line in lines
            if not line.startswith("since commit")
        ]

    def _against(self, test: str, name: str) -> dict[str, Any]:
        """The pairs themselves, for the JSON report."""
        metrics = {}
        for (t, n, metric), pairs in self.pairs.items():
            if (t, n) == (test, name):
                decision = self.decisions.get((t, n, metric))
                metrics[metric] = {
                    "pairs": [list(pair) for pair in pairs],
                    "p_fail": decision.p_fail if decision else None,
                    "p_pass": decision.p_pass if decision else None,
                    "p_needed": decision.needed if decision else None,
                }
        return {"revision": self.title, "metrics": metrics, "pairs_lost": self.lost.get(test, 0)}


_INVALID = "\0"
"""Marks a reason as one of data that cannot be judged."""


def by_name(result: Mapping[str, Any]) -> dict[str, Measured]:
    """The measurements of a test in one process, by the name that a baseline gives them."""
    observed = {o["name"]: o for o in result.get("observations", ())}
    names: Counter[str] = Counter()
    found = {}
    for record in result.get("records", ()):
        name = record["name"]
        names[name] += 1
        stored = f"{name}#{names[name]}" if names[name] > 1 else name
        if stored in observed:
            found[stored] = Measured(record, observed[stored])
    return found


def _value(measured: Measured | None, metric: str) -> float | str:
    """The metric's value, or why there is none."""
    if measured is None:
        return "not measured on both sides"
    invalid = measured.observation.get(INVALID, {}).get(metric)
    if invalid:
        return f"{_INVALID}{invalid}"
    value = measured.record["values"].get(metric) or {}
    number = value.get("value")
    if isinstance(number, (int, float)) and math.isfinite(number):
        return float(number)
    return str(value.get("absent_reason") or "not measured")


def _observation(measured: Measured) -> Observation:
    return Observation.from_json(measured.observation)


def _stored(before: Observation) -> Baseline:
    """`before` as if it had been saved."""
    return Baseline().with_run(SavedRun(1, "", before.commit, before.others), [before], keep=1)


def _said(limit: Limit, verdict: Verdict, reason: str) -> Judgement:
    return Judgement(limit.text, limit.metric, limit.direction, limit.unit, verdict, reason=reason)


def _limit_record(j: Judgement, title: str) -> dict[str, Any]:
    return {
        "against": title,
        "text": j.text,
        "metric": j.metric,
        "direction": j.direction,
        "limit": j.limit,
        "verdict": j.verdict.value,
        "value": j.value,
        "interval": None if j.interval is None else list(j.interval),
        "reason": j.reason,
        "at": j.at,
        "unit": j.unit,
    }
