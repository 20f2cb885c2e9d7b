"""What only the live run knows, as one JSON block in the trace's metadata.

The recorder writes it with ``prof.add_metadata_json("gpuperf", …)``; the analysis merges it with
what the events say, so that a trace of ours is judged offline exactly as it was live. The block
comes from a file and is not trusted: every field is checked on the way in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from gpuperf_analyzers.memory_block import MemoryBlock, parse_memory_block

SCHEMA = 1
# 1: first version.


TIMERS: Mapping[str, str] = {
    "wall": "timed with the profiler off, wall clock",
    "event": "timed with the profiler off, event clock",
    "graph": "timed with the profiler off, events around replays of a CUDA graph",
    "kernel": "time with at least one kernel running, in profiled steps",
}
"""What each timer's samples are, by its name."""


@dataclass(frozen=True, slots=True)
class LiveBlock:
    """The live half's own measurements of one rank.

    Attributes
    ----------
    schema
        Version of this block's layout.
    name
        Name of the measurement (``name=`` of the fixture), "" for the first.
    device
        ``cpu`` or the driver's device name.
    device_type
        ``cpu``, ``cuda``.
    timer
        One of :data:`TIMERS`.
    l2
        A GPU's L2 cache before each sample as asked for: ``hot``, ``cold``; "" where nothing was.
    samples_us
        Time of each sample with the profiler off, µs per step.
    beside_us
        Times of the other callable of a pair, one for each of ``samples_us``, taken in turn with
        it; empty where nothing was timed beside.
    throttled_samples
        Places in ``samples_us`` (from 0) of what was timed while NVML reported a throttle reason.
    stop
        Why sampling ended: ``interval``, ``noise`` (settled, the interval out of reach),
        ``max_time``, ``samples``.
    warmup_us, warmup_calls, first_call_us
        What was spent before the first sample; the first call apart.
    steps
        Profiled steps asked for.
    flops
        FLOP per step, counted or declared; None where not counted.
    flops_by_dtype
        FLOP per step by dtype (``fp32``, ``bf16``, …) where known.
    flops_by_op
        FLOP per step by op (``aten::mm``) as counted, whatever was declared; empty where unknown.
    flops_source
        ``flop_counter``, ``declared`` or the reason that there are none.
    model_flops
        Declared model FLOP per step (``flops=``), for MFU.
    bytes_moved
        Bytes that one step moves, as declared; None where not declared.
    items, items_unit
        Items (``items``/``tokens``) per step, for throughput.
    alive_bytes
        Bytes of tensors alive when the profile began, by storage; None where unknown.
    peak_bytes
        Peak of allocated memory as the allocator told (CUDA); None on CPU.
    peak_reserved_bytes
        Peak of what the allocator held from the device meanwhile (CUDA); None on CPU.
    estimate_bytes
        Declared estimate of the step's peak memory (``estimate=``); None where not declared.
    tf32
        Whether float32 matmuls may use TF32; None where not applicable.
    peak_tflops
        Measured dense peak by dtype (CPU), empty where a table holds it.
    mamf_tflops
        Measured maximum matmul TFLOPS by dtype, where ``gpuperf mamf`` has found it.
    mamf_source
        Where each was found, in words, by dtype.
    regions
        Samples in µs of each region, profiler off.
    telemetry
        NVML summary: metric name to ``{"value", "n", "min", "max"}``; beside the metrics the
        conditions that :mod:`gpuperf_analyzers.telemetry` reads.
    telemetry_absent
        Why a metric of NVML's has no value, by its name.
    torch_counts
        Counts of torch's own over first call, warm-up and samples, by metric (``recompiles``).
    torch_counts_absent
        Why one of them is not known, by metric.
    torch_counts_later
        What the calls past the first added to them: 0 where only the first call compiled.
    memory
        Memory by category, where that was asked for; None where it was not.
    environment
        Versions and names (torch, CUDA, driver, python, host cores).
    notes
        Conditions said to the user (tracing debugger, coverage, …).
    """

    schema: int = SCHEMA
    name: str = ""
    device: str = "cpu"
    device_type: str = "cpu"
    timer: str = "wall"
    l2: str = ""
    samples_us: tuple[float, ...] = ()
    beside_us: tuple[float, ...] = ()
    throttled_samples: tuple[int, ...] = ()
    stop: str = ""
    warmup_us: float = 0.0
    warmup_calls: int = 0
    first_call_us: float = 0.0
    steps: int = 0
    flops: int | None = None
    flops_by_dtype: Mapping[str, int] = field(default_factory=dict)
    flops_by_op: Mapping[str, int] = field(default_factory=dict)
    flops_source: str = ""
    model_flops: int | None = None
    bytes_moved: int | None = None
    items: float | None = None
    items_unit: str = "items"
    alive_bytes: int | None = None
    peak_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    estimate_bytes: int | None = None
    tf32: bool | None = None
    peak_tflops: Mapping[str, float] = field(default_factory=dict)
    mamf_tflops: Mapping[str, float] = field(default_factory=dict)
    mamf_source: Mapping[str, str] = field(default_factory=dict)
    regions: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    telemetry: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    telemetry_absent: Mapping[str, str] = field(default_factory=dict)
    torch_counts: Mapping[str, int] = field(default_factory=dict)
    torch_counts_absent: Mapping[str, str] = field(default_factory=dict)
    torch_counts_later: Mapping[str, int] = field(default_factory=dict)
    memory: MemoryBlock | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The block as plain JSON types."""
        return asdict(self)


def parse_live_block(raw: object) -> LiveBlock:
    """The block found under ``gpuperf`` in a trace's metadata.

    Raises
    ------
    ValueError
        Not a block of ours, of a newer schema, or with a field of the wrong type.
    """
    if not isinstance(raw, Mapping):
        raise ValueError("the gpuperf block is not an object")
    schema = raw.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise ValueError("the gpuperf block has no schema number")
    if schema > SCHEMA:
        raise ValueError(f"the gpuperf block has schema {schema}, newer than {SCHEMA}: update")
    known = {f.name: f for f in fields(LiveBlock)}
    return LiveBlock(**{k: _checked(k, v) for k, v in raw.items() if k in known})


_STRINGS = {"l2", "name", "device", "device_type", "timer", "stop", "flops_source", "items_unit"}
_COUNTS = {"schema", "steps", "warmup_calls"}
_OPTIONAL_COUNTS = {
    "flops",
    "model_flops",
    "bytes_moved",
    "alive_bytes",
    "peak_bytes",
    "estimate_bytes",
    "peak_reserved_bytes",
}


def _checked(key: str, value: Any) -> Any:
    """`value` as the type of the field `key`; ValueError where it cannot be."""
    if key in _STRINGS:
        return _typed(key, value, str)
    if key in _COUNTS:
        return _count(key, value)
    if key in _OPTIONAL:
        return None if value is None else _OPTIONAL[key](key, value)
    if key in {"samples_us", "beside_us"}:
        return _numbers(key, value)
    if key == "throttled_samples":
        return tuple(_count(key, v) for v in _typed(key, value, list, tuple))
    if key in {"warmup_us", "first_call_us"}:
        return _number(key, value)
    if key == "notes":
        return tuple(_typed(key, v, str) for v in _typed(key, value, list, tuple))
    mapping = {_typed(key, k, str): v for k, v in _typed(key, value, Mapping).items()}
    return {k: _MAPPING_VALUE[key](key, v) for k, v in mapping.items()}


def _typed(key: str, value: Any, *types: type) -> Any:
    if not isinstance(value, types):
        raise ValueError(f"the gpuperf block's {key!r} is {type(value).__name__}")
    return value


def _count(key: str, value: Any) -> int:
    number = _number(key, value)
    if number != int(number):
        raise ValueError(f"the gpuperf block's {key!r} is not a whole number")
    return int(value)


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"the gpuperf block's {key!r} is {type(value).__name__}")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"the gpuperf block's {key!r} is {value}")
    return float(value)


def _numbers(key: str, value: Any) -> tuple[float, ...]:
    return tuple(_number(key, v) for v in _typed(key, value, list, tuple))


def _summary(key: str, value: Any) -> dict[str, float]:
    return {_typed(key, k, str): _number(key, v) for k, v in _typed(key, value, Mapping).items()}


_OPTIONAL: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(_OPTIONAL_COUNTS, _count),
    "items": _number,
    "tf32": lambda key, value: _typed(key, value, bool),
    "memory": lambda _, value: parse_memory_block(value),
}
_MAPPING_VALUE: dict[str, Callable[[str, Any], Any]] = {
    "flops_by_dtype": _count,
    "flops_by_op": _count,
    "peak_tflops": _number,
    "mamf_tflops": _number,
    "mamf_source": lambda key, value: _typed(key, value, str),
    "regions": _numbers,
    "telemetry": _summary,
    "torch_counts": _count,
    "torch_counts_later": _count,
    "torch_counts_absent": lambda key, value: _typed(key, value, str),
    "telemetry_absent": lambda key, value: _typed(key, value, str),
    "environment": lambda key, value: _typed(key, value, str),
}
