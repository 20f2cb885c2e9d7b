"""Several ranks' traces as one: each rank's analysis, the worst of each metric, and the spread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.analysis import (
    Analysis,
    analyze,
    finding_json,
    invalid_metrics,
    no_device_reason,
)
from gpuperf_analyzers.combining import Spread, spread_of, values_json, worst_of
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.live_block import LiveBlock
from gpuperf_analyzers.matched_collectives import MatchedResult, match
from gpuperf_analyzers.metrics import Metric, Value
from gpuperf_analyzers.registry import load_config
from gpuperf_analyzers.stragglers import StragglersResult, find_stragglers
from gpuperf_analyzers.summary import Summary, summarize_set, summarize_trace
from gpuperf_analyzers.trace.model import Finding, TraceSet

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class SetAnalysis:
    """The ranks of one run.

    Attributes
    ----------
    ranks
        Each trace's analysis, in the order of the set.
    values
        One value a metric: the worst rank's, named in ``at``. What takes all ranks (bus
        bandwidth) stands in place of what one rank knows of it.
    spread
        Mean, extremes and worst rank of each metric that a rank has.
    findings
        Of the set itself (ranks missing, duplicate, clock skew) and of each rank.
    invalid
        Metrics that must not be judged, with the reason.
    failed
        Files that could not be read, with the line that says why.
    rank_source
        Where the ranks' numbers came from.
    collectives
        The collectives matched over the ranks: waiting, transfer, stragglers, bus bandwidth; None
        for a single rank.
    stragglers
        Who is late, by how much, since when and in what; None for a single rank.
    summary
        All of it in a paragraph of plain words.
    """

    ranks: tuple[Analysis, ...]
    metrics: Mapping[str, Metric]
    values: Mapping[str, Value]
    spread: Mapping[str, Spread]
    findings: tuple[Finding, ...]
    invalid: Mapping[str, str]
    failed: Mapping[str, str]
    rank_source: str
    collectives: MatchedResult | None = None
    stragglers: StragglersResult | None = None
    summary: Summary = field(default_factory=lambda: Summary(()))

    @property
    def device_name(self) -> str:
        """The driver's name of the first rank's device."""
        return next((r.device_name for r in self.ranks if r.device_name), "")

    @property
    def device_type(self) -> str:
        """``cpu`` or ``cuda``, as the first rank with a device has it."""
        return next((r.device_type for r in self.ranks if r.device_type), "")

    @property
    def block(self) -> LiveBlock | None:
        """The live block of the first rank that has one."""
        return next((r.block for r in self.ranks if r.block is not None), None)

    def to_frame(self) -> pd.DataFrame:
        """One row a rank, a column a metric that some rank has."""
        import pandas as pd

        rows = [
            {"rank": r.rank, "path": r.path, **{name: r.values[name].value for name in self.spread}}
            for r in self.ranks
        ]
        return pd.DataFrame(rows)

    def to_json(self) -> dict[str, Any]:
        """The set and every rank, as plain JSON types."""
        return {
            "device_name": self.device_name,
            "device_type": self.device_type,
            "world_size": len(self.ranks),
            "rank_source": self.rank_source,
            "values": values_json(self.values, self.metrics),
            "spread": {name: asdict(spread) for name, spread in self.spread.items()},
            "findings": [finding_json(f) for f in self.findings],
            "invalid": dict(self.invalid),
            "failed": dict(self.failed),
            "summary": self.summary.to_json(),
            "stragglers": None if self.stragglers is None else asdict(self.stragglers),
            "collectives": None if self.collectives is None else asdict(self.collectives),
            "ranks": [r.to_json() for r in self.ranks],
        }


def analyze_set(
    traces: TraceSet,
    config: Config | None = None,
    *,
    told: Callable[[int, int, str], None] | None = None,
    partial_result: bool = False,
) -> SetAnalysis:
    """Every rank analyzed, and the set judged by its worst.

    The set may be of one trace: it is that rank then. `told` is called after each rank with how
    many are done, of how many, and its path. With `partial_result` an interrupt while ranks are
    analyzed leaves the set of those that were done, the others being in ``failed``.
    """
    config = config or load_config()
    ranks = _each_rank(traces, config, told, partial_result=partial_result)
    traces = _of_the_first(traces, len(ranks))
    labels = rank_labels(ranks)
    of_ranks = tuple(
        Finding(f.code, f.message, f.count, f.example, f.invalidates, _joined(label, f.at))
        for label, rank in zip(labels, ranks, strict=True)
        for f in rank.findings
    )
    findings = (*traces.findings, *of_ranks)
    parts = {
        name: [(label, rank.values[name]) for label, rank in zip(labels, ranks, strict=True)]
        for name in config.metrics
    }
    values = {name: worst_of(config.metrics[name], parts[name]) for name in config.metrics}
    matched = match(traces.traces, config) if len(ranks) > 1 else None
    late: StragglersResult | None = None
    if matched is not None:
        late = find_stragglers(traces.traces, config, matched)
        values |= {value.name: value for value in (*matched.metrics(), *late.metrics())}
        findings += tuple(matched.findings())
    spread = {
        name: found
        for name in config.metrics
        if (found := spread_of(config.metrics[name], parts[name])) is not None
    }
    return SetAnalysis(
        ranks=ranks,
        metrics=config.metrics,
        values=values,
        spread=spread,
        findings=findings,
        invalid=_invalid(traces.findings, labels, ranks),
        failed=dict(traces.failed),
        rank_source=traces.rank_source,
        collectives=matched,
        stragglers=late,
        summary=_summary(ranks, labels, late, config),
    )


def _each_rank(
    traces: TraceSet,
    config: Config,
    told: Callable[[int, int, str], None] | None,
    *,
    partial_result: bool,
) -> tuple[Analysis, ...]:
    analyses: list[Analysis] = []
    try:
        for trace in traces.traces:
            analyses.append(analyze(trace, config))
            if told is not None:
                told(len(analyses), len(traces.traces), trace.path)
    except KeyboardInterrupt:
        if not (partial_result and analyses):
            raise
    return tuple(analyses)


def _of_the_first(traces: TraceSet, count: int) -> TraceSet:
    """The set of its first `count` traces; the others failed, for they were not analyzed."""
    if count == len(traces.traces):
        return traces
    left = {t.path: f"{t.path}: not analyzed: interrupted" for t in traces.traces[count:]}
    return replace(traces, traces=traces.traces[:count], failed={**traces.failed, **left})


def slowest_rank(ranks: tuple[Analysis, ...]) -> int:
    """Index of the rank whose step is longest; without steps, whose window is."""
    for metric in ("step_time", "window"):
        timed = [i for i, r in enumerate(ranks) if r.values[metric].value is not None]
        if timed:
            return max(timed, key=lambda i: ranks[i].values[metric].value or 0.0)
    return 0


def _summary(
    ranks: tuple[Analysis, ...],
    labels: tuple[str, ...],
    late: StragglersResult | None,
    config: Config,
) -> Summary:
    if len(ranks) == 1:
        return ranks[0].summary
    own = [
        (
            rank.rank,
            summarize_trace(
                rank.devices,
                rank.findings,
                config.thresholds,
                nothing=no_device_reason(rank.findings),
                whose=label[:1].upper() + label[1:],
            ),
        )
        for label, rank in zip(labels, ranks, strict=True)
    ]
    return summarize_set(own, late, slowest_rank(ranks))


def _invalid(
    findings: tuple[Finding, ...], labels: tuple[str, ...], ranks: tuple[Analysis, ...]
) -> dict[str, str]:
    """What the set or any of its ranks forbids to judge: the worst may be the rank that is off."""
    reasons = invalid_metrics(findings)
    for label, rank in zip(labels, ranks, strict=True):
        for metric, reason in rank.invalid.items():
            reasons.setdefault(metric, f"{label}: {reason}" if label else reason)
    return reasons


def rank_labels(ranks: tuple[Analysis, ...]) -> tuple[str, ...]:
    """A distinct name of each, "" for a single one.

    ``rank 3``; where ranks are unknown or not distinct the file's name, or else its path.
    """
    if len(ranks) == 1:
        return ("",)
    named = tuple(r.label for r in ranks)
    if all(named) and len(set(named)) == len(named):
        return named
    files = tuple(r.path.rsplit("/", 1)[-1] for r in ranks)
    return files if len(set(files)) == len(files) else tuple(r.path for r in ranks)


def _joined(label: str, at: str) -> str:
    return ", ".join(text for text in (label, at) if text)
