"""A Kineto trace as columns.

Times are int64 nanoseconds relative to the trace's own earliest event; the absolute start is
kept beside them. Strings are interned; a column of strings is an int32 index into ``strings``,
-1 where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]
Bool = npt.NDArray[np.bool_]


class TraceError(Exception):
    """A file that cannot be read as a trace: one line that names the file and the mend."""


class Category(IntEnum):
    """What a complete event (``ph == "X"``) is, from its ``cat`` without regard to case."""

    OTHER = 0
    KERNEL = 1
    MEMCPY = 2
    MEMSET = 3
    CPU_OP = 4
    """``cpu_op``, and ``Operator`` in old files."""
    RUNTIME = 5
    """``cuda_runtime``, ``hip_runtime``, ``Runtime`` in old files, ``privateuse1_runtime``, …"""
    DRIVER = 6
    """``cuda_driver`` and its kin."""
    USER_ANNOTATION = 7
    GPU_USER_ANNOTATION = 8
    PYTHON_FUNCTION = 9
    SYNC = 10
    """``cuda_sync``: not activity."""
    OVERHEAD = 11
    """The profiler's own (``overhead``)."""
    SPAN = 12
    """``Trace``: the profiler's session span."""
    MTIA = 13
    """Any ``mtia*`` category: counted, not supported yet."""
    COUNTER_RANGE = 14
    """``cuda_profiler_range``: CUPTI counters."""
    OLD_MEMORY = 15
    """``Memcpy`` and ``Memset`` of 2021 profilers: not GPU activity as the definition has it."""


GPU_ACTIVITY = (Category.KERNEL, Category.MEMCPY, Category.MEMSET)


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation about the trustworthiness of a trace.

    ``code`` is stable (``truncated``, ``kernel-without-launch``, …); ``count`` how many;
    ``example`` one of them; ``invalidates`` the metric names that must not be judged;
    ``at`` the rank, device or step concerned (``""`` for the whole).
    """

    code: str
    message: str
    count: int = 1
    example: str = ""
    invalidates: frozenset[str] = frozenset()
    at: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """All complete events, sorted by (start, longer first, file order). Columns of equal length.

    A `B`/`E` pair is one complete event. An event without a name is named "". ``dur`` is 0 where
    the file gives none (a quality finding counts them). ``device`` and ``stream`` are set from
    ``args`` for GPU activity and sync events only, -1 elsewhere. -1 stands for absent in every
    id column.
    """

    name: I32
    cat: I8
    ts: I64
    dur: I64
    track: I32
    """Index into ``Trace.tracks``: which (pid, tid)."""
    device: I32
    stream: I64
    correlation: I64
    external_id: I64
    bytes: I64
    """Of copies and memsets."""
    dims: I32
    """``Input Dims`` as raw JSON text, interned."""
    dtypes: I32
    """``Input type`` as raw JSON text, interned."""
    concrete: I32
    """``Concrete Inputs`` as raw JSON text, interned."""
    strides: I32
    """``Input Strides`` as raw JSON text, interned."""
    sequence: I64
    """Autograd's ``Sequence number``."""
    fwd_thread: I64
    """``Fwd thread id``: above 0 on ops of a backward pass."""

    @property
    def end(self) -> I64:
        """End of each event, ns."""
        return self.ts + self.dur

    def __len__(self) -> int:
        return len(self.ts)


@dataclass(frozen=True, slots=True, eq=False)
class KernelArgs:
    """Launch geometry; entry i belongs to event ``row[i]`` (ascending). NaN or -1: absent."""

    row: I64
    grid: I64
    """Shape (n, 3)."""
    block: I64
    """Shape (n, 3)."""
    blocks_per_sm: F32
    warps_per_sm: F32
    occupancy: F32
    """``est. achieved occupancy %`` as a fraction."""
    registers: I32
    shared_memory: I64
    """Bytes."""
    graph_id: I64
    graph_node_id: I64


@dataclass(frozen=True, slots=True, eq=False)
class SyncArgs:
    """What ``cuda_sync`` events wait for; entry i belongs to event ``row[i]``. -1: absent."""

    row: I64
    wait_stream: I64
    """``wait_on_stream``: the stream that the event was recorded on."""
    wait_record: I64
    """``wait_on_cuda_event_record_corr_id``: the correlation of the call that recorded it."""


@dataclass(frozen=True, slots=True)
class CollectiveArgs:
    """NCCL metadata of one event (kernel or CPU span). None or "" where the file gives none."""

    row: int
    name: str = ""
    in_elements: int | None = None
    out_elements: int | None = None
    dtype: str = ""
    group_size: int | None = None
    group_name: str = ""
    group_description: str = ""
    group_ranks: str = ""
    sequence: int | None = None
    in_split: str = ""
    out_split: str = ""
    source_rank: int | None = None
    destination_rank: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MemoryEvents:
    """``[memory]`` instants in time order. Bytes are signed: negative frees. -1: absent."""

    ts: I64
    track: I32
    bytes: I64
    address: I64
    """Bit pattern of the 64-bit address."""
    total_allocated: I64
    total_reserved: I64
    device_type: I32
    """0 CPU, 1 CUDA, 6 HIP (c10::DeviceType)."""
    device: I32


@dataclass(frozen=True, slots=True, eq=False)
class Counters:
    """``C`` events: one row a sample and series. ``key`` and ``name`` index ``Trace.strings``."""

    ts: I64
    name: I32
    key: I32
    value: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RangeCounters:
    """CUPTI counters of ``cuda_profiler_range`` events: one row a range and counter, in file order.

    ``range`` numbers the ranges; ``name`` (the kernel) and ``key`` index ``Trace.strings``.
    """

    range: I64
    name: I32
    key: I32
    value: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """One file's events as columns, with what the file says about itself.

    Immutable. ``start_ns`` is the absolute time of ``ts == 0`` in ns since the epoch, the
    trace's ``baseTimeNanoseconds`` included where the file has it. ``metadata`` are the
    top-level keys besides the events. ``phases`` counts every event by its ``ph``.
    ``findings`` are what the reader saw; :func:`gpuperf_analyzers.trace.quality.assess` adds
    what the columns show.
    """

    path: str
    start_ns: int
    strings: Sequence[str]
    tracks: Sequence[tuple[int | str, int | str]]
    events: Events
    kernel_args: KernelArgs
    sync_args: SyncArgs
    collective_args: Sequence[CollectiveArgs]
    memory: MemoryEvents
    counters: Counters
    range_counters: RangeCounters
    phases: Mapping[str, int]
    metadata: Mapping[str, Any]
    process_names: Mapping[int | str, str]
    thread_names: Mapping[tuple[int | str, int | str], str]
    rank: int | None
    world_size: int | None
    device_properties: Sequence[Mapping[str, Any]]
    findings: tuple[Finding, ...] = ()
    memo: dict[str, Any] = field(default_factory=dict, repr=False)
    """Results that several questions share (links, nesting), computed once."""
    span: str | None = None
    """Name of the host spans that stand in place of steps; None for ``ProfilerStep#N``."""

    def rows(self, *categories: Category) -> I64:
        """Row numbers of the events of these categories, in time order."""
        wanted = np.zeros(len(Category), dtype=np.bool_)
        wanted[[int(c) for c in categories]] = True
        return np.flatnonzero(wanted[self.events.cat])

    def name_of(self, row: int) -> str:
        """Name of the event in `row`."""
        return self.strings[int(self.events.name[row])]

    def names_matching(self, names: Sequence[str] | frozenset[str]) -> Bool:
        """Mask over ``events`` of those whose name is one of `names`."""
        wanted = frozenset(names)
        ids = np.array([i for i, s in enumerate(self.strings) if s in wanted], dtype=np.int32)
        mask: Bool = np.isin(self.events.name, ids)
        return mask

    def frame(self) -> pd.DataFrame:
        """Every complete event as a DataFrame; times in ns relative to the trace's start."""
        import pandas as pd

        e = self.events
        names = np.asarray(self.strings, dtype=object)
        return pd.DataFrame(
            {
                "name": names[e.name] if len(e) else np.empty(0, dtype=object),
                "category": pd.Categorical.from_codes(
                    e.cat.astype(np.int16), categories=pd.Index([c.name.lower() for c in Category])
                ),
                "ts_ns": e.ts,
                "dur_ns": e.dur,
                "pid": [self.tracks[t][0] for t in e.track],
                "tid": [self.tracks[t][1] for t in e.track],
                "device": e.device,
                "stream": e.stream,
                "correlation": e.correlation,
                "external_id": e.external_id,
                "bytes": e.bytes,
            }
        )

    def kernels(self) -> pd.DataFrame:
        """The GPU activity (kernels, copies, memsets) as a DataFrame."""
        return self.frame().iloc[self.rows(*GPU_ACTIVITY)]


@dataclass(frozen=True, slots=True)
class TraceSet:
    """Several ranks' traces. ``failed`` maps a path to the one line that says why it has none.

    ``rank_source`` says where ranks came from (``distributedInfo``, ``file name``, ``order``).
    """

    traces: tuple[Trace, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    rank_source: str = ""
    findings: tuple[Finding, ...] = ()
