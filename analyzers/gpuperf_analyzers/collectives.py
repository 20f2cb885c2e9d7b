"""Collectives of one rank: kind, bytes, type, group, time, and how much of it was exposed.

S is the larger of input and output bytes. One rank sees its own duration, waiting for the others
included: the bandwidth from it is a lower bound, shown and never judged.
:mod:`gpuperf_analyzers.matched_collectives` has the rest, with all ranks at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuperf_analyzers import intervals, stats
from gpuperf_analyzers.collective_kinds import (
    UNKNOWN,
    bus_factor,
    element_bytes,
    kernel_hint,
    kind_of,
    payload_share,
    size_bucket,
)
from gpuperf_analyzers.config import Config
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.trace.classify import Device
from gpuperf_analyzers.trace.labels import argument_elements
from gpuperf_analyzers.trace.links import launches, nesting
from gpuperf_analyzers.trace.model import I64, Category, CollectiveArgs, Trace
from gpuperf_analyzers.trace.selection import activity
from gpuperf_analyzers.trace.steps import step_of, steps

if TYPE_CHECKING:
    import pandas as pd

METADATA = "metadata"
SHAPES = "op shapes"
WORLD = "world size"
KERNEL_NAME = "kernel name"


@dataclass(frozen=True, slots=True)
class Collective:
    """One communication kernel (one ``gloo:`` span on a CPU).

    ``kind`` comes from NCCL's metadata, the op or the annotation around the launch; from the
    kernel's name only as a last resort (``kind_source``). ``bytes`` is the larger of input and
    output, None where not recorded. ``group`` is the process group's name, ``group_ranks`` its
    ranks as NCCL lists them; ``group_size`` is the world's where the trace does not name a group
    (``group_size_source``). ``exposed_us`` is the part during which no compute ran. ``algbw_gb_s =
    bytes / duration`` and ``busbw_gb_s`` are lower bounds. ``algorithm`` and ``protocol`` are
    hints from the kernel's name, unless ``choice_source`` names NCCL's log
    (:mod:`gpuperf_analyzers.nccl_log`).
    """

    row: int
    kind: str
    kind_source: str
    bytes: int | None
    dtype: str
    group: str
    group_ranks: str
    group_size: int | None
    group_size_source: str
    sequence: int | None
    step: str
    start_us: float
    duration_us: float
    exposed_us: float
    algbw_gb_s: float | None
    busbw_gb_s: float | None
    algorithm: str
    protocol: str
    choice_source: str = ""

    @property
    def wire_bytes(self) -> float | None:
        """``bytes`` with the protocol's flags; None where either is not known."""
        share = payload_share(self.protocol)
        return self.bytes / share if self.bytes is not None and share is not None else None


@dataclass(frozen=True, slots=True)
class CollectivesResult:
    """Collectives of one device in time order; ``step_`` fields hold one entry a step."""

    device: Device
    calls: tuple[Collective, ...]
    step_names: tuple[str, ...]
    step_counts: tuple[int, ...]
    step_bytes: tuple[int, ...]
    unsized: int
    """Collectives whose bytes are not recorded."""

    def metrics(self) -> Iterator[Value]:
        """``collectives``, ``collective_bytes``; ``busbw`` needs all ranks."""
        source = "communication kernels" if self.device != "cpu" else "gloo spans"
        unsized = f"{self.unsized} of {len(self.calls)} collectives have no recorded size"
        if self.step_names:
            yield stats.worst_value("collectives", self.step_counts, self.step_names, source)
        else:
            whole = f"{source}, whole window"
            yield Value("collectives", float(len(self.calls)), source=whole)
        if self.unsized:
            yield absent("collective_bytes", unsized, source=source)
        elif self.step_names:
            yield stats.worst_value("collective_bytes", self.step_bytes, self.step_names, source)
        else:
            total = sum(c.bytes or 0 for c in self.calls)
            yield Value("collective_bytes", float(total), source=f"{source}, whole window")
        yield absent("busbw", self._why_no_bandwidth())

    def _why_no_bandwidth(self) -> str:
        if not self.calls:
            return "no communication"
        return "one rank's time includes waiting for the others: needs the traces of all ranks"

    def to_frame(self) -> pd.DataFrame:
        """One row per collective."""
        import pandas as pd

        columns = list(Collective.__slots__)
        return pd.DataFrame([[getattr(c, k) for k in columns] for c in self.calls], columns=columns)

    def by_size(self) -> pd.DataFrame:
        """Count, bytes, time and bandwidth by kind and size bucket (upper bound in bytes).

        Times and bandwidths hold this rank's waiting.
        """
        frame = self.to_frame()
        frame["up_to_bytes"] = [size_bucket(c.bytes) for c in self.calls]
        grouped = frame.groupby(["kind", "up_to_bytes"], sort=True)
        table = grouped.agg(
            count=("duration_us", "size"),
            bytes=("bytes", "sum"),
            duration_us=("duration_us", "sum"),
            exposed_us=("exposed_us", "sum"),
            busbw_gb_s=("busbw_gb_s", "median"),
        )
        return table.reset_index()


