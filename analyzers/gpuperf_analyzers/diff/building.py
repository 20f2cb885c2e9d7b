"""From traces to an op table: one device, all devices of a trace, all ranks of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.diff import on_cpu, on_gpu
from gpuperf_analyzers.diff.exclusive import owned_time
from gpuperf_analyzers.diff.gathered import IDLE_ROW, Gathered, columns
from gpuperf_analyzers.diff.table import OpRow, OpTable, Part, RowKey, StepTime
from gpuperf_analyzers.trace.classify import Device, device_findings, device_name, devices
from gpuperf_analyzers.trace.model import I64, Trace, TraceSet

_RECORDED = ("with_stack", "profile_memory", "with_modules", "with_flops")
"""Settings of the profiler that a trace may name and that cost time."""


def op_table(traces: Trace | TraceSet, config: Config) -> OpTable:
    """What each op cost, over every step of every device and rank.

    Raises
    ------
    ValueError
        A trace has no device to analyze, or CPU and GPU runs are mixed.
    """
    every = (traces,) if isinstance(traces, Trace) else traces.traces
    return pooled([_of_trace(trace, config) for trace in every])


def _of_trace(trace: Trace, config: Config) -> OpTable:
    here = devices(trace)
    if not here:
        why = "; ".join(f.message for f in device_findings(trace))
        raise ValueError(f"{trace.path}: {why}")
    return pooled([device_table(trace, config, d, several=len(here) > 1) for d in here])


def device_table(trace: Trace, config: Config, device: Device, *, several: bool = False) -> OpTable:
    """What each op cost on one device.

    Parameters
    ----------
    several
        Whether the trace has more devices, so that steps say which they ran on.
    """
    spans = columns(trace, config, device)
    found = (
        on_cpu.gather(trace, config, spans)
        if device == "cpu"
        else on_gpu.gather(trace, config, device, spans)
    )
    times = owned_time(found.layers, spans.start, spans.end, len(found.owners))
    rows, idle = _rows(found, times)
    rank = "" if trace.rank is None else f"rank {trace.rank}"
    at = ", ".join(part for part in (rank, f"device {device}" if several else "") if part)
    lengths = (spans.end - spans.start).tolist()
    return OpTable(
        device_name=device_name(trace, device),
        device_type="cpu" if device == "cpu" else "cuda",
        world_size=trace.world_size,
        ranks=() if trace.rank is None else (trace.rank,),
        stepped=spans.stepped,
        shapes_recorded=bool((trace.events.dims >= 0).any()),
        steps=tuple(StepTime(n, at, ns) for n, ns in zip(spans.names, lengths, strict=True)),
        rows=rows,
        idle=idle,
        conditions=_conditions(trace),
    )


def _rows(found: Gathered, times: I64) -> tuple[tuple[OpRow, ...], tuple[Part, ...]]:
    """Owners joined to rows; one that owns no time and counts nothing is left out."""
    parts: dict[RowKey, list[Part]] = {}
    for (row, kind, name), number in found.owners.items():
        ns = tuple(times[number].tolist())
        count, size = found.count[number], found.bytes[number]
        if count or size or any(ns):
            parts.setdefault(row, []).append(Part(kind, name, count, size, ns))
    idle = parts.pop(IDLE_ROW, [])
    counted = (*parts, *found.calls, *found.launches, *found.syncs)
    rows = [
        OpRow(*key, found.calls[key], found.launches[key], found.syncs[key],
              _ordered(parts.get(key, ())))
        for key in dict.fromkeys(counted)
    ]  # fmt: skip
    return tuple(sorted(rows, key=lambda r: (-r.total_ns, r.key))), _ordered(idle)


def _ordered(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(sorted(parts, key=lambda p: (-p.total_ns, p.kind, p.name)))


def _conditions(trace: Trace) -> dict[str, str]:
    """What the trace says of itself that changes times."""
    found = {k: str(trace.metadata[k]) for k in _RECORDED if k in trace.metadata}
    block = trace.metadata.get("gpuperf")
    environment = block.get("environment") if isinstance(block, dict) else None
    if isinstance(environment, dict):
        found |= {str(k): str(v) for k, v in environment.items()}
    return found


def pooled(tables: Sequence[OpTable]) -> OpTable:
    """The steps of several devices or ranks side by side, rows joined.

    Raises
    ------
    ValueError
        No table, or CPU and GPU runs are mixed.
    """
    if not tables:
        raise ValueError("no trace to make an op table of")
    if len(tables) == 1:
        return tables[0]
    kinds = {t.device_type for t in tables}
    if len(kinds) > 1:
        raise ValueError("CPU and GPU traces in one set: compare the one or the other")
    rows: dict[RowKey, list[tuple[int, OpRow]]] = {}
    for i, table in enumerate(tables):
        for row in table.rows:
            rows.setdefault(row.key, []).append((i, row))
    widths = [len(t.steps) for t in tables]
    joined = [
        OpRow(
            *key,
            sum(r.calls for _, r in same),
            sum(r.launches for _, r in same),
            sum(r.syncs for _, r in same),
            _joined([(i, p) for i, r in same for p in r.parts], widths),
        )
        for key, same in rows.items()
    ]
    idle = [(i, part) for i, table in enumerate(tables) for part in table.idle]
    names = dict.fromkeys(t.device_name for t in tables if t.device_name)
    first = tables[0]
    return OpTable(
        device_name=", ".join(names),
        device_type=first.device_type,
        world_size=next((t.world_size for t in tables if t.world_size is not None), None),
        ranks=tuple(sorted({r for t in tables for r in t.ranks})),
        stepped=all(t.stepped for t in tables),
        shapes_recorded=all(t.shapes_recorded for t in tables),
        steps=tuple(s for t in tables for s in t.steps),
        rows=tuple(sorted(joined, key=lambda r: (-r.total_ns, r.key))),
        idle=_joined(idle, widths),
        conditions=first.conditions,
    )


def _joined(parts: Iterable[tuple[int, Part]], widths: Sequence[int]) -> tuple[Part, ...]:
    """Parts of several tables as one each, with times for the steps of all tables."""
    same: dict[tuple[str, str], list[tuple[int, Part]]] = {}
    for i, part in parts:
        same.setdefault((part.kind, part.name), []).append((i, part))
    made = []
    for group in same.values():
        of = {i: part.ns for i, part in group}
        ns = tuple(t for i, n in enumerate(widths) for t in of.get(i, (0,) * n))
        first = group[0][1]
        made.append(
            Part(first.kind, first.name, sum(p.count for _, p in group),
                 sum(p.bytes for _, p in group), ns)
        )  # fmt: skip
    return _ordered(made)
