"""What was asked of a test, what came out, and what a reader must know beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuperf_analyzers.display import show, show_apart, show_interval
from gpuperf_analyzers.failure_text import failure_text
from pytest_gpuperf.report.columns import Record, notes_of
from pytest_gpuperf.report.html.blocks import Block, Cell, Column, Section, Table, Text, words

COLUMNS = (
    Column("verdict", text=True),
    Column("metric", text=True),
    Column("value"),
    Column("95% interval"),
    Column("limit"),
    Column("distance", unit="share of the limit"),
    Column("why", text=True),
)


def limits_section(record: Record) -> Section:
    """The failure text of what is not PASS, a row a limit, the notes."""
    blocks: list[Block] = []
    told = record.get("verdict") not in {"PASS", None}
    if told:
        kind = "failure" if badge(str(record["verdict"])) == "bad" else "caution"
        blocks.append(Text(tuple(failure_text(record).splitlines()), kind))
    judged = record.get("limits") or ()
    if judged:
        rows = tuple(limit_row(j) for j in judged)
        blocks.append(Table("Limits", COLUMNS, rows))
    else:
        blocks.append(Text(("No limit was declared: measured, not judged.",), "note"))
    explained = tuple(words(line, 300) for line in record.get("explained") or ())
    if explained and not told:
        blocks.append(Text(("Since the baseline:", *explained)))
    notes = notes_of(record)
    if notes:
        blocks.append(Text(tuple(notes), "note"))
    return Section("Verdict", tuple(blocks))


def limit_row(judgement: Mapping[str, Any]) -> tuple[Cell, ...]:
    """One limit: verdict, metric, value, interval, limit, distance, reason."""
    value, limit, unit = judgement.get("value"), judgement.get("limit"), judgement.get("unit") or ""
    shown, required = "-", "-"
    if value is not None and limit is not None:
        shown, required = show_apart(value, limit, unit)
    elif limit is not None:
        required = show(limit, unit)
    interval = judgement.get("interval")
    between = show_interval(value, interval, unit) if interval and value is not None else "-"
    sign = "≥" if judgement.get("direction") == "min" else "≤"
    reason = str(judgement.get("reason") or "")
    at = str(judgement.get("at") or "")
    metric = words(judgement.get("metric"), 60)
    return (
        verdict_cell(judgement.get("verdict")),
        Cell(metric, metric, words(at, 60), kind=f"metric {metric}"),
        Cell(shown, value),
        Cell(between, None if not interval else interval[1] - interval[0]),
        Cell(
            f"{sign} {required}" if limit is not None else words(judgement.get("text"), 60), limit
        ),
        distance_cell(judgement),
        Cell(words(reason, 300), words(reason, 300)),
    )


def distance_cell(judgement: Mapping[str, Any]) -> Cell:
    """How far the value is on the good side of the limit, as a share of it; below 0 it is not."""
    value, limit = judgement.get("value"), judgement.get("limit")
    if value is None or limit is None:
        return Cell("-")
    room = value - limit if judgement.get("direction") == "min" else limit - value
    if not limit:
        unit = judgement.get("unit") or ""
        return Cell(_signed(room, show(abs(room), unit)), None, "of a limit of 0")
    share = room / abs(limit)
    return Cell(_signed(share, show(abs(share), "fraction")), share)


def verdict_cell(verdict: object) -> Cell:
    """A verdict as a badge."""
    said = words(verdict or "not judged", 20)
    return Cell(said, said, kind=f"verdict {badge(said)}")


def badge(verdict: str) -> str:
    """The class of a verdict's colour: ``good``, ``bad``, ``soft`` or ``none``."""
    known = {"PASS": "good", "FAIL": "bad", "INVALID": "bad", "": "none", "not judged": "none"}
    return known.get(verdict, "soft")


def overview_rows(record: Record, anchor: str, name: str) -> Iterator[tuple[Cell, ...]]:
    """A row a limit, its test in front; one for a test without limits, with its step time."""
    test = Cell(name, name, link=anchor)
    judged = record.get("limits") or ()
    for judgement in judged:
        verdict, *rest = limit_row(judgement)
        yield (verdict, test, *rest)
    if judged:
        return
    entry = (record.get("values") or {}).get("step_time") or {}
    value, interval = entry.get("value"), entry.get("interval")
    failure = words(record.get("failure") or entry.get("absent_reason") or "", 300)
    yield (
        verdict_cell(record.get("verdict")),
        test,
        Cell("step_time", "step_time"),
        Cell("-" if value is None else show(value, "us"), value),
        Cell(show_interval(value, interval, "us") if interval and value is not None else "-"),
        Cell("-"),
        Cell("-"),
        Cell(failure, failure),
    )


def _signed(value: float, text: str) -> str:
    return f"{'−' if value < 0 else '+'}{text}"
