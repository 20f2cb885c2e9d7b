"""Which fields of an event are decoded, as msgspec structs: one a phase, told apart by ``ph``.

Leaf fields take any JSON value, since files in the wild hold strings of numbers, nulls and
nested lists where numbers belong; the columns convert them. Shapes and types stay raw text,
since a few hundred distinct ones are repeated a hundred thousand times. Structs are not
tracked by the garbage collector: a block of them lives for milliseconds.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct, field

Time = TypeVar("Time")
"""Any where float64 is exact; Raw where the digits must be read."""

EMPTY_RAW = Raw(b"")


class Args(Struct, frozen=True, gc=False):
    """Arguments of complete events: the union over categories. -1, None or empty: absent."""

    device: Any = -1
    stream: Any = -1
    correlation: Any = -1
    external: Any = field(default=-1, name="External id")
    external_old: Any = field(default=-1, name="external id")
    bytes: Any = -1
    dims: Raw = field(default=EMPTY_RAW, name="Input Dims")
    dims_old: Raw = field(default=EMPTY_RAW, name="Input dims")
    dtypes: Raw = field(default=EMPTY_RAW, name="Input type")
    concrete: Raw = field(default=EMPTY_RAW, name="Concrete Inputs")
    strides: Raw = field(default=EMPTY_RAW, name="Input Strides")
    sequence: Any = field(default=-1, name="Sequence number")
    fwd_thread: Any = field(default=-1, name="Fwd thread id")
    grid: Any = None
    block: Any = None
    blocks_per_sm: Any = field(default=None, name="blocks per SM")
    warps_per_sm: Any = field(default=None, name="warps per SM")
    occupancy: Any = field(default=None, name="est. achieved occupancy %")
    registers: Any = field(default=-1, name="registers per thread")
    shared_memory: Any = field(default=-1, name="shared memory")
    graph: Any = field(default=-1, name="graph id")
    graph_node: Any = field(default=-1, name="graph node id")
    wait_stream: Any = field(default=-1, name="wait_on_stream")
    wait_record: Any = field(default=-1, name="wait_on_cuda_event_record_corr_id")
    finished: Any = True
    collective: Any = field(default=None, name="Collective name")
    in_elements: Any = field(default=None, name="In msg nelems")
    out_elements: Any = field(default=None, name="Out msg nelems")
    dtype: Any = None
    group_size: Any = field(default=None, name="Group size")
    group_name: Any = field(default=None, name="Process Group Name")
    group_description: Any = field(default=None, name="Process Group Description")
    group_ranks: Any = field(default=None, name="Process Group Ranks")
    collective_sequence: Any = field(default=None, name="Seq")
    in_split: Any = field(default=None, name="In split size")
    out_split: Any = field(default=None, name="Out split size")
    source_rank: Any = field(default=None, name="Src Rank")
    destination_rank: Any = field(default=None, name="Dst Rank")


NO_ARGS = Args()


class CounterRange(Struct, gc=False):
    """Any event, as far as a ``cuda_profiler_range`` needs: its counters have names of their own.

    A block that holds such ranges is decoded once more, for them alone.
    """

    ph: Any = None
    name: Any = None
    cat: Any = None
    args: Any = None


class MemoryArgs(Struct, gc=False):
    """Arguments of a ``[memory]`` instant."""

    bytes: Any = field(default=None, name="Bytes")
    address: Any = field(default=-1, name="Addr")
    total_allocated: Any = field(default=-1, name="Total Allocated")
    total_reserved: Any = field(default=-1, name="Total Reserved")
    device_type: Any = field(default=-1, name="Device Type")
    device: Any = field(default=-1, name="Device Id")


_NotAnObject = list[Any] | str | int | float | None


class Complete(Struct, Generic[Time], tag_field="ph", tag="X", gc=False):
    """``X``: an event with a duration."""

    ts: Time = None  # type: ignore[assignment]  # Raw may not stand in a union
    dur: Any = None
    name: Any = None
    cat: Any = None
    pid: Any = None
    tid: Any = None
    args: Args | _NotAnObject = NO_ARGS


class Begin(Struct, Generic[Time], tag_field="ph", tag="B", gc=False):
    """``B``: the begin of an event; its ``E`` gives the duration."""

    ts: Time = None  # type: ignore[assignment]  # Raw may not stand in a union
    dur: Any = None
    name: Any = None
    cat: Any = None
    pid: Any = None
    tid: Any = None
    args: Args | _NotAnObject = NO_ARGS


class End(Struct, Generic[Time], tag_field="ph", tag="E", gc=False):
    """``E``: the end of the innermost open ``B`` on the same track."""

    ts: Time = None  # type: ignore[assignment]  # Raw may not stand in a union
    pid: Any = None
    tid: Any = None


class Instant(Struct, Generic[Time], tag_field="ph", tag="i", gc=False):
    """``i``: of interest when it is ``[memory]``."""

    ts: Time = None  # type: ignore[assignment]  # Raw may not stand in a union
    name: Any = None
    pid: Any = None
    tid: Any = None
    args: MemoryArgs | _NotAnObject = None


class OldInstant(Struct, Generic[Time], tag_field="ph", tag="I", gc=False):
    """``I``: the older spelling of ``i``."""

    ts: Time = None  # type: ignore[assignment]  # Raw may not stand in a union
    name: Any = None
    pid: Any = None
    tid: Any = None
    args: MemoryArgs | _NotAnObject = None


class Counter(Struct, Generic[Time], tag_field="ph", tag="C", gc=False):
    """``C``: named values at an instant."""

    ts: Time = None  # type: ignore[assignment]  # Raw may not stand in a union
    name: Any = None
    args: Any = None


class Meta(Struct, tag_field="ph", tag="M", gc=False):
    """``M``: names of processes and threads."""

    name: Any = None
    pid: Any = None
    tid: Any = None
    args: Any = None


_COUNTED = {
    phase: msgspec.defstruct(f"Phase_{ord(phase)}", [], tag_field="ph", tag=phase, gc=False)
    for phase in "stfbneSTpFPNODvVRc(),"
}
"""Flows and whatever else the Chrome format has: counted, and nothing of them decoded."""

PHASE_OF: dict[type, str] = {
    Complete: "X",
    Begin: "B",
    End: "E",
    Instant: "i",
    OldInstant: "I",
    Counter: "C",
    Meta: "M",
    **{struct: phase for phase, struct in _COUNTED.items()},
}


def _event_type(time: Any) -> Any:
    union: Any = Complete[time]
    for generic in (Begin, End, Instant, OldInstant, Counter):
        union = union | generic[time]
    union = union | Meta
    for struct in _COUNTED.values():
        union = union | struct
    return union


_EVENT: Any = _event_type(Any)
_EXACT_EVENT: Any = _event_type(Raw)

block_decoder: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[_EVENT])
"""A JSON list of events; times as numbers."""

range_decoder: msgspec.json.Decoder[list[CounterRange]] = msgspec.json.Decoder(list[CounterRange])
"""A JSON list of events, for the counters of ranges."""

exact_block_decoder: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[_EXACT_EVENT])
"""A JSON list of events; times as raw digits."""