@dataclass(frozen=True, slots=True)
class _Facts:
    """What one source says of a collective; None and "" where it is silent."""

    kind: str = UNKNOWN
    source: str = ""
    bytes: int | None = None
    dtype: str = ""
    group: str = ""
    group_ranks: str = ""
    group_size: int | None = None
    sequence: int | None = None


def analyze(trace: Trace, config: Config, device: Device) -> CollectivesResult:
    """Collectives of `device`.

    Raises
    ------
    ValueError
        The trace has no activity on `device`.
    """
    found = activity(trace, device, config)
    every = steps(trace, device, config)
    of_step = np.full(len(trace.events), -1, dtype=np.int64)
    of_step[found.rows] = step_of(trace, device, config)
    rows = found.comm_rows
    e = trace.events
    hidden = intervals.covered(found.compute, e.ts[rows], e.end[rows])
    described = _describe(trace, rows, device)
    calls = tuple(
        _collective(trace, row, facts, int(h), every[s].name if s >= 0 else "")
        for row, facts, h, s in zip(
            rows.tolist(), described, hidden.tolist(), of_step[rows].tolist(), strict=True
        )
    )
    index = {s.name: i for i, s in enumerate(every)}
    counts, sizes = [0] * len(every), [0] * len(every)
    for call in calls:
        if call.step:
            counts[index[call.step]] += 1
            sizes[index[call.step]] += call.bytes or 0
    return CollectivesResult(
        device=device,
        calls=calls,
        step_names=tuple(s.name for s in every),
        step_counts=tuple(counts),
        step_bytes=tuple(sizes),
        unsized=sum(c.bytes is None for c in calls),
    )


def _collective(trace: Trace, row: int, facts: _Facts, hidden: int, step: str) -> Collective:
    e = trace.events
    duration = int(e.dur[row])
    size, source = facts.group_size, METADATA if facts.group_size else ""
    if size is None:
        size, source = _world(trace), WORLD
    algbw = facts.bytes / duration if facts.bytes and duration else None
    factor = bus_factor(facts.kind, size or 0)
    algorithm, protocol = kernel_hint(trace.name_of(row))
    return Collective(
        row=row,
        kind=facts.kind,
        kind_source=facts.source,
        bytes=facts.bytes,
        dtype=facts.dtype,
        group=facts.group,
        group_ranks=facts.group_ranks,
        group_size=size,
        group_size_source=source if size is not None else "",
        sequence=facts.sequence,
        step=step,
        start_us=int(e.ts[row]) / 1e3,
        duration_us=duration / 1e3,
        exposed_us=(duration - hidden) / 1e3,
        algbw_gb_s=algbw,
        busbw_gb_s=algbw * factor if algbw is not None and factor is not None else None,
        algorithm=algorithm,
        protocol=protocol,
        choice_source=KERNEL_NAME if algorithm or protocol else "",
    )


def _world(trace: Trace) -> int | None:
    """Ranks in the job, where a collective that names no group can only mean all of them."""
    return trace.world_size


def _describe(trace: Trace, rows: I64, device: Device) -> list[_Facts]:
    """What is known of each collective: each fact from the first source that has it."""
    metadata = {args.row: args for args in trace.collective_args}
    if device == "cpu":
        return [_merged(trace, row, [_span_facts(trace, row)]) for row in rows.tolist()]
    around = _surroundings(trace, rows)
    described = []
    for row, spans in zip(rows.tolist(), around, strict=True):
        sources = [_metadata_facts(metadata[row])] if row in metadata else []
        sources += [_metadata_facts(metadata[s]) for s in spans if s in metadata]
        sources += [_span_facts(trace, s) for s in spans]
        described.append(_merged(trace, row, sources))
    return described


def _surroundings(trace: Trace, rows: I64) -> list[list[int]]:
    """For each kernel the ops and annotations around its launch, innermost first, ops first."""
    e = trace.events
    launch = launches(trace)[rows]
    around: list[list[int]] = [[] for _ in rows]
    linked = np.flatnonzero(launch >= 0)
    for category in (Category.CPU_OP, Category.USER_ANNOTATION):
        nest = nesting(trace, category)
        if not len(nest.rows) or not len(linked):
            continue
        calls = launch[linked]
        at = nest.innermost(e.track[calls].astype(np.int64), e.ts[calls])
        which = linked
        while (at >= 0).any():
            which, at = which[at >= 0], at[at >= 0]
            for i, row in zip(which.tolist(), nest.rows[at].tolist(), strict=True):
                around[i].append(row)
            at = nest.parent[at]
    return around


def _metadata_facts(args: CollectiveArgs) -> _Facts:
    """From NCCL's metadata."""
    elements = [n for n in (args.in_elements, args.out_elements) if n is not None]
    size = element_bytes(args.dtype)
    return _Facts(
        kind=kind_of(args.name),
        source=METADATA if args.name else "",
        bytes=max(elements) * size if elements and size is not None else None,
        dtype=args.dtype,
        group=args.group_name,
        group_ranks=args.group_ranks,
        group_size=args.group_size,
        sequence=args.sequence,
    )


_PREFIXES = ("c10d::", "nccl:", "gloo:", "symm_mem::", "_c10d_functional::")


def _span_facts(trace: Trace, row: int) -> _Facts:
    """From the shapes of an op or annotation that is a collective.

    Ops hold both sides; an annotation holds the input alone, which of an all-gather is one
    rank's share.
    """
    name = trace.name_of(row)
    if not name.startswith(_PREFIXES):
        return _Facts()
    kind = kind_of(name)
    sides = argument_elements(trace, row)[:2]
    dtype = next((t for _, t in sides if element_bytes(t) is not None), "")
    size = element_bytes(dtype)
    elements = max((n for n, _ in sides), default=0)
    input_alone = name.startswith(("nccl:", "gloo:"))
    if kind == "all_gather" and input_alone:
        elements *= _world(trace) or 0
    known = size is not None and elements > 0
    nothing = kind == "barrier" and not known
    return _Facts(
        kind=kind,
        source=SHAPES,
        bytes=elements * (size or 0) if known else 0 if nothing else None,
        dtype=dtype,
    )


def _merged(trace: Trace, row: int, sources: list[_Facts]) -> _Facts:
    """The first source that has each fact; the kernel's name for the kind if none has."""
    kind, source = next(
        ((s.kind, s.source) for s in sources if s.kind != UNKNOWN),
        (kind_of(trace.name_of(row)), KERNEL_NAME),
    )
    sized = next((s for s in sources if s.bytes is not None), _Facts())
    return _Facts(
        kind=kind,
        source=source,
        bytes=sized.bytes,
        dtype=sized.dtype or next((s.dtype for s in sources if s.dtype), ""),
        group=next((s.group for s in sources if s.group), ""),
        group_ranks=next((s.group_ranks for s in sources if s.group_ranks), ""),
        group_size=next((s.group_size for s in sources if s.group_size), None),
        sequence=next((s.sequence for s in sources if s.sequence is not None), None),
    )
