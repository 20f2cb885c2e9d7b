"""The values that only a live run knows, made from its block in the trace.

Where a trace carries such a block, these stand in place of what the events say: they were
measured with the profiler off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpuperf_analyzers.hardware import find_peak, peak_tflops
from gpuperf_analyzers.hookspecs import Peak
from gpuperf_analyzers.live_block import TIMERS, LiveBlock
from gpuperf_analyzers.live_memory import memory_values
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.stats import median_value, p99_value
from gpuperf_analyzers.telemetry import telemetry_values

SOURCE = "timed with the profiler off"
TORCH_COUNTS = ("graph_breaks", "recompiles", "allocator_retries")
"""Metrics that torch counts by itself while a live run calls the workload."""
MAMF_DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8")
"""Dtypes whose maximum ``gpuperf mamf`` measures."""
_US = 1e6


def live_values(
    block: LiveBlock,
    *,
    peaks: Iterable[Peak],
    growth_bytes: float | None = None,
    recomputation: str | None = None,
    sms: int | None = None,
) -> dict[str, Value]:
    """Values by metric that the block decides; a metric that it says nothing of is left out.

    Parameters
    ----------
    block
        The live run's own measurements.
    peaks
        Dense peaks to look the device up in; a CPU's are in the block.
    growth_bytes
        Largest growth of allocated memory in the trace's events, None where it has none.
    recomputation
        Why executed FLOPs are more than the model's (activation checkpointing was seen), None
        where nothing speaks for it.
    sms
        Multiprocessors of the device, which tell a partition from the whole.
    """
    values = [*_times(block), *_flop_rates(block, peaks, recomputation, sms)]
    values += [*_memory(block, growth_bytes), *memory_values(block), *_counts(block)]
    values += telemetry_values(block, peaks, sms)
    return {value.name: value for value in values}


def _times(block: LiveBlock) -> Iterator[Value]:
    samples = block.samples_us
    if not samples:
        return
    source = TIMERS.get(block.timer, f"{SOURCE}, {block.timer} clock")
    if block.l2 and block.device_type != "cpu":
        source += f", {block.l2} L2 cache"
    yield median_value("step_time", samples, source)
    yield p99_value("step_time_p99", samples, source)
    if block.beside_us:
        yield _speedup(block, source)
    if block.bytes_moved is None:
        yield absent("bandwidth", "no bytes= declared for a step")
    elif min(samples) > 0:
        yield _rate("bandwidth", block.bytes_moved / 1e3, samples, f"declared bytes, {source}")
    if block.items is None:
        yield absent("throughput", "no items= or tokens= declared for a step")
    elif min(samples) > 0:
        yield _rate("throughput", block.items * _US, samples, f"{block.items_unit}, {source}")


def _speedup(block: LiveBlock, source: str) -> Value:
    """Median of the pairs' ratios: what a pair shares, drift and clocks, is in both of its times.

    Of ratios, where every other rate is of medians: the interval is then that of the pairs, and
    needs no word on how the two sides vary.
    """
    pairs = tuple(zip(block.beside_us, block.samples_us, strict=False))
    if len(block.beside_us) != len(block.samples_us):
        return absent("speedup", "the two sides of the pairs are not equally many")
    if min(min(pair) for pair in pairs) <= 0:
        return absent("speedup", "the clock does not resolve a call")
    return median_value("speedup", [slow / fast for slow, fast in pairs], f"paired, {source}")


def _counts(block: LiveBlock) -> Iterator[Value]:
    """The first call's cost, and what torch counted by itself."""
    if block.first_call_us > 0:
        yield Value("first_call", block.first_call_us, source="wall clock, the first call")
    for name in TORCH_COUNTS:
        if name in block.torch_counts:
            yield Value(name, float(block.torch_counts[name]), source="torch's own counters")
        else:
            reason = block.torch_counts_absent.get(name, "not counted by this recording")
            yield absent(name, reason)


def _flop_rates(
    block: LiveBlock, peaks: Iterable[Peak], recomputation: str | None, sms: int | None
) -> Iterator[Value]:
    if not block.flops:
        reason = block.flops_source or "no FLOPs were counted"
        yield from (absent(name, reason) for name in ("flops", "tflops", "hfu", "mamf_share"))
        if not block.model_flops:
            yield absent("mfu", reason)
            return
    else:
        yield Value("flops", float(block.flops), source=block.flops_source)
        if block.samples_us and min(block.samples_us) > 0:
            source = f"{block.flops_source}, {SOURCE}"
            yield _rate("tflops", block.flops / _US, block.samples_us, source)
    if block.flops:
        yield mamf_share(block)
    ideal = _ideal_us(block, peaks, sms)
    declared = block.flops_source == "declared"
    yield _share("hfu", block, "FLOPs were declared, not counted" if declared else ideal)
    if block.model_flops is None and recomputation is not None:
        yield absent("mfu", f"{recomputation}: declare the model's FLOPs with flops=")
    else:
        yield _share("mfu", block, ideal)


