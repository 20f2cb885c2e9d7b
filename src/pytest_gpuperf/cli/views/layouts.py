"""Layouts of a model over GPUs: the table, one explained, and the heat map."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.display import counted, show
from pytest_gpuperf.cli.json_output import print_json
from pytest_gpuperf.cli.views.estimates import bytes_text, print_csv, print_terms, term_json

if TYPE_CHECKING:
    from gpuperf_analyzers.estimate.searching import Found

_SHADES = ("on grey11", "on grey23", "on dark_green", "on green4", "on green3")
"""Backgrounds of the heat map, from 0% to 100% of the peak; the numbers say it too."""


def show_layouts(found: Found, args: argparse.Namespace) -> int:
    """The best layouts of one search, or one of them step by step."""
    from gpuperf_analyzers.estimate.explaining import explain
    from gpuperf_analyzers.estimate.rules import rules_for
    from gpuperf_analyzers.estimate.searching import COLUMNS

    steps = explain(found, args.explain) if args.explain else ()
    rules = rules_for(found.model, found.gpus, found.sequence)
    if args.csv:
        print_csv(COLUMNS, ([row[c] for c in COLUMNS] for row in found.rows()))
        return 0
    if args.json:
        document = {
            **_about(found),
            "layouts": found.rows(args.top),
            "explained": [
                {"title": s.title, "terms": [term_json(t, macs=args.macs) for t in s.terms]}
                for s in steps
            ],
            "rules": [asdict(r) for r in rules],
        }
        print_json(document)
        return 0
    _print(found, args)
    for step in steps:
        print_terms(step.terms, title=step.title, macs=args.macs)
    from pytest_gpuperf.cli.console import emit, make_console, words

    console = make_console()
    for rule in rules:
        emit(console, words(f"Rule of thumb: {rule.text} ({rule.source})."))
    return 0


def _about(found: Found) -> dict[str, Any]:
    """What was searched, and by which formulas."""
    return {
        "model": asdict(found.model),
        "cluster": asdict(found.cluster),
        "gpus": found.gpus,
        "batch": found.batch,
        "sequence": found.sequence,
        "optimizer": found.optimizer,
        "precision": found.precision,
        "activations": found.counting,
        "efficiency": found.efficiency,
        "headroom": found.headroom,
        "tried": found.tried,
        "fitting": found.fitting,
        "reason": found.reason,
        "formulas": _FORMULAS,
    }


_FORMULAS = {
    "step_us": "micro-batches × (compute + communication not hidden) + gradients + bubble",
    "mfu": "3 × forward FLOP of the model / (GPUs × peak × step)",
    "memory_bytes": "weights + gradients + optimizer state + activations in flight + working space",
}


def _print(found: Found, args: argparse.Namespace) -> None:
    from pytest_gpuperf.cli.console import emit, make_console, table, words

    console = make_console()
    title = (
        f"{found.model.name} on {found.gpus} × {found.cluster.gpu}, "
        f"{counted(found.batch, 'sample')} of {counted(found.sequence, 'token')} an update: "
        f"{found.fitting:,} of {counted(found.tried, 'layout')} fit"
    )
    emit(console, words(title, "bold"))
    for note in (*found.cluster.notes, found.reason):
        if note:
            emit(console, words(note[0].upper() + note[1:] + "."))
    if not len(found.order):
        emit(console, words(_why_none(found)))
        return
    rows = [_cells(row) for row in found.rows(args.top)]
    same = [t for t in _WAYS if len({row[t] for row in rows}) == 1]
    titles = [t for t in rows[0] if t not in same]
    shown = table(*titles)
    for row in rows:
        shown.add_row(*(words(row[t]) for t in titles))
    for column in shown.columns[:-1]:
        column.no_wrap = True
    if same:
        which = "The layout has " if len(rows) == 1 else "All of these have "
        emit(console, words(which + ", ".join(f"{t} {rows[0][t]}" for t in same) + "."))
    emit(console, shown)
    emit(console, words(_footer(found)))


def _why_none(found: Found) -> str:
    if found.tried:
        return "None fits: more GPUs, or full recomputation and a smaller batch."
    return (
        f"None to try: {found.gpus} GPUs and {found.batch} samples do not divide into "
        f"{found.model.heads} heads, {found.model.layers} layers and whole micro-batches."
    )


_WAYS = {
    "TP": "tp", "PP": "pp", "CP": "cp", "EP": "ep", "DP": "dp", "ZeRO": "zero",
    "micro": "micro_batch", "accum": "micro_batches", "recompute": "recompute",
    "chunks": "interleave", "SP": "sequence_parallel",
}  # fmt: skip
"""What makes a layout, by its title: what all rows share is said once above the table."""


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    share = "" if row["binds_share"] is None else f" {row['binds_share']:.0%}"
    then = f", then {row['next']}" if row["next"] else ""
    return {
        "": str(row["rank"]),
        **{title: _way(row[name]) for title, name in _WAYS.items()},
        "step": "—" if row["step_us"] is None else show(row["step_us"], "us"),
        "MFU": "—" if row["mfu"] is None else show(row["mfu"], "fraction"),
        "GB/GPU": f"{row['memory_bytes'] / 1e9:.1f}" + ("" if row["fits"] else " over"),
        "binds": f"{row['binds']}{share}{then}",
    }


def _way(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _footer(found: Found) -> str:
    counting = {
        "tensors": "the tensors that the model's own widths make",
        "megatron": "Megatron's formula",
    }[found.counting]
    times = (
        f"Times at {found.efficiency:.0%} of the peak and full link speed: a lower bound, the MFU "
        "an upper one. "
    )
    return (
        f"{times if found.cluster.peak_flops_s else ''}Activations by {counting}; "
        f"{found.headroom:.0%} of memory stay free. "
        "GB = 1e9 bytes. --explain N says how each number comes about, with sources."
    )


def show_heat_map(found: Mapping[tuple[str, int], Found], args: argparse.Namespace) -> int:
    """The best layout of each model on each number of nodes."""
    from gpuperf_analyzers.estimate.searching import heat_map

    table_of = heat_map(found)
    if args.json:
        best = {f"{m} × {n}": f.rows(1) for (m, n), f in found.items()}
        first = _about(next(iter(found.values())))
        kept = {k: first[k] for k in ("cluster", "sequence", "batch", "activations", "formulas")}
        print_json({**kept, "heat_map": table_of, "best": best})
        return 0
    if args.csv:
        rows = (
            (model, nodes, *(table_of[v][i][j] for v in ("mfu", "step_us", "memory_bytes")))
            for i, model in enumerate(table_of["models"])
            for j, nodes in enumerate(table_of["nodes"])
        )
        print_csv(("model", "nodes", "mfu", "step_us", "memory_bytes"), rows)
        return 0
    _print_heat_map(table_of, next(iter(found.values())))
    return 0


def _print_heat_map(table_of: Mapping[str, Any], first: Found) -> None:
    from pytest_gpuperf.cli.console import emit, make_console, table, words

    console = make_console()
    per_node = first.cluster.gpus_per_node
    title = f"MFU of the best layout, GB a GPU; nodes of {per_node} × {first.cluster.gpu}"
    emit(console, words(title, "bold"))
    shown = table("model \\ nodes", *map(str, table_of["nodes"]), numbers="rest")
    for i, model in enumerate(table_of["models"]):
        cells = []
        for mfu, memory in zip(table_of["mfu"][i], table_of["memory_bytes"][i], strict=True):
            if memory is None:
                cells.append(words("does not fit", "dim"))
                continue
            share = "—" if mfu is None else f"{mfu:.0%}"
            shade = "" if mfu is None else _SHADES[min(int(mfu * len(_SHADES)), len(_SHADES) - 1)]
            cells.append(words(f"{share} {bytes_text(memory)}", shade))
        shown.add_row(words(model), *cells)
    emit(console, shown)
    for note in (*first.cluster.notes, first.reason):
        if note:
            emit(console, words(note[0].upper() + note[1:] + "."))
    emit(console, words(_footer(first)))
