"""Results of reports as families of Prometheus' gauges."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily

from gpuperf_analyzers.metrics import BUILTIN
from gpuperf_analyzers.verdicts import Verdict
from pytest_gpuperf.exporter.naming import gauge_name, label

MOST_RESULTS = 2000
"""Results of one report that are exported: some 50 series each; what is more is counted."""
_OF_RESULT = ("report", "test", "measurement", "device")
_HELP = {metric.name: f"{metric.title}: {metric.formula}" for metric in BUILTIN}
_RUN = "What was run, and on what."
_ENVIRONMENT = ("torch", "driver", "cuda", "python")

Family = GaugeMetricFamily | InfoMetricFamily
Report = tuple[str, Mapping[str, Any]]


def families(reports: Sequence[Report]) -> list[Family]:
    """Every family of `reports`, each a name (the label ``report``) and a report's document.

    A value that is absent, no number or not finite makes no series: its absence is told by the
    verdict UNMEASURED, and 0 would be a measurement.
    """
    gathered = _Gathered()
    for name, document in reports:
        gathered.add_report(label(name), document)
    return gathered.families


class _Gathered:
    """Families by name, each series once."""

    def __init__(self) -> None:
        self._families: dict[str, GaugeMetricFamily] = {}
        self._runs = InfoMetricFamily("gpuperf_run", _RUN, labels=["report"])
        self._seen: set[tuple[str, ...]] = set()
        self._reports: set[str] = set()

    @property
    def families(self) -> list[Family]:
        gauges = [self._families[name] for name in sorted(self._families)]
        return [self._runs, *gauges] if self._runs.samples else [*gauges]

    def add_report(self, report: str, document: Mapping[str, Any]) -> None:
        """The report as a whole, then its results."""
        records = [r for r in _list(document.get("results")) if isinstance(r, Mapping)]
        labels = {"report": report}
        verdicts = Counter(str(r.get("verdict")) for r in records)
        for verdict in Verdict:
            self._add("gpuperf_results", "Results of the run by verdict.",
                      {**labels, "verdict": str(verdict)}, verdicts[str(verdict)])  # fmt: skip
        self._add("gpuperf_results_left_out", f"Results beyond the {MOST_RESULTS} exported.",
                  labels, max(0, len(records) - MOST_RESULTS))  # fmt: skip
        created = _timestamp(document.get("created"))
        if created is not None:
            self._add("gpuperf_run_timestamp_seconds", "When the report was made, since 1970.",
                      labels, created)  # fmt: skip
        if report not in self._reports:  # two files whose long names have one label
            self._reports.add(report)
            self._runs.add_metric([report], _run_labels(document))
        times: Counter[tuple[str, ...]] = Counter()
        for record in records[:MOST_RESULTS]:
            of = _result_labels(report, record)
            key = tuple(of.values())
            times[key] += 1
            if times[key] > 1:  # the same test measured twice under one name
                of["measurement"] = f"{of['measurement']}#{times[key]}"
            self._add_result(of, record)

    def _add_result(self, of: Mapping[str, str], record: Mapping[str, Any]) -> None:
        said = record.get("verdict")
        for verdict in Verdict if said else ():
            self._add("gpuperf_verdict", "1 for the verdict of the measurement, 0 for the others.",
                      {**of, "verdict": str(verdict)}, said == str(verdict))  # fmt: skip
        for metric, entry in _mapping(record.get("values")).items():
            if isinstance(entry, Mapping):
                self._add_value(of, str(metric), entry)
        for limit in _list(record.get("limits")):
            if not isinstance(limit, Mapping):
                continue
            metric, unit = str(limit.get("metric")), str(limit.get("unit"))
            if limit.get("direction") in ("min", "max"):
                name, factor = gauge_name(metric, unit, "limit")
                self._add(name, f"Limit on {label(metric)}.",
                          {**of, "direction": limit["direction"]}, limit.get("limit"), factor
                          )  # fmt: skip

    def _add_value(self, of: Mapping[str, str], metric: str, entry: Mapping[str, Any]) -> None:
        unit = str(entry.get("unit"))
        name, factor = gauge_name(metric, unit)
        told = _HELP.get(metric, f"{label(metric)}, a metric of a plugin")
        self._add(name, told, of, entry.get("value"), factor)
        bounds = _list(entry.get("interval"))
        if len(bounds) == 2 and entry.get("value") is not None:
            name, factor = gauge_name(metric, unit, "interval")
            for side, bound in zip(("lower", "upper"), bounds, strict=True):
                self._add(
                    name, f"95% interval of {label(metric)}.", {**of, "bound": side}, bound, factor
                )

    def _add(
        self, name: str, told: str, labels: Mapping[str, str], value: Any, factor: float = 1.0
    ) -> None:
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            return
        family = self._families.get(name)
        if family is None:
            family = GaugeMetricFamily(name, told, labels=list(labels))
            self._families[name] = family
        key = (name, *labels.values())
        # Two names of plugins that differ in a dot alone: the first one's stands.
        if key not in self._seen:
            self._seen.add(key)
            family.add_metric(list(labels.values()), float(value) * factor)


def _result_labels(report: str, record: Mapping[str, Any]) -> dict[str, str]:
    told = (record.get(key) or "" for key in ("test", "name", "device"))
    return dict(zip(_OF_RESULT, (report, *map(label, told)), strict=True))


def _run_labels(document: Mapping[str, Any]) -> dict[str, str]:
    environment, commit = _mapping(document.get("environment")), _mapping(document.get("commit"))
    found = {name: label(environment.get(name) or "") for name in _ENVIRONMENT}
    found["version"] = label(_mapping(document.get("tool")).get("version") or "")
    found["commit"] = label(commit.get("sha") or "")
    found["branch"] = label(commit.get("branch") or "")
    return found


def _timestamp(written: Any) -> float | None:
    try:
        return datetime.fromisoformat(written).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def _mapping(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []
