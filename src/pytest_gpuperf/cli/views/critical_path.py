"""What the step would have to shorten: the critical path by class and by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuperf_analyzers.display import counted, show
from pytest_gpuperf.cli.console import emit, table, words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.analysis import DeviceAnalysis
    from gpuperf_analyzers.critical_path import CriticalPaths

_SHOWN = 5


def print_critical_path(console: Console, device: DeviceAnalysis, top: int) -> None:
    """Shares of each class over the paths, the names with most time on them, what was assumed."""
    found: CriticalPaths = device.results["critical_path"]
    broken = next((p for p in found.paths if p.reason), None)
    if broken is not None:
        emit(console, words(f"no critical path across {broken.name}: {broken.reason}"))
        console.print()
        return
    shares = ", ".join(
        f"{kind.name.lower()} {share:.1%}" for kind, share in found.shares() if share > 0
    )
    over = counted(len(found.steps), "step") if found.steps else "the window"
    emit(console, words(f"critical path of {over}: {shares}"))
    shown = table("on the critical path", "class", "count", "time", "share", numbers=3)
    length = sum(p.length_ns for p in found.paths)
    for item in found.items[: min(top, _SHOWN)]:
        shown.add_row(
            words(item.name, width=60),
            words(item.path_class.name.lower()),
            words(f"{item.count:,}"),
            words(show(item.time_ns / 1e3, "us")),
            words(f"{item.time_ns / length:.1%}"),
        )
    if shown.row_count:
        emit(console, shown)
    for assumption in found.assumptions:
        times = "once" if assumption.count == 1 else f"{assumption.count:,} times"
        emit(console, words(f"assumed {times}: {assumption.message}"))
    if found.assumptions:
        console.print()
