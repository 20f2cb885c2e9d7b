"""The estimate: memory and FLOP of models by their formulas, layouts over GPUs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuperf_analyzers.display import show
from pytest_gpuperf.report.html.blocks import (
    Block,
    Cell,
    Column,
    Drawing,
    Section,
    Table,
    Text,
    number_cell,
    text_cell,
    words,
)
from pytest_gpuperf.report.html.heat import heat_map
from pytest_gpuperf.report.html.svg import element, split_bar

Document = Mapping[str, Any]
_KINDS = ("compute", "memory", "comm", "overlap", "latency", "dependency", "unknown")
_WAYS = ("tp", "pp", "cp", "ep", "dp", "zero", "micro_batch", "micro_batches")


def estimate_sections(document: Document) -> Sequence[Section]:
    """A section a model, or the layouts of one."""
    sections = [_model(found) for found in document.get("models") or ()]
    if document.get("layouts"):
        sections.append(_layouts(document))
    if not sections:
        raise ValueError("an estimate without models and without layouts")
    return sections


def _model(found: Document) -> Section:
    terms = found["memory"]
    name = words(found["model"].get("name") or "model", 60)
    parts = [
        (_KINDS[i % len(_KINDS)], f"{words(t['name'], 60)}: {show(t['value'], 'bytes')}",
         float(t["value"]))
        for i, t in enumerate(terms)
    ]  # fmt: skip
    whole = float(found["total_bytes"])
    bar = element(
        "div",
        element("span", name, class_="label"),
        split_bar(parts, max(whole, sum(n for *_, n in parts))),
        element("span", show(whole, "bytes"), class_="value"),
        class_="bars",
    )
    said = (
        f"{found['parameters']:,.0f} parameters; batch {found['batch']}, sequence "
        f"{found['sequence']}: {show(whole, 'bytes')} by formulas, nothing was measured."
    )
    return Section(
        f"{name}: memory and FLOP",
        (
            Text((said,), "summary"),
            Drawing(
                "Memory by formula",
                bar,
                ", ".join(told for _, told, _ in parts) + ".",
                _terms("Memory by formula", terms),
                tuple((f"k-{kind}", told) for kind, told, _ in parts),
            ),
            _terms("FLOP of an update", found.get("flops") or ()),
        ),
    )


def _terms(title: str, terms: Sequence[Document]) -> Table:
    """Each with its formula and where that comes from."""
    rows = tuple(
        (
            text_cell(t["name"], 80),
            number_cell(float(t["value"]), str(t.get("unit") or "")),
            text_cell(t.get("formula"), 160),
            text_cell(t.get("source"), 200),
        )
        for t in terms
    )
    columns = (
        Column("what", text=True),
        Column("value"),
        Column("formula", text=True),
        Column("source", text=True),
    )
    return Table(title, columns, rows)


def _layouts(document: Document) -> Section:
    layouts: Sequence[Document] = document["layouts"]
    best = layouts[0]
    ways = ", ".join(f"{way} {best[way]}" for way in _WAYS if best.get(way) is not None)
    said = (
        f"{document.get('fitting')} of {document.get('tried')} layouts over "
        f"{document.get('gpus')} GPUs fit. The first: {ways}; {show(best['step_us'], 'us')} an "
        f"update, {show(best['mfu'], 'fraction')} MFU, by formulas at the peaks given: no run is "
        "faster."
    )
    notes = [
        f"{words(k, 40)} = {words(v, 200)}" for k, v in (document.get("formulas") or {}).items()
    ]
    ways_tried = {(layout["tp"], layout["pp"]) for layout in layouts}
    maps = [_map(layouts)] if len(ways_tried) > 1 else []
    blocks: list[Block] = [Text((said,), "summary"), *maps, _table(layouts)]
    if notes:
        blocks.append(Text(tuple(notes), "note"))
    return Section("Layouts", tuple(blocks))


def _map(layouts: Sequence[Document]) -> Drawing:
    """The fastest of each pair of tensor and pipeline parallelism, of those listed."""
    best: dict[tuple[int, int], Document] = {}
    for layout in layouts:
        key = (layout["tp"], layout["pp"])
        if key not in best or layout["step_us"] < best[key]["step_us"]:
            best[key] = layout
    cells = {
        (str(tp), str(pp)): (
            float(layout["mfu"]),
            _told(tp, pp, layout),
        )
        for (tp, pp), layout in best.items()
    }
    return heat_map(
        "MFU by tensor and pipeline parallelism",
        [str(tp) for tp in sorted({tp for tp, _ in best})],
        [str(pp) for pp in sorted({pp for _, pp in best})],
        cells,
        x_label="pipeline parallelism",
        y_label="tensor parallelism",
        unit="MFU",
        description=f"The best of each pair among the {len(layouts)} layouts listed; darker is "
        "more, an empty cell has none of them.",
    )


def _told(tp: int, pp: int, layout: Document) -> str:
    return (
        f"TP {tp}, PP {pp}: {show(layout['mfu'], 'fraction')} MFU, "
        f"{show(layout['step_us'], 'us')}, {show(layout['memory_bytes'], 'bytes')} a GPU"
    )


def _table(layouts: Sequence[Document]) -> Table:
    rows = tuple(
        (
            *(Cell(str(layout.get(way, "-")), layout.get(way)) for way in _WAYS),
            text_cell(layout.get("recompute"), 20),
            number_cell(float(layout["step_us"]), "us"),
            number_cell(float(layout["mfu"]), "fraction"),
            number_cell(float(layout["memory_bytes"]), "bytes"),
            text_cell(layout.get("binds"), 40),
        )
        for layout in layouts
    )
    columns = (
        *(Column(way.replace("_", " ")) for way in _WAYS),
        Column("recompute", text=True),
        Column("step", unit="us"),
        Column("MFU", unit="1"),
        Column("memory a GPU", unit="bytes"),
        Column("binds", text=True),
    )
    return Table("Layouts, the fastest first", columns, rows, searchable=True)
