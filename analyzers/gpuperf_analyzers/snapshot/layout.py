"""From the plain dicts of a snapshot to a :class:`Snapshot`, whichever version of torch wrote them.

Known layouts: a bare list of segments (``torch.cuda.memory_snapshot``), with or without the
allocator's settings, several devices or none that is named, stacks in ``frames`` of a block or,
before torch 2.1, in its ``history``, blocks with and without an address, no history of events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpuperf_analyzers.snapshot.fields import Budget, FieldError, pair, text, whole
from gpuperf_analyzers.snapshot.model import (
    ACTIONS,
    NO_STACK,
    OTHER_ACTION,
    Block,
    Frame,
    History,
    Segment,
    Snapshot,
    State,
)

_STATES: Mapping[str, State] = {
    "active_allocated": "live",
    "active_awaiting_free": "awaiting",
    "active_pending_free": "awaiting",
    "inactive": "free",
}
_ACTIONS = {name: index for index, name in enumerate(ACTIONS)}
_MOST_SETTINGS = 200


class _Stacks:
    """Stacks, each kept once; lists that the pickle shares are looked at once."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._by_list: dict[int, int] = {}
        self._by_value: dict[tuple[Frame, ...], int] = {(): NO_STACK}
        self._frames: dict[int, Frame] = {}

    def index(self, frames: object) -> int:
        """Index of the stack that `frames` is; None is the empty one."""
        if frames is None:
            return NO_STACK
        known = self._by_list.get(id(frames))
        if known is None:
            stack = tuple(self._frame(f) for f in self._budget.dicts(frames, "frames"))
            known = self._by_value.setdefault(stack, len(self._by_value))
            self._by_list[id(frames)] = known
        return known

    def _frame(self, raw: dict[str, Any]) -> Frame:
        found = self._frames.get(id(raw))
        if found is None:
            # C++ frames may carry a line of 0 and an empty file; a line of -1 stands for none.
            line = raw.get("line", 0)
            number = line if type(line) is int and 0 <= line < 2**31 else 0
            found = Frame(text(raw, "filename"), number, text(raw, "name"))
            self._frames[id(raw)] = found
        return found

    def all(self) -> tuple[tuple[Frame, ...], ...]:
        return tuple(self._by_value)


def snapshot_of(raw: object, path: str, entries: int) -> Snapshot:
    """The snapshot that `raw` describes.

    Parameters
    ----------
    raw
        What the pickle holds.
    path
        The file, for the result.
    entries
        How many entries it can have at most, however often it refers to them.

    Raises
    ------
    FieldError
        It is not of a known layout.
    """
    whole_file: Mapping[str, Any] = raw if isinstance(raw, dict) else {"segments": raw}
    if not isinstance(whole_file.get("segments"), (list, tuple)):
        raise FieldError("it has no list of segments")
    budget = Budget(entries)
    stacks = _Stacks(budget)
    listed = budget.entries(whole_file, "segments", "segments")
    segments = tuple(_segment(each, stacks, budget) for each in listed)
    histories = _histories(whole_file.get("device_traces"), stacks, budget)
    found = Snapshot(path, segments, histories, stacks.all(), _settings(whole_file))
    return Snapshot(
        path, segments, histories, found.stacks, found.settings, tuple(_notes(found, whole_file))
    )


def _segment(raw: dict[str, Any], stacks: _Stacks, budget: Budget) -> Segment:
    address = whole(raw, "address")
    at, blocks = address, []
    for each in budget.entries(raw, "blocks", "blocks"):
        block = _block(each, at, stacks, budget)
        at = block.address + block.size
        blocks.append(block)
    size = whole(raw, "total_size", sum(b.size for b in blocks))
    return Segment(
        device=whole(raw, "device", 0),
        address=address,
        size=size,
        stream=whole(raw, "stream", 0),
        kind=text(raw, "segment_type"),
        pool=pair(raw, "segment_pool_id"),
        expandable=raw.get("is_expandable") is True,
        blocks=tuple(blocks),
    )


def _block(raw: dict[str, Any], at: int, stacks: _Stacks, budget: Budget) -> Block:
    """One block; where its address is not told it follows the one before."""
    size = whole(raw, "size")
    written = text(raw, "state")
    if written not in _STATES:
        raise FieldError(f"a block's state is {written[:40]!r}")
    state = _STATES[written]
    frames = raw.get("frames")
    requested = whole(raw, "requested_size", size)
    if frames is None and "history" in raw:
        latest = next(budget.entries(raw, "history", "a block's history"), {})
        frames = latest.get("frames")
        requested = whole(latest, "real_size", requested)
    return Block(
        address=whole(raw, "address", at),
        size=size,
        requested=0 if state == "free" else min(requested, size),
        state=state,
        stack=stacks.index(frames),
    )


def _histories(raw: object, stacks: _Stacks, budget: Budget) -> dict[int, History]:
    """By device: entries stand in one list a device, in the order of devices."""
    if raw is None:
        return {}
    if not isinstance(raw, (list, tuple)):
        raise FieldError(f"device_traces are {type(raw).__name__}, not a list")
    budget.spend(len(raw))
    found = {}
    for device, events in enumerate(raw):
        history = _history(device, events, stacks, budget)
        if len(history):
            found[device] = history
    return found


def _history(device: int, events: object, stacks: _Stacks, budget: Budget) -> History:
    columns: list[list[int]] = [[], [], [], [], [], []]
    action, address, size, stack, time_us, device_free = columns
    for event in budget.dicts(events, "the events of a device"):
        action.append(_ACTIONS.get(text(event, "action"), OTHER_ACTION))
        # An out-of-memory event has no address of its own.
        address.append(whole(event, "addr", 0))
        size.append(whole(event, "size", 0))
        stack.append(stacks.index(event.get("frames")))
        time_us.append(whole(event, "time_us") if event.get("time_us") is not None else -1)
        free = event.get("device_free")
        device_free.append(-1 if free is None else whole(event, "device_free"))
    arrays = [np.array(column, dtype=np.int64) for column in columns]
    return History(device, *arrays)


def _settings(raw: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    settings = raw.get("allocator_settings")
    if not isinstance(settings, dict):
        return {}
    kept = list(settings.items())[:_MOST_SETTINGS]
    return {k: v for k, v in kept if isinstance(v, (str, int, float, bool))}


def _notes(found: Snapshot, raw: Mapping[str, Any]) -> list[str]:
    """What the layout does not tell, and what does not add up."""
    notes = []
    live = [b for s in found.segments for b in s.blocks if b.state != "free"]
    if live and all(b.stack == NO_STACK for b in live):
        notes.append(
            "no stacks: torch.cuda.memory._record_memory_history() was not on when they were made"
        )
    if not found.histories:
        notes.append("no history of events")
    if not isinstance(raw.get("allocator_settings"), dict):
        notes.append("the allocator's settings are not recorded")
    odd = [s for s in found.segments if _odd(s)]
    if odd:
        notes.append(f"of {len(odd)} segments the blocks do not add up to the segment")
    return notes


def _odd(segment: Segment) -> bool:
    blocks: Sequence[Block] = segment.blocks
    # An expandable segment's unmapped parts are in no block.
    return not segment.expandable and sum(b.size for b in blocks) != segment.size
