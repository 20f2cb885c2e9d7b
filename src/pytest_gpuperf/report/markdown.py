"""The results as a markdown page: a table, then what each red or doubtful result says."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from gpuperf_analyzers.failure_text import failure_text
from pytest_gpuperf.report.columns import Record, Table, results_table, test_name
from pytest_gpuperf.report.json_report import write_whole

_SPECIAL = str.maketrans(
    {c: f"\\{c}" for c in "\\`*_{}[]<>#|~"} | {"\n": " ", "\r": " ", "@": "&#64;"}
)


MOST_CHARACTERS = 60_000
"""Longest page: GitHub refuses a comment of more than 65,536 characters."""
_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_NOT_COMPARED = frozenset({"NO-BASELINE", "INCOMPARABLE"})
_NAMES = 20
"""Tests that are named below a text that they share; the table has all."""
_TEXTS = 20
"""Failure texts that a page has before it is too long for a comment."""


def write_markdown(records: Sequence[Record], path: Path) -> Path:
    """Write the page to `path`, whole or not at all, and return it.

    The step summary of GitHub Actions is added to: what earlier commands said in it stays.
    """
    page = markdown_report(records)
    summary = os.environ.get(_STEP_SUMMARY)
    if summary and path.resolve() == Path(summary).resolve() and path.is_file():
        with path.open("a", encoding="utf-8") as out:
            out.write(f"\n{page}")
    else:
        write_whole(path, page)
    return path


def markdown_report(records: Sequence[Record], *, most: int = MOST_CHARACTERS) -> str:
    """The page: counts, a row a result, notes, and the failure text of each that is not PASS.

    What is red comes first. Where it would be longer than `most` characters, results that passed
    become a line, then failures a line each, then rows are left out, and that is said: a page
    that no comment can hold is read by nobody.
    """
    ordered = sorted(records, key=lambda r: _ORDER.get(str(r.get("verdict")), len(_ORDER)))
    worse = [r for r in ordered if r.get("verdict") not in {"PASS", None}]
    for shown, texts in ((ordered, len(worse)), (worse, len(worse)), (worse, _TEXTS)):
        page = _page(ordered, shown, texts)
        if len(page) <= most:
            return page
    kept = len(worse)
    while kept and len(page) > most:
        kept //= 2
        page = _page(ordered, worse[:kept], min(kept, _TEXTS))
    return page


_ORDER = {
    v: i
    for i, v in enumerate(
        ("FAIL", "INVALID", "INCOMPARABLE", "NO-BASELINE", "AMBIGUOUS", "UNMEASURED", "PASS")
    )
}


def _page(records: Sequence[Record], shown: Sequence[Record], texts: int) -> str:
    found = Counter(str(r.get("verdict")) for r in records if r.get("verdict"))
    counts = ", ".join(f"{found[v]} {v}" for v in _ORDER if found[v]) or "nothing judged"
    lines = ["# gpuperf", "", _escaped(counts), ""]
    if shown:
        results = results_table(shown)
        lines += [*_table(results), ""]
        lines += [f"{index}. {_escaped(note)}" for index, note in enumerate(results.notes, 1)]
        if results.notes:
            lines.append("")
    if len(shown) < len(records):
        lines += [f"{len(records) - len(shown)} more results are left out here.", ""]
    worse = [r for r in shown if r.get("verdict") not in {"PASS", None}]
    for verdict, text, tests in _said_alike(worse)[:texts]:
        whose = _escaped(tests[0]) if len(tests) == 1 else f"{len(tests)} tests"
        lines += [f"## {verdict}: {whose}", ""]
        lines += [f"    {line}" for line in text.splitlines()]
        lines.append("")
        if len(tests) > 1:
            more = f" and {len(tests) - _NAMES} more" if len(tests) > _NAMES else ""
            lines += [f"{', '.join(map(_escaped, tests[:_NAMES]))}{more}", ""]
    return "\n".join(lines)


def _said_alike(worse: Sequence[Record]) -> list[tuple[str, str, list[str]]]:
    """Verdicts, texts, and whose they are: without a baseline a hundred tests say the same.

    What was measured and judged keeps a text of its own, even where two happen to be equal.
    """
    found: list[tuple[str, str, list[str]]] = []
    alike: dict[tuple[str, str], list[str]] = {}
    for record in worse:
        verdict, text = str(record["verdict"]), failure_text(record)
        names = alike.get((verdict, text))
        if names is None:
            names = []
            found.append((verdict, text, names))
            if verdict in _NOT_COMPARED:
                alike[verdict, text] = names
        names.append(test_name(record))
    return found


def _table(results: Table) -> list[str]:
    titles = ["test", "verdict", *results.titles, "note"]
    lines = [_line(titles), _line([":--", ":--", *(["--:"] * (len(titles) - 2))], raw=True)]
    for row in results.rows:
        cells = [f"{c.text} ({c.detail})" if c.detail else c.text for c in row.cells]
        lines.append(_line([row.test, row.verdict, *cells, ", ".join(map(str, row.notes))]))
    return lines


def _line(cells: Sequence[str], *, raw: bool = False) -> str:
    return "| " + " | ".join(cell if raw else _escaped(cell) for cell in cells) + " |"


def _escaped(text: str) -> str:
    return text.translate(_SPECIAL)
