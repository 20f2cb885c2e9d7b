"""Snapshots of torch's allocator on the command line: what they hold, and what grew."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.quantities import QuantityError, parse_quantity
from pytest_gpuperf.cli.inputs import USAGE, complain
from pytest_gpuperf.cli.json_output import print_json

if TYPE_CHECKING:
    from gpuperf_analyzers.snapshot import Fit, OutOfMemory, Snapshot


def bytes_asked(text: str) -> int:
    """`text` (``2GiB``) as bytes.

    Raises
    ------
    argparse.ArgumentTypeError
        It is no size.
    """
    try:
        return int(parse_quantity(text, "bytes").value)
    except QuantityError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def which_are_snapshots(paths: Sequence[str]) -> list[str]:
    """Those of `paths` that are files which begin as a pickle does."""
    from gpuperf_analyzers.snapshot import is_snapshot

    found = []
    for path in paths:
        try:
            if Path(path).is_file() and is_snapshot(path):
                found.append(path)
        except (OSError, ValueError):  # noqa: PERF203 - who reads it as a trace says why
            continue
    return found


def read(path: str) -> Snapshot | None:
    """The snapshot; None, after a line that says why it cannot be read."""
    from gpuperf_analyzers.snapshot import SnapshotError, read_snapshot

    try:
        return read_snapshot(path)
    except SnapshotError as error:
        complain(str(error))
        return None


def report(paths: Sequence[str], *, size: int | None, top: int, as_json: bool) -> int:
    """Print what each of `paths` holds: 0, or 2 where one of them cannot be read."""
    status = 0
    documents = []
    for path in paths:
        snapshot = read(path)
        if snapshot is None:
            status = USAGE
        elif as_json:
            documents.append(document(snapshot, size, top))
        else:
            from pytest_gpuperf.cli.views.snapshot import print_snapshot

            print_snapshot(snapshot, size=size, top=top)
    if as_json and documents:
        print_json(documents[0] if len(paths) == 1 else {"snapshots": documents})
    return status


def fits(snapshot: Snapshot, device: int, size: int | None) -> list[Fit]:
    """What would have had to go for `size`, else for the last allocation that failed."""
    from gpuperf_analyzers.snapshot import fit, past_of

    past = past_of(snapshot, device)
    failures: Sequence[OutOfMemory] = past.failures if past else ()
    free = failures[-1].device_free if failures and failures[-1].device_free >= 0 else None
    if size is not None:
        return [fit(snapshot, device, size, free)]
    return [fit(snapshot, device, failures[-1].bytes, free)] if failures else []


def document(snapshot: Snapshot, size: int | None, top: int) -> dict[str, Any]:
    """The snapshot's numbers as plain JSON types."""
    from gpuperf_analyzers.snapshot import by_made_in, device_memory, live_sites, past_of

    devices = []
    for device in snapshot.devices:
        memory = device_memory(snapshot, device)
        sites = live_sites(snapshot, device)
        past = past_of(snapshot, device)
        told = None if past is None else asdict(past)
        if told is not None:
            del told["level_bytes"]  # one an event
            for table in ("at_peak", "busiest"):
                told[table] = told[table][:top]
        devices.append(
            {
                **asdict(memory),
                "rounding": memory.rounding,
                "reserved_over_allocated": memory.reserved_over_allocated,
                "fragmentation": memory.fragmentation,
                "made_in": by_made_in(sites),
                "live": [asdict(row) for row in sites[:top]],
                "history": told,
                "fits": [asdict(each) for each in fits(snapshot, device, size)],
            }
        )
    return {
        "path": snapshot.path,
        "notes": list(snapshot.notes),
        "settings": dict(snapshot.settings),
        "devices": devices,
    }


def compare(before: str, after: str, *, top: int, as_json: bool) -> int:
    """Print what grew from one snapshot to the other: 0, or 2 where one cannot be read."""
    from gpuperf_analyzers.snapshot import diff_snapshots

    sides = [read(path) for path in (before, after)]
    old, new = sides
    if old is None or new is None:
        return USAGE
    found = diff_snapshots(old, new)
    if as_json:
        print_json(
            {
                "before": before,
                "after": after,
                "live_before": found.before,
                "live_after": found.after,
                "made_in": found.by_made_in(),
                "changes": [{**asdict(c), "delta": c.delta} for c in found.changes[:top]],
            }
        )
    else:
        from pytest_gpuperf.cli.views.snapshot import print_growth

        print_growth(old, new, found, top=top)
    return 0
