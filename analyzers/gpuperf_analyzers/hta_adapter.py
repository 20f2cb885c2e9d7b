"""Traces of ours as Holistic Trace Analysis has them, so that its notebooks go on working.

The columns are handed over as they were read: exact times, whole names, every GPU row with its
device's own stream, ranks as :func:`gpuperf_analyzers.read_traces` found them. HTA itself (extra
``hta``) is imported only when the hand-over is made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuperf_analyzers.trace.classify import Device, devices
from gpuperf_analyzers.trace.links import launches
from gpuperf_analyzers.trace.model import GPU_ACTIVITY, I32, I64, Category, Trace, TraceSet
from gpuperf_analyzers.trace.steps import host_steps

if TYPE_CHECKING:
    import pandas as pd
    from hta.trace_analysis import TraceAnalysis

_CATEGORIES = {
    Category.KERNEL: "kernel",
    Category.MEMCPY: "gpu_memcpy",
    Category.MEMSET: "gpu_memset",
    Category.CPU_OP: "cpu_op",
    Category.RUNTIME: "cuda_runtime",
    Category.DRIVER: "cuda_driver",
    Category.USER_ANNOTATION: "user_annotation",
    Category.GPU_USER_ANNOTATION: "gpu_user_annotation",
    Category.PYTHON_FUNCTION: "python_function",
}
"""What is handed over. HTA counts ``cuda_sync`` rows as busy time, so they are not."""


class HtaMissingError(ImportError):
    """HTA is not installed, or is a version that this adapter does not know."""


def to_hta(
    traces: TraceSet, *, device: int | None = None, only_linked: bool = False
) -> TraceAnalysis:
    """An HTA ``TraceAnalysis`` over `traces`, without a file read again.

    Parameters
    ----------
    traces
        From :func:`gpuperf_analyzers.read_traces`.
    device
        The device whose activity is handed over; needed where a trace has several, which HTA
        would merge.
    only_linked
        Whether GPU rows without a launch record are left out, as HTA does when it reads a trace
        of several steps. By default every row of every step is there.

    Returns
    -------
    hta.trace_analysis.TraceAnalysis
        Times in µs from the first event of the set: integers where the traces have whole
        microseconds, else floats exact to the nanosecond.

    Raises
    ------
    HtaMissingError
        HTA cannot be imported; says what to install.
    ValueError
        Two traces claim one rank, or a trace has several devices and none was chosen.
    """
    try:
        from hta.common.trace import Trace as HtaTrace
        from hta.common.trace_symbol_table import TraceSymbolTable
        from hta.trace_analysis import TraceAnalysis
    except ImportError as error:
        raise HtaMissingError(
            f"Holistic Trace Analysis cannot be imported ({error}): "
            'pip install "pytest-gpuperf[hta]"'
        ) from error
    ranks = _ranks(traces)
    symbols = TraceSymbolTable()
    symbols.add_symbols(_CATEGORIES.values())
    for trace in ranks.values():
        symbols.add_symbols(trace.strings[i] for i in np.unique(trace.events.name).tolist())
    target = HtaTrace(trace_files={})
    target.symbol_table = symbols
    target.trace_files = {rank: trace.path for rank, trace in ranks.items()}
    zero = min(trace.start_ns for trace in ranks.values())
    for rank, trace in ranks.items():
        chosen = _device(trace, device)
        target.traces[rank] = _frame(trace, chosen, zero, symbols.get_sym_id_map(), only_linked)
        target.meta_data[rank] = {**trace.metadata, "device_type": _device_type(trace)}
    target.is_parsed = True
    analysis: TraceAnalysis = TraceAnalysis.__new__(TraceAnalysis)  # its __init__ reads files
    analysis.t = target
    return analysis


def _ranks(traces: TraceSet) -> dict[int, Trace]:
    ranks: dict[int, Trace] = {}
    for index, trace in enumerate(traces.traces):
        rank = index if trace.rank is None else trace.rank
        if rank in ranks:
            raise ValueError(f"{ranks[rank].path} and {trace.path} both claim rank {rank}")
        ranks[rank] = trace
    if not ranks:
        raise ValueError("no traces to hand over: the set is empty")
    return ranks


def _device(trace: Trace, wanted: int | None) -> Device | None:
    found = devices(trace)
    if wanted is not None:
        if wanted not in found:
            raise ValueError(f"{trace.path}: no device {wanted}; it has {list(found)}")
        return wanted
    if len(found) > 1:
        raise ValueError(f"{trace.path}: several devices {list(found)}: choose one with device=")
    return found[0] if found else None


def _device_type(trace: Trace) -> str:
    """What HTA calls the kind of device."""
    calls = {trace.name_of(row) for row in trace.rows(Category.RUNTIME, Category.DRIVER).tolist()}
    return "AMD GPU" if any(name.startswith("hip") for name in calls) else "NVIDIA GPU"


def _frame(
    trace: Trace, device: Device | None, zero: int, symbols: dict[str, int], only_linked: bool
) -> pd.DataFrame:
    """The columns that HTA's parser makes; row i of ours has the index i + 1."""
    import pandas as pd

    e = trace.events
    gpu = np.isin(e.cat, np.array(GPU_ACTIVITY, dtype=np.int8))
    launch = launches(trace)
    keep = np.isin(e.cat, np.array(list(_CATEGORIES), dtype=np.int8))
    keep &= ~gpu | (e.device == device)
    if only_linked:
        keep &= ~gpu | (launch >= 0)
    rows = np.flatnonzero(keep)
    names = np.zeros(len(trace.strings), dtype=np.int64)
    used = np.unique(e.name)
    names[used] = [symbols[trace.strings[i]] for i in used.tolist()]
    categories = np.zeros(max(Category) + 1, dtype=np.int64)
    categories[list(_CATEGORIES)] = [symbols[name] for name in _CATEGORIES.values()]
    start = e.ts[rows] + (trace.start_ns - zero)
    # HTA's own analyses expect integers where a trace has whole microseconds.
    whole = not (start % 1000).any() and not (e.dur[rows] % 1000).any()
    frame = pd.DataFrame(
        {
            "index": rows + 1,  # HTA takes a linked row 0 for none
            "cat": categories[e.cat[rows]],
            "name": names[e.name[rows]],
            "pid": [trace.tracks[t][0] for t in e.track[rows].tolist()],
            "tid": [trace.tracks[t][1] for t in e.track[rows].tolist()],
            "ts": start // 1000 if whole else start / 1e3,
            "dur": e.dur[rows] // 1000 if whole else e.dur[rows] / 1e3,
            "stream": np.where(gpu[rows], e.stream[rows], -1),
            "correlation": e.correlation[rows],
            "index_correlation": _linked(trace, launch, keep)[rows],
            "iteration": _iterations(trace, launch)[rows],
            "external_id": e.external_id[rows],
            "python_id": -1,
            "python_parent_id": -1,
            "wait_on_stream": -1,
            "wait_on_cuda_event_record_corr_id": -1,
            **_arguments(trace, rows),
            **_collectives(trace, rows),
        }
    )
    frame["end"] = frame["ts"] + frame["dur"]
    return frame.set_index("index", drop=False).rename_axis(None)


