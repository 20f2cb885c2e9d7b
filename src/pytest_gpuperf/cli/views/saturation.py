"""Utilization beside saturation: how long the device was busy, and how much of it was filled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuperf_analyzers.display import show
from pytest_gpuperf.cli.console import emit, words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.analysis import DeviceAnalysis
    from gpuperf_analyzers.saturation import SaturationResult


def print_saturation(console: Console, device: DeviceAnalysis) -> None:
    """One line; none where no kernel records its launch geometry.

    A kernel of one thread in a loop is busy for all of the time and fills next to nothing.
    """
    found: SaturationResult = device.results["saturation"]
    window = device.timeline.window
    if found.est_occupancy is None or not window.window_ns:
        return
    told = [f"estimated occupancy {show(found.est_occupancy, 'fraction')}"]
    if found.part_filled is not None:
        part = show(found.part_filled, "fraction")
        told.append(f"{part} of kernel time with fewer blocks than multiprocessors")
    if found.tail_efficiency is not None:
        told.append(f"tail efficiency at least {show(found.tail_efficiency, 'fraction')}")
    busy = show(window.busy_ns / window.window_ns, "fraction")
    emit(console, words(f"busy for {busy}; how full: {', '.join(told)}"))
    console.print()