def mamf_share(block: LiveBlock) -> Value:
    """FLOPs over the measured maximum of each one's dtype, over the samples.

    Absent, with the command that measures it, where the maximum of a dtype is not kept.
    """
    if not block.flops_by_dtype:
        return absent("mamf_share", "the dtype of the FLOPs is not known: say dtype=")
    if not block.samples_us or min(block.samples_us) <= 0:
        return absent("mamf_share", "no samples were timed")
    ideal = 0.0
    for dtype, flops in block.flops_by_dtype.items():
        tflops = block.mamf_tflops.get(dtype)
        if not tflops:
            threads = block.environment.get("threads")
            reason = no_maximum(block.device, block.device_type, dtype, threads)
            return absent("mamf_share", reason)
        ideal += flops / (tflops * _US)
    maxima = "; ".join(
        f"{dtype}: {block.mamf_source.get(dtype, f'{block.mamf_tflops[dtype]:.4g} TFLOPS')}"
        for dtype in block.flops_by_dtype
    )
    source = f"{block.flops_source} over the measured maximum ({maxima}), {SOURCE}"
    return _rate("mamf_share", ideal, block.samples_us, source)


def no_maximum(device: str, device_type: str, dtype: str, threads: int | str | None) -> str:
    """Why there is no maximum of `device`, and the command that measures it.

    `threads` are torch's on a CPU, where a maximum holds for their number.
    """
    if dtype not in MAMF_DTYPES:
        return f"`gpuperf mamf` measures {', '.join(MAMF_DTYPES)}, not {dtype}"
    command = f"gpuperf mamf --dtype {dtype}"
    where = device
    if device_type == "cpu":
        command += " --device cpu"
        if threads:
            command = f"OMP_NUM_THREADS={threads} {command}"
            where = f"{device} with {threads} threads"
    return f"no maximum of {where} is kept for {dtype} and this torch: run `{command}`"


def _share(name: str, block: LiveBlock, ideal_us: float | str) -> Value:
    """Share of the peak over the samples, or its absence where `ideal_us` is a reason."""
    if isinstance(ideal_us, str):
        return absent(name, ideal_us)
    if not block.samples_us or min(block.samples_us) <= 0:
        return absent(name, "no samples were timed")
    peak = "measured peak" if block.device_type == "cpu" else "dense peak from the table"
    source = f"{block.flops_source} over the {peak}, {SOURCE}"
    return _rate(name, ideal_us, block.samples_us, source)


def _rate(name: str, work: float, samples_us: Sequence[float], source: str) -> Value:
    """`work` over the median step, and over the ends of its interval.

    Not the median of rates, which of an even number of samples is another: what is shown is what
    the shown step time gives.
    """
    time = median_value("step_time", samples_us)
    assert time.value is not None  # noqa: S101 - the median of samples is a number
    ends = None if time.interval is None else (work / time.interval[1], work / time.interval[0])
    rates = tuple(work / us for us in samples_us)
    return Value(name, work / time.value, ends, len(rates), source, samples=rates)


def _ideal_us(block: LiveBlock, peaks: Iterable[Peak], sms: int | None) -> float | str:
    """Time of the FLOPs at the peak of each one's dtype, µs; or the reason that none is known."""
    if not block.flops_by_dtype:
        return "the dtype of the FLOPs is not known: say dtype="
    found: Mapping[str, float] = block.peak_tflops
    where = "no peak was measured on this CPU"
    if block.device_type != "cpu":
        peak = find_peak(block.device, peaks, sms=sms)
        if peak is None:
            return undeclared_peak(block.device)
        found = {d: t for d in block.flops_by_dtype if (t := peak_tflops(peak, d)) is not None}
        where = f"no dense peak of {block.device} is known"
    ideal = 0.0
    for dtype, flops in block.flops_by_dtype.items():
        tflops = found.get(dtype)
        if not tflops:
            return f"{where} for {dtype}"
        ideal += flops / (tflops * _US)
    return ideal


def undeclared_peak(device: str) -> str:
    """Why there is no share of peak for an unknown `device`, and the mend."""
    return (
        f"no dense peak of {device!r} is known: declare one with the hook gpuperf_peaks "
        "(gpuperf_analyzers.hookspecs.Peak)"
    )


def _memory(block: LiveBlock, growth_bytes: float | None) -> Iterator[Value]:
    for value in _peak_memory(block, growth_bytes):
        yield value
        yield _over_estimate(block, value)


def _over_estimate(block: LiveBlock, peak: Value) -> Value:
    """How far the peak is above what was declared to be enough."""
    if not block.estimate_bytes:
        return absent("over_estimate", "no estimate= declared for a step")
    if peak.value is None:
        return absent("over_estimate", peak.absent_reason or "the peak is not known")
    return Value(
        "over_estimate", peak.value / block.estimate_bytes - 1, source=f"declared, {peak.source}"
    )


def _peak_memory(block: LiveBlock, growth_bytes: float | None) -> Iterator[Value]:
    if block.peak_bytes is not None:
        yield Value("peak_memory", float(block.peak_bytes), source="the allocator's own peak")
    elif block.alive_bytes is None:
        yield absent("peak_memory", "the bytes alive at the start were not counted")
    elif growth_bytes is None:
        yield absent("peak_memory", "the trace has no memory events (profile_memory=True)")
    else:
        total = block.alive_bytes + growth_bytes
        yield Value("peak_memory", total, source="alive at the start + growth in the trace")
