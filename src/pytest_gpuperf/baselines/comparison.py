"""One measurement against what is stored: found, refused, or judged, limit by limit."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from gpuperf_analyzers.display import harmless
from gpuperf_analyzers.limits import Judgement, Limit, Verdict
from pytest_gpuperf.baselines.document import BaselineError
from pytest_gpuperf.baselines.environment import counts_agree, differences
from pytest_gpuperf.baselines.exact import judge_exact
from pytest_gpuperf.baselines.explanation import changes_of, explained
from pytest_gpuperf.baselines.model import Baseline, Entry, Name
from pytest_gpuperf.baselines.observation import Observation, observation_of
from pytest_gpuperf.baselines.regression import judge_regression
from pytest_gpuperf.baselines.shown import shown
from pytest_gpuperf.baselines.store import EnvironmentFile, Store
from pytest_gpuperf.session.baseline import Compared, Observed

_CANDIDATES = 300
_NEAR = 0.6
_ID = 160
HOW_TO_SAVE = "`pytest --gpuperf-save` keeps one"


@dataclass(frozen=True, slots=True)
class Found:
    """What is stored of one measurement, or why there is nothing to compare with.

    Attributes
    ----------
    entry, baseline
        What is stored; None where there is nothing.
    verdict, reason
        NO-BASELINE, INCOMPARABLE or INVALID with why, where there is nothing.
    counts_only
        Whether it is of another CPU, so that its times are not compared; with what differs.
    """

    entry: Entry | None = None
    baseline: Baseline | None = None
    verdict: Verdict = Verdict.NO_BASELINE
    reason: str = ""
    counts_only: str = ""


class StoredBaselines:
    """The baselines of one name in one folder, for the tests of one process.

    Parameters
    ----------
    store
        The folder.
    name
        The baseline's name.
    family
        How many regression limits the whole run judges.
    across_cpus
        Whether counts may be compared with those of another CPU of the same torch.
    observe
        Whether measurements without a limit against a baseline are observed too.
    told
        Whether changes of what has no limit are told as well.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        family: int = 1,
        across_cpus: bool = False,
        observe: bool = False,
        told: bool = False,
    ) -> None:
        self._store = store
        self._name = name
        self.family = family
        self._across_cpus = across_cpus
        self._observe = observe
        self._told = told

    def compared(self, observed: Observed) -> Compared:
        """`observed` judged by its limits against the baseline, and made ready to be stored."""
        if not observed.limits and not self._observe:
            return Compared()
        now = observation_of(observed)
        found = self.find(now)
        notes: list[str] = []
        judged: list[Judgement] = []
        for limit in observed.limits:
            judgement, note = self._judge(limit, found, now, observed)
            judged.append(judgement)
            notes += [note] if note else []
        lines: tuple[str, ...] = ()
        if found.entry is not None and found.baseline is not None:
            lines = explained(judged, found.entry, found.baseline, now)
        if self._told and found.entry is None:
            notes.append(f"not compared: {found.reason}")
        elif self._told and found.entry is not None:
            limited = frozenset(limit.metric for limit in observed.limits)
            notes += changes_of(found.entry, now, self._name, without=limited)
        if found.counts_only:
            notes.append(f"counts are compared with another machine's: {found.counts_only}")
        before = None if found.entry is None else shown(found.entry, now)
        return Compared(tuple(judged), lines, tuple(notes), now.to_json(), before)

    def find(self, now: Observation) -> Found:
        """What is stored for `now`, or why nothing can be compared with it."""
        try:
            here = self._store.of(now.key)
            found = self._in(here, now)
            if found.entry is not None:
                return found
            return self._elsewhere(now, found)
        except BaselineError as error:
            return Found(verdict=Verdict.INVALID, reason=str(error).removeprefix("gpuperf: "))

    def _in(self, here: EnvironmentFile | None, now: Observation) -> Found:
        baseline = None if here is None else here.baselines.get(self._name)
        if here is None or baseline is None:
            known = sorted(here.baselines) if here is not None else []
            others = f" (there {'is' if len(known) == 1 else 'are'} {', '.join(known)})"
            named = "" if self._name == "default" else f" named {self._name!r}"
            more = others if known else ""
            return Found(reason=f"no baseline{named} is stored here{more}: {HOW_TO_SAVE}")
        name = (now.test, now.name)
        entry = baseline.entries.get(name)
        if entry is None:
            reason = f"this test is not in the baseline: {HOW_TO_SAVE}{nearest(name, baseline)}"
            return Found(reason=reason)
        ranks = entry.conditions.get("ranks"), now.conditions.get("ranks")
        if ranks[0] != ranks[1]:
            reason = f"measured on {ranks[0]} ranks in the baseline, on {ranks[1]} here"
            return Found(verdict=Verdict.INCOMPARABLE, reason=reason)
        return Found(entry, baseline)

    def _elsewhere(self, now: Observation, nothing: Found) -> Found:
        """Another environment's baseline of the same test: what differs, and no comparison.

        But counts of a CPU, where the project says that other CPUs will do.
        """
        if nothing.verdict is not Verdict.NO_BASELINE:
            return nothing
        near: list[tuple[int, str, EnvironmentFile, Entry]] = []
        for file in self._store.every():
            baseline = file.baselines.get(self._name)
            entry = baseline.entries.get((now.test, now.name)) if baseline else None
            if entry is not None and dict(file.key) != dict(now.key):
                clauses = differences(file.key, now.key)
                near.append((len(clauses), "; ".join(clauses), file, entry))
        if not near:
            return nothing
        usable = [n for n in near if self._across_cpus and self._counts_agree(n[2], n[3], now)]
        _, differ, file, entry = min(usable or near, key=lambda n: (n[0], n[1]))
        if usable and entry.conditions.get("ranks") == now.conditions.get("ranks"):
            return Found(entry, file.baselines[self._name], counts_only=differ)
        return Found(verdict=Verdict.INCOMPARABLE, reason=differ)

    def _counts_agree(self, file: EnvironmentFile, entry: Entry, now: Observation) -> bool:
        runs = file.baselines[self._name].runs
        others = next((r.others for r in reversed(runs) if r.number in entry.runs), {})
        return counts_agree({**others, **file.key}, {**now.others, **now.key})

    def _judge(
        self, limit: Limit, found: Found, now: Observation, observed: Observed
    ) -> tuple[Judgement, str]:
        metric = observed.config.metrics[limit.metric]
        invalid = observed.analysis.invalid.get(limit.metric)
        value = observed.analysis.values.get(limit.metric)

        def say(verdict: Verdict, reason: str) -> tuple[Judgement, str]:
            return (
                Judgement(
                    limit.text, limit.metric, limit.direction, limit.unit, verdict, None,
                    value.value if value is not None and limit.direction == "exact" else None,
                    None, reason,
                ),
                "",
            )  # fmt: skip

        if invalid:
            return say(Verdict.INVALID, invalid)
        if found.entry is None:
            return say(found.verdict, found.reason)
        absent = (value.absent_reason if value is not None else None) or "not measured"
        if limit.direction == "exact":
            return judge_exact(limit, metric, found.entry, now.counts.get(limit.metric), absent)
        if found.counts_only and limit.metric not in now.counts:
            return say(Verdict.INCOMPARABLE, found.counts_only)
        timed = found.entry.conditions
        for word in ("timer", "l2"):
            if timed.get(word, "") != now.conditions.get(word, ""):
                was = f"{word} {timed.get(word) or 'not set'} in the baseline"
                here = f"{now.conditions.get(word) or 'not set'} here"
                return say(Verdict.INCOMPARABLE, f"{was}, {here}")
        judgement = judge_regression(
            limit, metric, found.entry, now, absent=absent, family=self.family
        )
        return judgement, ""


def nearest(name: Name, baseline: Baseline) -> str:
    """The stored test that `name` may have been, with how to rename it; "" where none is near."""
    test, _ = name
    path, _, function = test.partition("::")
    bare = function.partition("[")[0]
    stored: Mapping[str, None] = dict.fromkeys(t for t, _ in baseline.entries)
    # Only of the same file or the same function: a close match among thousands is slow to find.
    like = [t for t in stored if t.startswith(f"{path}::") or t.partition("::")[2].startswith(bare)]
    close = difflib.get_close_matches(test, like[:_CANDIDATES], n=1, cutoff=_NEAR)
    if not close:
        return ""
    return f"; the nearest there is {harmless(close[0], _ID)} (`gpuperf baseline rename`)"
