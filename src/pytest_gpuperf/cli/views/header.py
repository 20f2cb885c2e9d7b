"""What was read: file, rank, device, steps, the live run's conditions, and what to mistrust."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuperf_analyzers.display import counted, harmless, short_names, show
from pytest_gpuperf.cli.console import emit, words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.analysis import Analysis, DeviceAnalysis
    from gpuperf_analyzers.live_block import LiveBlock
    from gpuperf_analyzers.trace.model import Finding

_LONGEST_FINDING = 600


def print_header(console: Console, rank: Analysis) -> None:
    """File, rank, devices, live conditions and findings of one trace."""
    emit(console, words(rank.path, "bold"))
    emit(console, words("  " + ", ".join(_facts(rank))))
    if rank.block is not None:
        emit(console, words("  " + live_words(rank.block)))
    print_findings(console, rank.findings)


def _facts(rank: Analysis) -> list[str]:
    facts = []
    if rank.rank is not None:
        size = f" of {rank.world_size}" if rank.world_size else ""
        facts.append(f"rank {rank.rank}{size}")
    facts += [device_words(device) for device in rank.devices]
    if rank.devices:
        facts.append(steps_words(rank.devices[0]))
    return facts or ["nothing to analyze"]


def device_words(device: DeviceAnalysis) -> str:
    """``device 0 NVIDIA H100 80GB HBM3``."""
    if device.device == "cpu":
        return "cpu"
    return f"{device.label} {harmless(device.name, 60) or '(name unknown)'}"


def steps_words(device: DeviceAnalysis) -> str:
    """How many steps, and which."""
    numbers = [step.number for step in device.steps]
    if not numbers:
        return "no steps annotated"
    if len(numbers) == 1:
        return f"1 step (#{numbers[0]})"
    return f"{len(numbers)} steps (#{numbers[0]} to #{numbers[-1]})"


def live_words(block: LiveBlock) -> str:
    """The conditions of a live run in one sentence."""
    parts = [f"recorded by pytest-gpuperf on {harmless(block.device, 60)}"]
    if block.samples_us:
        samples = counted(len(block.samples_us), "sample")
        parts.append(f"{samples} with the profiler off ({block.timer} clock)")
    parts.append(f"{show(block.warmup_us, 'us')} of warm-up")
    if "torch" in block.environment:
        parts.append(f"torch {harmless(block.environment['torch'], 40)}")
    parts += [harmless(note, 120) for note in block.notes]
    return ", ".join(parts)


def print_findings(console: Console, findings: Iterable[Finding]) -> None:
    """A line for each finding; those that forbid a judgement first."""
    ordered = sorted(findings, key=lambda finding: not finding.invalidates)
    for finding in ordered:
        emit(console, words("  " + finding_words(finding), "yellow", _LONGEST_FINDING))


def grouped(findings: Iterable[Finding]) -> list[Finding]:
    """One finding a code: the first rank's, with the number of other ranks that have it."""
    first: dict[str, Finding] = {}
    places: dict[str, dict[str, None]] = {}
    for finding in findings:
        first.setdefault(finding.code, finding)
        places.setdefault(finding.code, {})[finding.at.partition(",")[0]] = None
    return [
        replace(finding, at=f"{finding.at} (and {_more(len(places[code]) - 1)})")
        if len(places[code]) > 1
        else finding
        for code, finding in first.items()
    ]


def finding_words(finding: Finding) -> str:
    """A finding in one line: where, what, how many, one of them, what it invalidates."""
    text = f"{finding.at}: {finding.message}" if finding.at else finding.message
    if finding.example and finding.example not in finding.message:
        text += f", e.g. {short_names([finding.example], 48)[0]}"
    if finding.invalidates:
        text += f" [INVALID: {_listed(sorted(finding.invalidates))}]"
    return f"! {text} ({finding.code})"


def _listed(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _more(count: int) -> str:
    return f"{count} more rank" + ("s" if count > 1 else "")
