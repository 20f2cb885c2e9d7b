"""Tables of what took the time: kernels, ops with their shapes, annotations and modules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpuperf_analyzers.analysis import DeviceAnalysis
from gpuperf_analyzers.display import short_names
from gpuperf_analyzers.set_analysis import SetAnalysis, slowest_rank
from pytest_gpuperf.report.html.blocks import (
    Block,
    Cell,
    Column,
    Section,
    Table,
    number_cell,
    text_cell,
    words,
)

_MOST, _FEWEST = 150, 25
"""Rows of a table, and where a page has many tests."""
_NAME = 160


def ops_section(found: SetAnalysis, detail: float = 1.0) -> Section | None:
    """The tables of the rank whose step is longest; None where nothing ran."""
    rank = found.ranks[slowest_rank(found.ranks)]
    several = len(found.ranks) > 1 or len(rank.devices) > 1
    blocks: list[Block] = []
    for device in rank.devices:
        where = f" ({', '.join(p for p in (rank.label, device.label) if p)})" if several else ""
        blocks += list(_tables(device, where, max(round(_MOST * detail), _FEWEST)))
    return Section("Ops and kernels", tuple(blocks)) if blocks else None


def _tables(device: DeviceAnalysis, where: str, most: int) -> Iterator[Table]:
    kernels = device.results["kernels"]
    cpu = device.device == "cpu"
    if kernels.by_op:
        names = short_names([o.name for o in kernels.by_op[:most]], _NAME)
        rows = tuple(
            (
                text_cell(name, _NAME),
                text_cell(o.shapes, 120),
                text_cell(o.dtypes, 60),
                Cell(f"{o.calls:,}", o.calls),
                Cell(f"{o.kernels:,}", o.kernels),
                number_cell(o.time_us, "us"),
                number_cell(o.share, "fraction"),
            )
            for name, o in zip(names, kernels.by_op[:most], strict=True)
        )
        columns = (
            Column("op", text=True),
            Column("shapes", text=True),
            Column("types", text=True),
            Column("calls"),
            Column("kernels"),
            Column("own time" if cpu else "kernel time", unit="us"),
            Column("share", unit="1"),
        )
        yield Table(f"Ops{where}", columns, rows, searchable=True, more=_more(kernels.by_op, most))
    if kernels.by_kernel and not cpu:
        yield _kernels(kernels.by_kernel, where, most)
    if kernels.by_span:
        yield _spans(kernels.by_span, where, most)


def _kernels(by_kernel: Sequence[Any], where: str, most: int) -> Table:
    kept = by_kernel[:most]
    names = short_names([k.name for k in kept], _NAME)
    rows = tuple(
        (
            text_cell(name, _NAME),
            Cell(f"{k.count:,}", k.count),
            number_cell(k.total_us, "us"),
            number_cell(k.share, "fraction"),
            number_cell(k.median_us, "us"),
            number_cell(k.min_us, "us"),
            number_cell(k.max_us, "us"),
        )
        for name, k in zip(names, kept, strict=True)
    )
    columns = (
        Column("kernel", text=True),
        Column("runs"),
        Column("total", unit="us"),
        Column("share", unit="1"),
        Column("median", unit="us"),
        Column("shortest", unit="us"),
        Column("longest", unit="us"),
    )
    return Table(f"Kernels{where}", columns, rows, searchable=True, more=_more(by_kernel, most))


def _spans(by_span: Sequence[Any], where: str, most: int) -> Table:
    rows = tuple(
        (
            text_cell(words(s.name, _NAME), _NAME),
            text_cell(s.kind, 20),
            Cell(f"{s.calls:,}", s.calls),
            Cell(f"{s.kernels:,}", s.kernels),
            number_cell(s.busy_us, "us"),
        )
        for s in by_span[:most]
    )
    columns = (
        Column("annotation or module", text=True),
        Column("kind", text=True),
        Column("calls"),
        Column("kernels"),
        Column("busy", unit="us"),
    )
    return Table(
        f"Annotations and modules{where}", columns, rows, searchable=True, more=_more(by_span, most)
    )


def _more(rows: Sequence[Any], most: int) -> str:
    left = len(rows) - most
    return f"{left:,} more, each smaller, are left out." if left > 0 else ""
