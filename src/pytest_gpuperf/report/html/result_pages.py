"""What each command's JSON is shown as: search surface, sweeps, estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from gpuperf_analyzers.display import number, show
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
from pytest_gpuperf.report.html.svg import Scale, element, framed, percent, titled

Document = Mapping[str, Any]
_MOST_ROWS = 2000


def mamf_sections(document: Document) -> Sequence[Section]:
    """The best shape, the rates over M and N (the best of every K), and every shape."""
    shapes = [s for s in document.get("shapes") or () if s.get("median_tflops") is not None]
    best = document.get("best") or {}
    said = []
    if best:
        interval = best.get("interval_tflops")
        between = f" (95% interval {number(interval[0])}–{number(interval[1])})" if interval else ""
        shape = f"{best['m']}×{best['n']}×{best['k']}"
        said.append(f"{number(best['median_tflops'])} TFLOPS{between} at {shape}.")
    share = document.get("efficiency")
    if share is not None:
        said.append(
            f"{show(share, 'fraction')} of {number(document['dense_peak_tflops'])} TFLOPS "
            f"dense ({words(document.get('dense_peak_source'), 120)})."
        )
    elif document.get("dense_peak_source"):
        said.append(f"No share of a peak: {words(document['dense_peak_source'], 160)}.")
    effort = document.get("effort") or {}
    if effort:
        said.append(f"{effort.get('shapes_timed')} of {effort.get('shapes')} shapes were timed.")
    if not document.get("complete", True):
        said.append(f"The search was ended early: {words(document.get('stopped'), 160)}.")
    blocks: list[Block] = [Text((" ".join(said),), "summary")]
    if shapes:
        blocks += [_surface(shapes), _by_size(shapes), _shapes(shapes)]
    notes = tuple(words(n, 300) for n in document.get("notes") or ())
    if notes:
        blocks.append(Text(notes, "note"))
    failed = document.get("failed") or ()
    if failed:
        blocks.append(_failed(failed))
    return [Section("Search surface", tuple(blocks))]


def _surface(shapes: Sequence[Document]) -> Drawing:
    best: dict[tuple[int, int], Document] = {}
    for s in shapes:
        there = best.get((s["m"], s["n"]))
        if there is None or s["median_tflops"] > there["median_tflops"]:
            best[s["m"], s["n"]] = s
    ms, ns = sorted({m for m, _ in best}), sorted({n for _, n in best})
    cells = {
        (str(m), str(n)): (
            s["median_tflops"],
            f"{m}×{n}×{s['k']}: {number(s['median_tflops'])} TFLOPS",
        )
        for (m, n), s in best.items()
    }
    return heat_map(
        "Rate over M and N, the best K of each",
        [str(m) for m in ms],
        [str(n) for n in ns],
        cells,
        x_label="N",
        y_label="M",
        unit="TFLOPS",
        description=f"{len(best)} of {len(ms) * len(ns)} pairs of M and N were timed; darker is "
        "faster, an empty cell was not timed.",
    )


def _by_size(shapes: Sequence[Document]) -> Drawing:
    """Rate against the work of one product."""
    sized = [(2.0 * s["m"] * s["n"] * s["k"], float(s["median_tflops"]), s) for s in shapes]
    x = Scale(min(p[0] for p in sized) / 1.5, max(p[0] for p in sized) * 1.5, log=True)
    y = Scale(0, max(p[1] for p in sized) * 1.05)
    every = -(-len(sized) // 3000)
    dots = [
        titled(
            "circle",
            f"{s['m']}×{s['n']}×{s['k']}: {number(rate)} TFLOPS",
            class_="dot s-1",
            cx=percent(x(work)),
            cy=percent(1 - y(rate)),
            r=3.5,
        )
        for work, rate, s in sized[::every]
    ]
    return Drawing(
        "Rate by the work of one product",
        framed(
            dots,
            x,
            y,
            x_label="FLOP of one product",
            y_label="TFLOPS",
            height=240,
            x_ticks=[(v, show(v, "FLOP")) for v in x.ticks()],
        ),
        f"{len(sized)} shapes.",
        Table(
            "Rate by the work of one product",
            (Column("FLOP", unit="FLOP"), Column("TFLOPS", unit="TFLOPS")),
            tuple((number_cell(w, "FLOP"), Cell(number(r), r)) for w, r, _ in sized[:500]),
        ),
    )


def _shapes(shapes: Sequence[Document]) -> Table:
    rows = tuple(
        (
            *(Cell(f"{s[k]:,}", float(s[k])) for k in ("m", "n", "k")),
            *(
                Cell(number(s[k]), float(s[k]))
                for k in ("median_tflops", "mean_tflops", "best_tflops")
            ),
            Cell(f"{s.get('calls', 0):,}", s.get("calls")),
        )
        for s in shapes[:_MOST_ROWS]
    )
    columns = (
        Column("M"),
        Column("N"),
        Column("K"),
        Column("median", unit="TFLOPS"),
        Column("mean", unit="TFLOPS"),
        Column("best call", unit="TFLOPS"),
        Column("calls"),
    )
    left = len(shapes) - _MOST_ROWS
    more = f"{left:,} slower shapes are left out." if left > 0 else ""
    return Table("Shapes, the fastest first", columns, rows, searchable=True, more=more)


def _failed(failed: Sequence[Document]) -> Table:
    rows = tuple(
        (text_cell("×".join(map(str, f.get("shape") or ())), 60), text_cell(f.get("reason"), 300))
        for f in failed
    )
    return Table(
        "Shapes that could not be timed",
        (Column("shape", text=True), Column("why", text=True)),
        rows,
    )


def bucket_sections(document: Document) -> Sequence[Section]:
    """Step time and overlap by bucket size."""
    rows = document["rows"]
    best = document.get("fastest_bucket_cap_mb")
    near = document.get("not_apart_from_fastest_mb") or ()
    said = (
        "No size could be timed."
        if best is None
        else (
            f"The shortest step is with {best:g} MB."
            + (f" Not told apart from it: {', '.join(f'{m:g} MB' for m in near)}." if near else "")
        )
    )
    sizes = [f"{r['bucket_cap_mb']:g} MB" for r in rows]
    blocks: list[Block] = [Text((said,), "summary")]
    for key, title, unit in (
        ("step_time_us", "step time", "us"),
        ("exposed_comm_us", "exposed communication", "us"),
        ("overlap", "overlap", "fraction"),
    ):
        if any(r.get(key) is not None for r in rows):
            blocks.append(
                _bars(
                    title,
                    sizes,
                    [r.get(key) for r in rows],
                    [(r.get(f"{key}_low"), r.get(f"{key}_high")) for r in rows],
                    unit,
                )
            )
    return [Section("Sizes", (*blocks, table_of("Every size", rows)))]


def _bars(
    title: str,
    labels: Sequence[str],
    values: Sequence[float | None],
    bounds: Sequence[tuple[float | None, float | None]],
    unit: str,
) -> Drawing:
    """A bar a row, with its interval as a line."""
    top = max([v for v in values if v is not None] + [b for _, b in bounds if b is not None])
    x, y = Scale(0, len(values)), Scale(0, top * 1.08 or 1)
    shapes: list[Markup] = []
    for i, (label, value, (low, high)) in enumerate(zip(labels, values, bounds, strict=True)):
        if value is None:
            continue
        shapes.append(
            titled(
                "rect",
                f"{words(label, 60)}: {show(value, unit)}",
                class_="k-compute",
                x=percent(x(i + 0.15)),
                width=percent(0.7 / len(values)),
                y=percent(1 - y(value)),
                height=percent(y(value)),
            )
        )
        if low is not None and high is not None:
            at = percent(x(i + 0.5))
            shapes.append(
                element(
                    "line",
                    class_="m-median",
                    x1=at,
                    x2=at,
                    y1=percent(1 - y(low)),
                    y2=percent(1 - y(high)),
                )
            )
    every = max(1, -(-len(labels) // 12))
    return Drawing(
        title,
        framed(
            shapes,
            x,
            y,
            x_label="",
            y_label=title,
            height=200,
            x_ticks=[(i + 0.5, words(labels[i], 16)) for i in range(0, len(labels), every)],
            y_ticks=[(v, show(v, unit)) for v in y.ticks()],
        ),
        "The line in a bar is the 95% interval.",
        Table(
            title,
            (Column("", text=True), Column(title, unit=unit)),
            tuple(
                (text_cell(label, 60), number_cell(value, unit))
                for label, value in zip(labels, values, strict=True)
            ),
        ),
        half=True,
    )


def collective_sections(document: Document) -> Sequence[Section]:
    """Bus bandwidth by size, a line an operation."""
    rows = [r for r in document["rows"] if isinstance(r, Mapping)]
    sized = [r for r in rows if r.get("busbw_gb_s") and r.get("bytes")]
    mean = document.get("mean_busbw_gb_s")
    said = f"Mean bus bandwidth {number(mean)} GB/s." if mean is not None else "No bandwidth."
    wrong = document.get("wrong")
    if wrong:
        said += f" {wrong:,} elements were wrong: nothing here is to be trusted."
    blocks: list[Block] = [Text((said,), "failure" if wrong else "summary")]
    if sized:
        ops = list(dict.fromkeys(str(r["op"]) for r in sized))
        x = Scale(
            min(r["bytes"] for r in sized) / 1.5, max(r["bytes"] for r in sized) * 1.5, log=True
        )
        y = Scale(
            min(r["busbw_gb_s"] for r in sized) / 1.5,
            max(r["busbw_gb_s"] for r in sized) * 1.5,
            log=True,
        )
        dots = [
            titled(
                "circle",
                f"{words(r['op'], 40)} {show(r['bytes'], 'bytes')}: {number(r['busbw_gb_s'])} GB/s",
                class_=f"dot s-{ops.index(str(r['op'])) % 8 + 1}",
                cx=percent(x(r["bytes"])),
                cy=percent(1 - y(r["busbw_gb_s"])),
                r=5,
            )
            for r in sized
        ]
        blocks.append(
            Drawing(
                "Bus bandwidth by size",
                framed(
                    dots,
                    x,
                    y,
                    x_label="bytes",
                    y_label="GB/s",
                    x_ticks=[(v, show(v, "bytes")) for v in x.ticks()],
                ),
                f"{len(sized)} rows.",
                table_of("Bus bandwidth by size", sized),
                tuple((f"s-{i % 8 + 1}", words(op, 40)) for i, op in enumerate(ops)),
                "busbw",
            )
        )
    return [Section("Sizes", (*blocks, table_of("Every row", rows)))]


def plain_sections(document: Document) -> Sequence[Section]:
    """Every table of rows as a table, nested ones under their names, and the rest as facts."""
    blocks: list[Block] = []
    facts: list[tuple[Cell, ...]] = []
    for key, value in document.items():
        if isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
            blocks.append(table_of(words(key, 60).replace("_", " "), value))
        elif isinstance(value, Mapping):
            facts += [(text_cell(f"{key}.{k}", 80), _cell(v)) for k, v in value.items()]
        else:
            facts.append((text_cell(key, 80), _cell(value)))
    if facts:
        columns = (Column("what", text=True), Column("value", text=True))
        blocks.append(Table("Facts", columns, tuple(facts), searchable=len(facts) > 20))
    return [Section("Result", tuple(blocks))]


def table_of(title: str, rows: Sequence[Document]) -> Table:
    """Rows of plain JSON as a table, a column a field."""
    names = list(dict.fromkeys(str(k) for row in rows for k in row))[:24]
    texts = {n for n in names if any(isinstance(r.get(n), (str, list, Mapping)) for r in rows)}
    columns = tuple(Column(words(n, 40).replace("_", " "), text=n in texts) for n in names)
    cells = tuple(tuple(_cell(row.get(n)) for n in names) for row in rows[:_MOST_ROWS])
    left = len(rows) - _MOST_ROWS
    return Table(
        title,
        columns,
        cells,
        searchable=len(rows) > 12,
        more=f"{left:,} rows more are left out." if left > 0 else "",
    )


def _cell(value: object) -> Cell:
    if value is None:
        return Cell("-")
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    if isinstance(value, (int, float)):
        text = f"{value:,}" if isinstance(value, int) else number(value, 4)
        return Cell(text, value)
    return text_cell(value, 200)
