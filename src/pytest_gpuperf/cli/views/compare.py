"""Before and after on a terminal: the change, its parts, ops and kernels, counts and verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from gpuperf_analyzers.diff.text import (
    count_lines,
    details,
    headline,
    labels,
    signed,
    signed_us,
    step_lines,
    structure_lines,
)
from gpuperf_analyzers.display import harmless, short_names, show, show_interval
from pytest_gpuperf.cli.compare import colour, judgement_line, memory_of
from pytest_gpuperf.cli.console import emit, make_console, table, words
from pytest_gpuperf.cli.views.header import grouped, print_findings
from pytest_gpuperf.cli.views.memory_change import print_memory_change

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from gpuperf_analyzers.diff import Change, Diff, PartChange
    from gpuperf_analyzers.limits import Judgement
    from pytest_gpuperf.cli.compare import Side

_LIVE = (
    "step_time was timed with the profiler off, and is what is judged; "
    "the parts below are of the steps in the traces"
)
_NUMBERS = 46
_NARROWEST_NAME = 30
_SHOWN = frozenset({"step_time", "compute_time", "exposed_comm", "idle_time", "kernel_launches"})
"""Metrics whose data the comparison is made of: what makes them invalid is said."""
_KIND = {
    "compute": "compute",
    "communication": "exposed communication",
    "memory": "exposed memory",
}


def print_comparison(
    before: Side, after: Side, found: Diff, judged: Sequence[Judgement], *, top: int
) -> None:
    """Print both sides, what changed between them, and the verdicts."""
    console = make_console()
    for side, word in ((before, "before"), (after, "after")):
        emit(console, words(_side_line(side, word), "bold"))
        findings = grouped(side.analysis.findings)
        print_findings(console, [f for f in findings if f.invalidates & _SHOWN])
    for notice in found.notices:
        emit(console, words(f"! {notice}", "yellow", 300))
    if before.analysis.block and after.analysis.block:
        emit(console, words(_LIVE))
    emit(console, words(""))
    emit(console, words(headline(found), "bold"))
    if found.empty:
        emit(console, words("nothing changed: every op has the same time, kernels and counts"))
    else:
        _print_kinds(console, found)
        _print_ops(console, found, top)
        _print_kernels(console, found, top)
        for line in (*structure_lines(found), *count_lines(found), *step_lines(found)):
            emit(console, words(line))
    print_memory_change(console, memory_of(before, after), top)
    for j in judged:
        emit(console, words(judgement_line(j), colour(j.verdict), 600))


def _side_line(side: Side, word: str) -> str:
    """``before  a.json: rank 3 of 8, NVIDIA A100, 6 steps, median step_time 76.89 ms``."""
    t = side.table
    facts = []
    if t.ranks:
        ranks = f"rank {t.ranks[0]}" if len(t.ranks) == 1 else f"{len(t.ranks)} ranks"
        facts.append(ranks + (f" of {t.world_size}" if t.world_size else ""))
    facts.append(harmless(t.device_name, 60) or "device name unknown")
    n = len(t.steps)
    kind = "step" if t.stepped else "window"
    facts.append(f"{n} {kind}{'' if n == 1 else 's'}")
    value = side.analysis.values["step_time"]
    if value.value is not None:
        text = f"median step_time {show(value.value, 'us')}"
        if value.interval is not None:
            text += f" (95% CI {show_interval(value.value, value.interval, 'us')})"
        at = f" on {harmless(value.at, 40)}" if value.at else ""
        facts.append(f"{text}{at}, {value.source}" if side.analysis.block else f"{text}{at}")
    return f"{word:<6}  {harmless(side.named, 200)}: {', '.join(facts)}"


def _row(shown: Table, name: str, change: Change | PartChange, found: Diff) -> None:
    old, new = ("-" if c is None else show(c.us, "us") for c in (change.before, change.after))
    shown.add_row(words(name), old, new, signed_us(change.delta), _share(found, change.delta))


def _sums(shown: Table, found: Diff, kept: Sequence[Change | PartChange], all_: int) -> None:
    """What is not shown, and the whole: the last row is the sum of those above it."""
    rest = found.delta - sum((c.delta for c in kept), Fraction(0))
    if all_ > len(kept):
        name = f"{all_ - len(kept)} more"
        shown.add_row(words(name), "", "", signed_us(rest), _share(found, rest))
    old, new = found.before.mean_step_ns, found.after.mean_step_ns
    shown.add_row(
        words("whole", "bold"), show(float(old / 1000), "us"), show(float(new / 1000), "us"),
        signed_us(found.delta), _share(found, found.delta),
    )  # fmt: skip


def _share(found: Diff, delta: Fraction) -> str:
    share = found.share(delta)
    return "" if share is None else signed(share, "fraction").removeprefix("+")


def _print_kinds(console: Console, found: Diff) -> None:
    shown = table("mean of a step", "before", "after", "change", "of it", numbers="rest")
    every = found.kinds()
    for part in every:
        _row(shown, _KIND.get(part.kind, f"idle, {part.name}"), part, found)
    _sums(shown, found, every, len(every))
    emit(console, shown)


def _print_ops(console: Console, found: Diff, top: int) -> None:
    room = max(console.width - _NUMBERS, _NARROWEST_NAME)
    shown = table("op (exclusive time)", "before", "after", "change", "of it", numbers="rest")
    changed = [c for c in found.changes if not c.unchanged]
    kept = changed[:top]
    for change, name in zip(kept, labels(kept, room), strict=True):
        _row(shown, "; ".join([name, *details(change)]), change, found)
    _sums(shown, found, kept, len(changed))
    emit(console, shown)


def _print_kernels(console: Console, found: Diff, top: int) -> None:
    changed = [k for k in found.kernels() if k.kind != "idle" and k.name and k.before != k.after]
    kept = changed[:top]
    if not kept:
        return
    room = max(console.width - _NUMBERS - 16, _NARROWEST_NAME)
    title = "collective" if found.after.device_type == "cpu" else "kernel"
    shown = table(title, "before", "after", "change", "of it", "runs", numbers="rest")
    for kernel, name in zip(kept, short_names([k.name for k in kept], room), strict=True):
        old, new = ("-" if c is None else show(c.us, "us") for c in (kernel.before, kernel.after))
        shown.add_row(
            words(name), old, new, signed_us(kernel.delta), _share(found, kernel.delta),
            _runs(kernel),
        )  # fmt: skip
    emit(console, shown)


def _runs(kernel: PartChange) -> str:
    """How often it runs in a step, before and after where that differs."""
    old, new = (Fraction(0) if c is None else c.count for c in (kernel.before, kernel.after))
    text = [f"{float(n):,.4g}" for n in (old, new)]
    return text[0] if old == new else " → ".join(text)
