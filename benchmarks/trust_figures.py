"""The tables of docs/trust.md, from recorded runs: false alarms, power, replayed sequences.

    python -m benchmarks.trust_figures [RUNS.jsonl …]        # by default those in trust_runs/

The runs are recorded by ``benchmarks.trust_record``, are of the same code on both sides, and are
resampled here into comparisons; a slowdown is injected by multiplying the times of one side. The
judges are the product's own functions. Beside them stand two rules of other tools, written anew
from what their documentation says, and fed the same runs.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuperf_analyzers.regression import (
    FEWEST_PAIRS,
    Allowed,
    Decision,
    RunValue,
    Schedule,
    judge_pairs,
    judge_runs,
)
from gpuperf_analyzers.verdicts import Verdict

COMPARISONS = 1000
FOR_POWER = 400
"""Comparisons for each slowdown and condition."""
RUNS = Path(__file__).parent / "trust_runs"
STORED = 10
THREE = Allowed(0.03)
SLOWDOWNS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.10, 0.15, 0.20, 0.30)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The pairs of one test in one condition, and what a pair took."""

    pairs: tuple[tuple[RunValue, RunValue], ...]
    seconds: float

    @property
    def runs(self) -> tuple[RunValue, ...]:
        """Every process as a run of its own, in order."""
        return tuple(run for pair in self.pairs for run in pair)


def read(path: Path) -> dict[str, Recorded]:
    """What was recorded, by test."""
    lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    found: dict[str, list[tuple[RunValue, RunValue]]] = {}
    for line in lines:
        for test, there in line["there"].items():
            here = line["here"].get(test)
            if there and here:
                found.setdefault(test, []).append((_run(there), _run(here)))
    tests = max(1, len(found))
    seconds = float(np.median([line["seconds"] for line in lines])) / tests
    return {test: Recorded(tuple(pairs), seconds) for test, pairs in found.items()}


def _run(raw: Sequence[Any]) -> RunValue:
    return RunValue(raw[0], raw[1], disturbed=raw[3])


def slower(run: RunValue, by: float) -> RunValue:
    """`run` with every time longer by the share `by`."""
    return RunValue(run.value * (1 + by), (run.best_tenth or run.value) * (1 + by),
                    disturbed=run.disturbed)  # fmt: skip


def ab(recorded: Recorded, by: float, rng: np.random.Generator) -> tuple[Verdict, int]:
    """One A/B comparison of pairs drawn anew: its verdict, and how many pairs it took."""
    drawn = rng.integers(0, len(recorded.pairs), Schedule().most)
    flipped = rng.random(len(drawn)) < 0.5  # which of two equal processes is called the new one
    pairs = [recorded.pairs[i][::-1] if f else recorded.pairs[i]
             for i, f in zip(drawn, flipped, strict=True)]  # fmt: skip
    values = [(a.value, slower(b, by).value) for a, b in pairs]
    return _looked_at(values)


def in_order(recorded: Recorded, by: float) -> list[tuple[Verdict, int]]:
    """Comparisons of the pairs one after the other as they ran, each pair in one of them."""
    found, start = [], 0
    while start + FEWEST_PAIRS <= len(recorded.pairs):
        values = [(a.value, slower(b, by).value) for a, b in recorded.pairs[start:]]
        verdict, used = _looked_at(values)
        if verdict is Verdict.AMBIGUOUS and used < Schedule().most:
            break  # the record ended before the comparison did
        found.append((verdict, used))
        start += used
    return found


def _looked_at(values: Sequence[tuple[float, float]]) -> tuple[Verdict, int]:
    """Verdict and number of pairs at the look that decides."""
    found: dict[str, Decision] = {}
    for look in Schedule():
        found = judge_pairs({"t": values[: look.pairs]}, {"t": THREE}, look, earlier=found)
        if not found["t"].more or look.pairs >= len(values):
            break
    return found["t"].verdict, found["t"].n_after


def stored(recorded: Recorded, by: float, rng: np.random.Generator) -> tuple[Verdict, int]:
    """One comparison of a run with ten stored ones, all drawn anew."""
    drawn = rng.permutation(len(recorded.runs))[: STORED + 1]
    runs = [recorded.runs[i] for i in drawn]
    found = judge_runs({"t": runs[:-1]}, {"t": [slower(runs[-1], by)]}, {"t": THREE})
    return found["t"].verdict, 1


def single_stored(recorded: Recorded, by: float, rng: np.random.Generator) -> tuple[Verdict, int]:
    """``--benchmark-compare-fail=median:3%`` of pytest-benchmark: one run against one stored run.

    Its documentation: the run fails where the median is more than 3% above the saved one's.
    """
    before, now = rng.permutation(len(recorded.runs))[:2]
    worse = recorded.runs[now].value * (1 + by) > recorded.runs[before].value * 1.03
    return (Verdict.FAIL if worse else Verdict.PASS), 1


def torch_gate(recorded: Recorded, by: float, rng: np.random.Generator) -> tuple[Verdict, int]:
    """pytest-torch's latency gate with its defaults: one run against one stored run.

    Its documentation (1.1): a regression is ``new > baseline * (1 + 0.25) + 0.05 ms``, of medians.
    """
    before, now = rng.permutation(len(recorded.runs))[:2]
    new_us = recorded.runs[now].value * (1 + by)
    worse = new_us > recorded.runs[before].value * 1.25 + 50
    return (Verdict.FAIL if worse else Verdict.PASS), 1