def _linked(trace: Trace, launch: I64, keep: np.ndarray[Any, np.dtype[np.bool_]]) -> I64:
    """HTA's index of the call or activity at the other end; 0 for a lost one, -1 for none."""
    e = trace.events
    other = np.where(e.correlation > 0, 0, -1)
    gpu = np.flatnonzero((launch >= 0) & keep)
    other[gpu] = launch[gpu] + 1
    other[launch[gpu]] = gpu + 1
    return other


def _iterations(trace: Trace, launch: I64) -> I64:
    """Step number of each row by its own start, of GPU rows by their launch's; -1: none."""
    e = trace.events
    spans = host_steps(trace)
    at = np.where(launch >= 0, e.ts[launch], e.ts)
    index = np.searchsorted(e.ts[spans], at, side="right") - 1
    if not len(spans):
        return np.full(len(e), -1, dtype=np.int64)
    inside = (index >= 0) & (at < e.end[spans][np.maximum(index, 0)])
    numbers = np.array([int(trace.name_of(r).partition("#")[2]) for r in spans.tolist()])
    bare = np.isin(e.cat, np.array(GPU_ACTIVITY, dtype=np.int8)) & (launch < 0)
    return np.where(inside & ~bare, numbers[np.maximum(index, 0)], -1)


def _arguments(trace: Trace, rows: I64) -> dict[str, Any]:
    """Bytes and bandwidth of copies; shapes, types and strides of ops as HTA's lists."""
    e = trace.events
    size, length = e.bytes[rows], e.dur[rows]
    known = (size > 0) & (length > 0)
    return {
        "bytes": size,
        "memory_bw_gbps": np.where(known, size / np.maximum(length, 1), 0.0),
        "input_dims": _decoded(trace, e.dims[rows]),
        "input_type": _decoded(trace, e.dtypes[rows]),
        "input_strides": _decoded(trace, e.strides[rows]),
    }


def _decoded(trace: Trace, column: I32) -> list[Any]:
    """JSON text as the object that it means, each distinct text decoded once; -1 for none."""
    known = {index: _object(trace.strings[index]) for index in set(column.tolist()) if index >= 0}
    return [known.get(index, -1) for index in column.tolist()]


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _collectives(trace: Trace, rows: I64) -> dict[str, list[Any]]:
    """NCCL's metadata."""
    columns: dict[str, list[Any]] = {
        name: [default] * len(rows) for name, default, _ in _collective_fields()
    }
    for args in trace.collective_args:
        at = int(np.searchsorted(rows, args.row))
        if at < len(rows) and rows[at] == args.row:
            for name, default, field in _collective_fields():
                value = getattr(args, field) if field else trace.rank
                columns[name][at] = default if value is None else value
    return columns


def _collective_fields() -> Iterator[tuple[str, Any, str]]:
    """HTA's column, what stands for none, and our field ("" for the rank itself)."""
    yield from (
        ("collective_name", "", "name"),
        ("in_msg_nelems", 0, "in_elements"),
        ("out_msg_nelems", 0, "out_elements"),
        ("msg_dtype", "", "dtype"),
        ("group_size", 0, "group_size"),
        ("process_rank", -1, ""),
        ("in_split_size", "[]", "in_split"),
        ("out_split_size", "[]", "out_split"),
    )
