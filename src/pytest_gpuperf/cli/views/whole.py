"""The order of the parts: the set first, then the ranks shown in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuperf_analyzers.display import counted
from gpuperf_analyzers.set_analysis import slowest_rank
from pytest_gpuperf.cli.console import make_console, words
from pytest_gpuperf.cli.views.buckets import print_buckets
from pytest_gpuperf.cli.views.collectives import print_collectives
from pytest_gpuperf.cli.views.counters import print_counters
from pytest_gpuperf.cli.views.critical_path import print_critical_path
from pytest_gpuperf.cli.views.exchanges import print_exchanges
from pytest_gpuperf.cli.views.header import grouped, print_findings, print_header
from pytest_gpuperf.cli.views.host import print_host
from pytest_gpuperf.cli.views.launchers import print_launchers
from pytest_gpuperf.cli.views.memory import print_breakdown, print_memory
from pytest_gpuperf.cli.views.ops import print_ops
from pytest_gpuperf.cli.views.ranks import print_matched, print_ranks
from pytest_gpuperf.cli.views.saturation import print_saturation
from pytest_gpuperf.cli.views.summary import print_summary
from pytest_gpuperf.cli.views.timeline import print_gaps, print_timeline
from pytest_gpuperf.cli.views.values import print_values

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.analysis import Analysis
    from gpuperf_analyzers.set_analysis import SetAnalysis


def print_set(
    found: SetAnalysis, *, top: int, step: str | None = None, rank: str | None = None
) -> None:
    """Print the analysis of one or several ranks on the standard output.

    Parameters
    ----------
    found
        The analysis.
    top
        Rows of the tables of ops, kernels and gaps.
    step
        ``"all"`` or the number of the step whose timeline is asked for.
    rank
        ``"all"`` or the rank shown in full; None for the one whose step or window is longest.
    """
    console = make_console()
    print_summary(console, found.summary)
    if len(found.ranks) > 1:
        print_set_header(console, found)
        print_ranks(console, found)
    if found.collectives is not None:
        print_matched(console, found.collectives, top)
        print_exchanges(console, found)
    for analysis in shown_in_full(found, rank):
        print_rank(console, analysis, top=top, step=step)


def print_set_header(console: Console, found: SetAnalysis) -> None:
    """How many ranks, of what, known from where; and what to mistrust of the set."""
    devices = sorted({r.device_name for r in found.ranks if r.device_name})
    source = f", ranks by {found.rank_source}" if found.rank_source else ""
    text = (
        f"{counted(len(found.ranks), 'rank')} on {', '.join(devices) or 'unknown devices'}{source}"
    )
    console.print(words(text, "bold"))
    print_findings(console, grouped(found.findings))
    console.print()


def shown_in_full(found: SetAnalysis, rank: str | None) -> tuple[Analysis, ...]:
    """The ranks whose every part is printed."""
    if rank == "all" or len(found.ranks) == 1:
        return found.ranks
    if rank is not None:
        return tuple(r for r in found.ranks if r.rank == int(rank))
    return (found.ranks[slowest_rank(found.ranks)],)


def print_rank(console: Console, rank: Analysis, *, top: int, step: str | None) -> None:
    """Every part of one trace."""
    print_header(console, rank)
    console.print()
    print_counters(console, rank, top)
    for device in rank.devices:
        print_timeline(console, device, step)
        print_gaps(console, device, top)
        print_ops(console, device, top)
        print_saturation(console, device)
        print_launchers(console, device, top)
        print_collectives(console, device, top)
        print_buckets(console, device, top)
        print_host(console, device, top)
        print_critical_path(console, device, top)
        print_memory(console, device, top)
        if rank.block is not None and rank.block.memory is not None:
            print_breakdown(console, rank.block.memory, top)
        print_values(console, device.values, rank.metrics, rank.invalid)
        console.print()
