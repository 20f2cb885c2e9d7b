"""From the records of a run to a page: overview, environment, and a subject a test."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuperf_analyzers.combining import values_json
from gpuperf_analyzers.metrics import BUILTIN, Metric
from gpuperf_analyzers.set_analysis import SetAnalysis
from pytest_gpuperf.report.columns import Record, test_name
from pytest_gpuperf.report.html.blocks import (
    Column,
    Section,
    Subject,
    Table,
    Text,
    number_cell,
    text_cell,
    words,
)
from pytest_gpuperf.report.html.page import Page
from pytest_gpuperf.report.html.sections.diff import diff_section
from pytest_gpuperf.report.html.sections.limits import COLUMNS, limits_section, overview_rows
from pytest_gpuperf.report.html.sections.samples import samples_section
from pytest_gpuperf.report.html.sections.values import not_measured, values_section

_ORDER = ("FAIL", "INVALID", "INCOMPARABLE", "NO-BASELINE", "AMBIGUOUS", "UNMEASURED", "PASS")

_IN_DETAIL = 200
"""Tests that a page shows in full; a page of thousands would open in no browser."""

_ASKED_FIRST = (
    "device", "driver", "cuda", "hip", "torch", "power_limit", "clocks", "python",
)  # fmt: skip

Analyzed = Callable[[Record], Sequence[Section]]
"""The sections that the traces of a record give."""


def results_page(document: Mapping[str, Any], analyzed: Analyzed, title: str = "gpuperf") -> Page:
    """The page of ``report.json``'s content, with what `analyzed` makes of each test's traces."""
    records: Sequence[Record] = document.get("results") or ()
    anchors = unique_anchors([_identity(record) for record in records])
    whole = set(_worst_first(records)[:_IN_DETAIL])
    subjects = tuple(
        _subject(record, anchor, analyzed) if i in whole else _verdict_alone(record, anchor)
        for i, (record, anchor) in enumerate(zip(records, anchors, strict=True))
    )
    found = Counter(str(r.get("verdict") or "not judged") for r in records)
    order = {verdict: index for index, verdict in enumerate(_ORDER)}
    return Page(
        title=title,
        created=words(document.get("created") or "", 40),
        facts=environment_facts(document),
        overview=_overview(records, anchors),
        subjects=subjects,
        definitions=definitions(BUILTIN),
        counts=tuple(sorted(found.items(), key=lambda kv: order.get(kv[0], 99))),
    )


def _overview(records: Sequence[Record], anchors: Sequence[str]) -> tuple[Table | Text, ...]:
    if not records:
        return (Text(("No test was measured.",), "note"),)
    rows = tuple(
        row
        for i in _worst_first(records)
        for row in overview_rows(records[i], anchors[i], test_name(records[i]))
    )
    verdict, *rest = COLUMNS
    table = Table("Results", (verdict, Column("test", text=True), *rest), rows, searchable=True)
    missing = not_measured(records)
    return (table, missing) if missing is not None else (table,)


def _worst_first(records: Sequence[Record]) -> list[int]:
    """Indices of the records, those that failed in front."""
    ranks = {verdict: index for index, verdict in enumerate(_ORDER)}
    return sorted(
        range(len(records)), key=lambda i: ranks.get(str(records[i].get("verdict")), len(ranks))
    )


def _verdict_alone(record: Record, anchor: str) -> Subject:
    """A test of a large run: its limits, and where the rest is."""
    said = (
        f"Samples, values and traces are shown of {_IN_DETAIL} tests of this run, those that "
        "failed first; of this one they are in report.json."
    )
    return Subject(
        anchor,
        test_name(record),
        words(record.get("verdict") or "", 20),
        _head(record),
        (limits_section(record), Section("Left out", (Text((said,), "note"),))),
    )


def _subject(record: Record, anchor: str, analyzed: Analyzed) -> Subject:
    summary, *parts_of_trace = [*analyzed(record), None]
    baseline = record.get("baseline") or {}
    since = diff_section(baseline["diff"], "Since the baseline") if baseline.get("diff") else None
    own = (summary, limits_section(record), samples_section(record), since, *parts_of_trace)
    values = values_section(record.get("values") or {})
    sections = [s for s in own if s is not None]
    return Subject(
        anchor,
        test_name(record),
        words(record.get("verdict") or "", 20),
        _head(record),
        tuple([*sections, values] if values is not None else sections),
    )


def _head(record: Record) -> str:
    """Device, ranks and number of samples."""
    parts = [words(record.get("device") or "", 80)]
    if (record.get("world_size") or 1) > 1:
        parts.append(f"{record['world_size']} ranks")
    samples = record.get("samples_us") or ()
    if samples:
        parts.append(f"{len(samples)} samples")
    return ", ".join(p for p in parts if p)


def traces_page(found: SetAnalysis, sections: Sequence[Section]) -> Page:
    """The page of traces that no test made: their sections and every value."""
    values = values_section(values_json(found.values, found.metrics))
    ranks = f"{len(found.ranks)} ranks" if len(found.ranks) > 1 else found.ranks[0].label
    head = [words(found.device_name, 80), words(ranks, 40), words(found.ranks[0].path, 300)]
    subject = Subject(
        "trace",
        "Trace" if len(found.ranks) == 1 else "Traces",
        head=", ".join(p for p in head if p),
        sections=tuple([*sections, values] if values is not None else sections),
    )
    block = found.block
    facts = (
        tuple((words(k, 40), words(v, 200)) for k, v in block.environment.items()) if block else ()
    )
    listed = tuple(
        (
            text_cell(r.label or "-", 40),
            text_cell(r.path, 400),
            text_cell(r.device_name, 80),
            number_cell(r.values["step_time"].value, "us"),
        )
        for r in found.ranks
    )
    columns = (
        Column("rank", text=True),
        Column("file", text=True),
        Column("device", text=True),
        Column("step time", "step_time", "us"),
    )
    left = tuple(words(line, 500) for line in found.failed.values())
    overview = (
        Text((words(found.summary.text, 4000),), "summary"),
        *((Text(("Not in these numbers:", *left), "caution"),) if left else ()),
        Table("Files", columns, listed),
    )
    return Page(
        title=f"gpuperf analyze: {words(Path(found.ranks[0].path).name, 80)}"
        + (f" and {len(found.ranks) - 1} more" if len(found.ranks) > 1 else ""),
        created=dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
        facts=facts,
        overview=overview,
        subjects=(subject,),
        definitions=definitions(tuple(found.metrics.values())),
    )


def _identity(record: Record) -> str:
    name = record.get("name")
    return f"{record.get('test', '')} [{name}]" if name else str(record.get("test", ""))


def unique_anchors(names: Sequence[str]) -> list[str]:
    """A stable, distinct fragment for each name: its readable part and six digits of its hash."""
    seen: Counter[str] = Counter()
    anchors = []
    for name in names:
        digest = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:6]
        readable = re.sub(r"[^A-Za-z0-9]+", "-", name.rpartition("::")[2])[:60].strip("-").lower()
        anchor = f"r-{readable}-{digest}" if readable else f"r-{digest}"
        seen[anchor] += 1
        anchors.append(anchor if seen[anchor] == 1 else f"{anchor}-{seen[anchor]}")
    return anchors


def environment_facts(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What the run was made in, in the order that a reader asks for it.

    Where the results of one run were made in different places (some on a CPU, some on a GPU), a
    fact has each value that one of them had.
    """
    records = document.get("results")
    places = [document, *(records if isinstance(records, (list, tuple)) else ())]
    known: dict[str, dict[str, None]] = {}
    for place in places:
        found = place.get("environment") if isinstance(place, Mapping) else None
        for name, value in (found if isinstance(found, Mapping) else {}).items():
            known.setdefault(str(name), {})[words(value, 200)] = None
    commit = document.get("commit") or {}
    ordered = [
        *(k for k in _ASKED_FIRST if k in known),
        *(k for k in known if k not in _ASKED_FIRST),
    ]
    facts = [
        (words(k.replace("_", " "), 40), words("; ".join(known[k]), 600))
        for k in ordered
        if k != "commit"
    ]
    if commit.get("sha"):
        dirty = ", with uncommitted changes" if commit.get("dirty") else ""
        facts.append(
            ("commit", words(f"{commit['sha'][:12]} on {commit.get('branch')}{dirty}", 200))
        )
    tool = document.get("tool") or {}
    if tool.get("version"):
        facts.append(("recorded by", words(f"{tool.get('name')} {tool['version']}", 80)))
    return tuple(facts)


def definitions(metrics: Sequence[Metric]) -> dict[str, dict[str, str]]:
    """Each metric's unit, formula and source."""
    return {
        m.name: {
            "unit": "1" if m.unit == "fraction" else m.unit,
            "formula": m.formula,
            "source": m.source,
            "better": m.better,
            "aggregate": m.aggregate,
        }
        for m in metrics
    }