Judge = Callable[[Recorded, float, np.random.Generator], tuple[Verdict, int]]
JUDGES: dict[str, Judge] = {
    "A/B": ab,
    "stored baseline (10 runs)": stored,
    "pytest-benchmark median:3%": single_stored,
    "pytest-torch latency gate": torch_gate,
}


def upper(count: int, of: int) -> float:
    """Upper end of the 95% interval (one-sided, Clopper–Pearson) of a share."""
    from scipy.stats import beta

    return 1.0 if count == of else float(beta.ppf(0.95, count + 1, of - count))


@dataclass(frozen=True, slots=True)
class Counted:
    """Verdicts of many comparisons, and the mean number of pairs or runs."""

    verdicts: Counter[Verdict]
    cost: float

    @property
    def total(self) -> int:
        """How many there were."""
        return sum(self.verdicts.values())

    def share(self, verdict: Verdict) -> float:
        """Share of a verdict."""
        return self.verdicts[verdict] / self.total


def many(
    recorded: Iterable[Recorded], judge: Judge, by: float, seed: int, count: int = COMPARISONS
) -> Counted:
    """`count` comparisons, spread evenly over the tests."""
    sets = list(recorded)
    rng = np.random.default_rng(seed)
    found = [judge(sets[i % len(sets)], by, rng) for i in range(count)]
    return Counted(Counter(v for v, _ in found), float(np.mean([n for _, n in found])))


def spread(recorded: Recorded) -> tuple[float, float]:
    """Standard deviation, % of logarithms: between processes, and of a pair's difference."""
    runs = np.log([run.value for run in recorded.runs])
    pairs = [math.log(b.value / a.value) for a, b in recorded.pairs]
    return 100 * float(np.std(runs, ddof=1)), 100 * float(np.std(pairs, ddof=1))


def main(paths: Sequence[str]) -> None:
    conditions = {Path(path).stem: read(Path(path)) for path in paths}
    print("| condition | test | processes | sd between processes | sd of a pair's difference |")
    print("| :-- | :-- | --: | --: | --: |")
    for condition, tests in conditions.items():
        for test, recorded in tests.items():
            runs, pairs = spread(recorded)
            print(f"| {condition} | {test} | {len(recorded.runs)} | {runs:.1f}% | {pairs:.1f}% |")
    print("\n| condition | judge | FAIL | at most (95%) | AMBIGUOUS | PASS |")
    print("| :-- | :-- | --: | --: | --: | --: |")
    for condition, tests in conditions.items():
        for name, judge in JUDGES.items():
            c = many(tests.values(), judge, 0.0, 1)
            fails = c.verdicts[Verdict.FAIL]
            print(f"| {condition} | {name} | {fails} of {c.total} | {upper(fails, c.total):.1%} | "
                  f"{c.share(Verdict.AMBIGUOUS):.1%} | {c.share(Verdict.PASS):.1%} |")  # fmt: skip
    print("\n| condition | in the order they ran | FAIL | AMBIGUOUS | PASS | mean pairs |")
    print("| :-- | :-- | --: | --: | --: | --: |")
    for condition, tests in conditions.items():
        for by in (0.0, 0.10):
            several = [c for recorded in tests.values() for c in in_order(recorded, by)]
            verdicts = Counter(v for v, _ in several)
            pairs = np.mean([n for _, n in several]) if several else 0.0
            print(f"| {condition} | {len(several)} comparisons, {by:.0%} slower | "
                  f"{verdicts[Verdict.FAIL]} | {verdicts[Verdict.AMBIGUOUS]} | "
                  f"{verdicts[Verdict.PASS]} | {pairs:.1f} |")  # fmt: skip
    for condition, tests in conditions.items():
        _power(condition, tests)


def _power(condition: str, tests: Mapping[str, Recorded]) -> None:
    """The table of what is found of injected slowdowns, and at what cost."""
    seconds = sum(r.seconds for r in tests.values()) / len(tests)
    print(f"\n{condition}: a pair takes {seconds:.1f} s a test")
    print("| slowdown | A/B FAIL | AMBIGUOUS | PASS | pairs | seconds | stored FAIL | "
          "AMBIGUOUS | PASS | median:3% FAIL | pytest-torch FAIL |")  # fmt: skip
    print("| --: " * 11 + "|")
    for by in SLOWDOWNS:
        a, s, m, t = (many(tests.values(), judge, by, 2 + i, FOR_POWER)
                      for i, judge in enumerate(JUDGES.values()))  # fmt: skip
        cells = [f"{by:.0%}", *_shares(a), f"{a.cost:.1f}", f"{a.cost * seconds:.0f}", *_shares(s),
                 f"{m.share(Verdict.FAIL):.1%}", f"{t.share(Verdict.FAIL):.1%}"]  # fmt: skip
        print("| " + " | ".join(cells) + " |")


def _shares(counted: Counted) -> list[str]:
    return [f"{counted.share(v):.1%}" for v in (Verdict.FAIL, Verdict.AMBIGUOUS, Verdict.PASS)]


if __name__ == "__main__":
    main(sys.argv[1:] or [str(RUNS / f"{c}.jsonl") for c in ("quiet", "competing", "drifting")])
