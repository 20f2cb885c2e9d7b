"""What the analysis says in words, and what to mistrust of it."""

from __future__ import annotations

from collections.abc import Iterable

from gpuperf_analyzers.set_analysis import SetAnalysis
from gpuperf_analyzers.trace.model import Finding
from pytest_gpuperf.report.html.blocks import (
    Block,
    Cell,
    Column,
    Section,
    Table,
    Text,
    text_cell,
    words,
)

_FINDINGS = (
    Column("where", text=True),
    Column("what", text=True),
    Column("how many"),
    Column("code", text=True),
    Column("makes INVALID", text=True),
)
_MOST = 200


def summary_section(found: SetAnalysis) -> Section:
    """The paragraph on top, the findings under it."""
    blocks: list[Block] = [Text((words(found.summary.text, 4000),), "summary")]
    if found.findings:
        blocks.append(_findings(found.findings))
    if found.failed:
        unread = tuple(words(message, 500) for message in found.failed.values())
        blocks.append(Text(unread, "failure"))
    return Section("In plain words", tuple(blocks))


def _findings(findings: Iterable[Finding]) -> Table:
    """Those that forbid a judgement first."""
    ordered = sorted(findings, key=lambda f: not f.invalidates)
    rows = tuple(
        (
            text_cell(f.at, 80),
            text_cell(f.message + (f", e.g. {f.example}" if f.example else ""), 400),
            Cell(f"{f.count:,}", f.count),
            text_cell(f.code, 40),
            text_cell(_listed(sorted(f.invalidates)), 200),
        )
        for f in ordered[:_MOST]
    )
    more = f"{len(ordered) - _MOST} more are left out." if len(ordered) > _MOST else ""
    return Table("What to mistrust", _FINDINGS, rows, more=more)


def _listed(names: list[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
