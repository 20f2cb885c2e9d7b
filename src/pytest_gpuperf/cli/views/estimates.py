"""Estimates on the screen, as JSON and as CSV: terms, networks, specs, comparisons."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.display import number, show
from pytest_gpuperf.cli.json_output import print_json

if TYPE_CHECKING:
    from gpuperf_analyzers.estimate.network import Network
    from gpuperf_analyzers.estimate.step_memory import StepEstimate
    from gpuperf_analyzers.estimate.terms import Term
    from gpuperf_analyzers.estimate.training import TrainingEstimate
    from pytest_gpuperf.model_spec.against import Compared

_GB = 1e9


def value_text(value: float | None, unit: str, *, macs: bool = False) -> str:
    """A term's value as shown: bytes in GB or MB of 1e9 and 1e6, as cards are sold."""
    if value is None:
        return "—"
    if unit == "FLOP" and macs:
        return show(value / 2, "FLOP").replace("FLOP", "MAC")
    if unit == "bytes":
        return bytes_text(value)
    if unit == "count":
        return f"{value:,.0f}" if value == int(value) else number(value, 4)
    return show(value, unit)


def bytes_text(value: float) -> str:
    """Bytes in decimal units."""
    for factor, symbol in ((1e12, "TB"), (_GB, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= factor:
            # 1,850 GB rather than 1.850 TB: cards are counted in GB.
            if symbol == "TB" and value < 1e13:
                continue
            return f"{number(value / factor, 4)} {symbol}"
    return f"{value:,.0f} B"


def term_json(term: Term, *, macs: bool = False) -> dict[str, Any]:
    """A term as plain JSON types; FLOP halved and named MAC where those are asked for."""
    found = asdict(term)
    if macs and term.unit == "FLOP":
        found["unit"] = "MAC"
        found["value"] = None if term.value is None else term.value / 2
    return found


def print_csv(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """CSV on the standard output; a number that is none is empty."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(titles)
    for row in rows:
        out.writerow(["" if v is None or (isinstance(v, float) and not isfinite(v)) else v
                      for v in row])  # fmt: skip


def print_terms(terms: Iterable[Term], *, title: str = "", macs: bool = False) -> None:
    """A table of terms: name, value, formula, source."""
    from pytest_gpuperf.cli.console import emit, make_console, table, words

    console = make_console()
    shown = table("", "value", "formula", "source")
    shown.columns[1].justify, shown.columns[1].no_wrap = "right", True
    for term in terms:
        value = value_text(term.value, term.unit, macs=macs)
        shown.add_row(words(term.name), words(value), words(term.formula), words(term.source))
    if title:
        console.print(words(title, "bold"))
    emit(console, shown)


def show_training(
    made: Sequence[TrainingEstimate], cards: Sequence[float], args: argparse.Namespace
) -> int:
    """Memory and FLOP of models that are laid out on nothing."""
    macs = args.macs
    if args.json:
        print_json({"models": [_training_json(e, cards, macs=macs) for e in made]})
        return 0
    if args.csv:
        rows = ((e.model.name, t.name, *_plain(t, macs=macs))
                for e in made for t in (*e.memory, *e.flops, e.other_activations))  # fmt: skip
        print_csv(("model", "term", "value", "unit", "formula", "source"), rows)
        return 0
    for e in made:
        _print_training(e, cards, macs=macs)
    return 0


def _plain(term: Term, *, macs: bool) -> tuple[Any, ...]:
    found = term_json(term, macs=macs)
    return found["value"], found["unit"], found["formula"], found["source"]


def _training_json(e: TrainingEstimate, cards: Sequence[float], *, macs: bool) -> dict[str, Any]:
    return {
        "model": asdict(e.model),
        "parameters": e.parameters,
        "sequence": e.sequence,
        "batch": e.batch,
        "memory": [term_json(t) for t in e.memory],
        "total_bytes": e.total_bytes,
        "flops": [term_json(t, macs=macs) for t in e.flops],
        "other_activations": term_json(e.other_activations),
        "cards": [{"bytes": size, "count": e.cards(size)} for size in cards],
    }


def _print_training(e: TrainingEstimate, cards: Sequence[float], *, macs: bool) -> None:
    from pytest_gpuperf.cli.console import emit, make_console, words

    title = (
        f"{e.model.name}: {e.parameters / 1e9:,.4g}e9 parameters; {e.batch} × {e.sequence} tokens"
    )
    print_terms((*e.memory, *e.flops), title=title, macs=macs)
    console = make_console()
    sizes = " or ".join(f"{e.cards(size)} cards of {size / _GB:g} GB" for size in cards)
    emit(console, words(f"In all {e.total_bytes / _GB:,.0f} GB: {sizes} (GB = 1e9 bytes)."))
    other = e.other_activations
    if other.value is not None:
        text = f"{other.name}: {bytes_text(other.value)} ({other.formula}); not in the sum."
        emit(console, words(text[0].upper() + text[1:]))
    console.print()


def show_network(net: Network, args: argparse.Namespace) -> int:
    """A chain of layers: the shape after each, parameters, FLOP."""
    half = 2 if args.macs else 1
    unit = "macs" if args.macs else "flops"
    rows = [
        (n, layer.kind, list(layer.output), layer.parameters, layer.flops // half, layer.formula)
        for n, layer in enumerate(net.layers, 1)
    ]
    titles = ("layer", "kind", "output", "parameters", unit, "formula")
    if args.csv:
        print_csv(titles, ((*r[:2], "x".join(map(str, r[2])), *r[3:]) for r in rows))
        return 0
    sums = {"parameters": net.parameters, unit: net.flops // half,
            "kept_bytes": net.kept_bytes, "allocated_bytes": net.allocated_bytes}  # fmt: skip
    if args.json:
        layers = [dict(zip(titles, row, strict=True)) for row in rows]
        print_json({"input": list(net.input), "layers": layers, **sums})
        return 0
    from pytest_gpuperf.cli.console import emit, make_console, table, words

    console = make_console()
    shown = table("", "kind", "output", "parameters", unit.upper()[:-1], "formula")
    for n, kind, shape, count, flops, formula in rows:
        size = " × ".join(map(str, shape))
        shown.add_row(*map(words, (n, kind, size, f"{count:,}", f"{flops:,}", formula)))
    emit(console, shown)
    text = (
        f"In all {net.parameters:,} parameters; forward {net.flops // half:,} "
        f"{unit.upper()[:-1]}; kept for backward {bytes_text(net.kept_bytes)}; outputs in new "
        f"memory {bytes_text(net.allocated_bytes)}."
    )
    emit(console, words(text))
    return 0


def show_step(e: StepEstimate, args: argparse.Namespace) -> int:
    """What a step of a module takes."""
    if args.json:
        document = {
            "name": e.name,
            "parameters": e.parameters,
            "terms": [term_json(t, macs=args.macs) for t in e.terms()],
            "total_bytes": e.total_bytes,
            "unknown_ops": e.unknown,
            "modules": [asdict(m) for m in e.modules],
        }
        print_json(document)
        return 0
    if args.csv:
        rows = ((t.name, *_plain(t, macs=args.macs)) for t in e.terms())
        print_csv(("term", "value", "unit", "formula", "source"), rows)
        return 0
    from pytest_gpuperf.cli.console import emit, make_console, table, words

    print_terms(e.terms(), title=f"{e.name}: {e.parameters:,} parameters", macs=args.macs)
    console = make_console()
    shown = table("module", "ops", "FLOP forward", "kept", numbers="rest")
    for m in sorted(e.modules, key=lambda m: -m.kept_bytes)[: args.top]:
        flops = value_text(m.flops, "FLOP", macs=args.macs)
        name = m.module or "(the model itself)"
        shown.add_row(*map(words, (name, m.operations, flops, bytes_text(m.kept_bytes))))
    emit(console, shown)
    emit(console, words(f"In all {bytes_text(e.total_bytes)}, were it all alive at once."))
    if e.unknown:
        named = ", ".join(f"{op} ({n})" for op, n in e.unknown.items())
        emit(console, words(f"Not counted: what these ops keep: {named}."))
    return 0


def show_compared(rows: Sequence[Compared], args: argparse.Namespace) -> None:
    """Predicted and measured, side by side."""
    titles = ("model", "quantity", "by", "unit", "predicted", "measured", "error", "within",
              "reason")  # fmt: skip
    plain = [
        (r.model, r.quantity, r.by, r.unit, r.predicted, r.measured, r.error, r.within, r.reason)
        for r in rows
    ]
    if args.json:
        print_json({"rows": [dict(zip(titles, row, strict=True)) for row in plain]})
        return
    if args.csv:
        print_csv(titles, plain)
        return
    from pytest_gpuperf.cli.console import emit, make_console, table, words

    console = make_console()
    shown = table("model", "quantity", "predicted by", "predicted", "measured", "error", numbers=3)
    for r in rows:
        values = (value_text(v, r.unit, macs=args.macs) for v in (r.predicted, r.measured))
        error = "—" if r.error is None else f"{r.error * 100 + 0.0:+.2f}%"
        mark = "" if r.within else " *"
        shown.add_row(*map(words, (r.model, r.quantity, r.by, *values, error + mark)))
    emit(console, shown)
    outside = [r for r in rows if not r.within]
    for r in outside:
        why = r.reason or "outside the tolerance, and no reason is known"
        emit(console, words(f"* {r.model}, {r.quantity}, by {r.by}: {why}."))
