"""Keep the interpreter out of the samples, and say what could not be kept out."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Python 3.12 freezes a few hundred objects by itself; a program that freezes its own does so with
# tens of thousands.
_PYTHONS_OWN = 1000


@contextmanager
def garbage_collection_off(*, freeze: bool = False) -> Iterator[None]:
    """Run the block without automatic collections; the collector's state is restored after it.

    Parameters
    ----------
    freeze
        Collect once, then put what lives out of the collector's reach, so that collections
        made between samples touch only what the samples left. If the program froze objects
        itself, nothing is frozen and nothing thawed.
    """
    was_enabled = gc.isenabled()
    if freeze:
        gc.collect()
    freeze = freeze and gc.get_freeze_count() < _PYTHONS_OWN
    gc.disable()
    if freeze:
        gc.freeze()
    try:
        yield
    finally:
        if freeze:
            gc.unfreeze()
        if was_enabled:
            gc.enable()


def observers() -> tuple[str, ...]:
    """Notes on debuggers, coverage and profilers that slow each Python call in this process."""
    found = []
    trace, profile = sys.gettrace(), sys.getprofile()
    if trace is not None:
        found.append(f"{_owner(trace)} traces every line (sys.settrace)")
    if profile is not None:
        found.append(f"{_owner(profile)} profiles every call (sys.setprofile)")
    if threading.gettrace() is not None and trace is None:
        found.append(f"{_owner(threading.gettrace())} traces new threads")
    if threading.getprofile() is not None and profile is None:
        found.append(f"{_owner(threading.getprofile())} profiles new threads")
    found += [f"{tool} watches execution (sys.monitoring)" for tool in _monitoring_tools()]
    return tuple(f"{what}: times include its cost" for what in found)


def _owner(hook: object) -> str:
    """Which tool a trace or profile function belongs to, by the package it is defined in."""
    home = getattr(hook, "__module__", None) or type(hook).__module__
    package = home.partition(".")[0]
    return {"bdb": "a debugger", "pdb": "a debugger", "pydevd": "a debugger"}.get(package, package)


def _monitoring_tools() -> list[str]:
    """Tools registered with ``sys.monitoring`` (Python 3.12 and newer) that ask for events."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return []
    return [
        name
        for tool in range(6)
        if (name := monitoring.get_tool(tool)) is not None and monitoring.get_events(tool)
    ]
