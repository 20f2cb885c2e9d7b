"""What a metric is, what a measured value is, and the one table of built-in metrics.

Marker keywords (``min_NAME``/``max_NAME``), JSON keys, table headers, ``gpuperf metrics``, the
command's options and the definitions page are all made from :data:`BUILTIN`. Standard library
only: this module is imported at pytest's collection.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Unit = Literal[
    "us", "fraction", "count", "bytes", "TFLOPS", "FLOP", "GB/s", "items/s", "W", "J",
    "celsius", "MHz", "x",
]  # fmt: skip
Better = Literal["higher", "lower"]
Scope = Literal["step", "window", "run"]

RATE_UNITS: frozenset[str] = frozenset({"TFLOPS", "GB/s"})
"""Units whose bare number means an accelerator; on a CPU such a limit is UNMEASURED."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One quantity that can be measured, shown and limited.

    Parameters
    ----------
    name
        Identifier in limits, JSON and tables, in the field's own terms.
    unit
        Unit of the stored value. Fractions are stored as 0..1 and shown as percent.
    better
        Which direction is an improvement; decides the worst of several ranks or devices.
    scope
        ``step``: one value a step; ``window``: over the whole recorded window; ``run``: once.
    aggregate
        How several steps or samples become one value, in words.
    formula
        One line, in the terms of the definitions page.
    source
        Where the definition comes from.
    cpu
        The analogue on a CPU run, ``same`` where the definition carries over, or ``no``.
    title
        Table header.
    cpu_title
        What the analogue counts, where that is something else than the name says.
    """

    name: str
    unit: Unit
    better: Better
    scope: Scope
    aggregate: str
    formula: str
    source: str
    cpu: str
    title: str
    cpu_title: str = ""


@dataclass(frozen=True, slots=True)
class Value:
    """One measured value of one metric, or its absence with the reason.

    ``value is None`` exactly when ``absent_reason`` is set. ``interval`` is the 95% confidence
    interval in the metric's unit, where the value was sampled; an exact count has none.
    ``at`` names the rank, device or step that the value belongs to, ``""`` for the whole.
    ``samples`` are the per-step values behind it where there are several.
    """

    name: str
    value: float | None
    interval: tuple[float, float] | None = None
    n: int = 1
    source: str = ""
    absent_reason: str | None = None
    at: str = ""
    samples: tuple[float, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        if (self.value is None) != (self.absent_reason is not None):
            raise ValueError(f"{self.name}: a value is either present or absent with a reason")


def absent(name: str, reason: str, *, source: str = "", at: str = "") -> Value:
    """A :class:`Value` that says why there is no number."""
    return Value(name, None, n=0, source=source, absent_reason=reason, at=at)


_DESIGN = "definitions page"


def _timeline(
    name: str, better: Better, formula: str, title: str, scope: Scope = "step", unit: Unit = "us"
) -> Metric:
    aggregate = "median of steps" if scope == "step" else "over the window"
    return Metric(name, unit, better, scope, aggregate, formula, _DESIGN, "same", title)


def _critical(name: str, what: str, cpu: str, title: str) -> Metric:
    formula = f"time on the step's critical path in {what}"
    return Metric(name, "us", "lower", "step", "median of steps", formula, _DESIGN, cpu, title)


def _nvml(
    name: str, unit: Unit, better: Better, aggregate: str, formula: str, title: str
) -> Metric:
    return Metric(name, unit, better, "run", aggregate, formula, "NVML", "no", title)


def _gpm(name: str, formula: str, title: str, unit: Unit = "fraction") -> Metric:
    source = "NVML, GPM counters (Hopper and newer)"
    return Metric(name, unit, "higher", "run", "over the window", formula, source, "no", title)


BUILTIN: tuple[Metric, ...] = (
    Metric("step_time", "us", "lower", "step", "median of samples",
           "length of a step: live, one timed call; in a trace, the step's GPU window",
           _DESIGN, "same (wall clock)", "step time"),
    Metric("step_time_p99", "us", "lower", "step", "99th percentile of samples",
           "the smallest sample that at least 99% of samples do not exceed",
           "nearest-rank percentile", "same (wall clock)", "step time p99"),
    Metric("slow_steps", "count", "lower", "window", "over the window",
           "steps that stand out: longer than the median step by 20% and by twice the spread "
           "below it (thresholds slow_step and slow_step_noise)", _DESIGN, "same", "slow steps"),
    Metric("slowest_step", "fraction", "lower", "window", "over the window",
           "longest step / median step, - 1", _DESIGN, "same", "slowest step"),
    Metric("straggler_lateness", "us", "lower", "step", "median of steps",
           "how long after the median of the others the latest rank starts the step's matched "
           "collectives, in all; without them, how much longer its step is", _DESIGN, "same",
           "straggler's lateness"),
    Metric("throughput", "items/s", "higher", "step", "median of samples",
           "items (or tokens) per step / step_time", _DESIGN, "same", "throughput"),
    Metric("bandwidth", "GB/s", "higher", "step", "median of samples",
           "bytes that a step must move (bytes=) / step_time", _DESIGN, "same", "bandwidth"),
    Metric("speedup", "x", "higher", "run", "median of paired samples",
           "time of the slower callable / time of the faster one, timed in turn", _DESIGN,
           "same", "speedup"),
    Metric("tflops", "TFLOPS", "higher", "step", "median of samples",
           "flops / step_time / 1e12, a multiply-add being 2 FLOP", _DESIGN, "same", "TFLOPS"),
    Metric("mfu", "fraction", "higher", "step", "median of samples",
           "sum over dtypes of model flops / dense peak, / step_time",
           "PaLM (Chowdhery et al., 2022), appendix B", "of the peak measured on this machine",
           "MFU"),
    Metric("hfu", "fraction", "higher", "step", "median of samples",
           "sum over dtypes of executed flops / dense peak, / step_time",
           "PaLM (Chowdhery et al., 2022), appendix B", "of the peak measured on this machine",
           "HFU"),
    Metric("mamf_share", "fraction", "higher", "step", "median of samples",
           "sum over dtypes of executed or declared flops / measured maximum matmul FLOPS, "
           "/ step_time", "the maximum that `gpuperf mamf` found and keeps",
           "same (measured on this machine)", "of MAMF"),
    Metric("flops", "FLOP", "lower", "step", "worst step",
           "sum of the named formulas over ops, innermost op with a formula counted once",
           "torch.utils.flop_counter; docs/definitions.md", "same", "FLOP"),
    Metric("flop_coverage", "fraction", "higher", "window", "over the window",
           "kernel time in ops with a FLOP formula / kernel time", _DESIGN,
           "op time instead of kernel time", "FLOP coverage"),
    _timeline("window", "lower", "first activity's start to the last one's end", "window",
              "window"),
    _timeline("busy", "higher", "union of all activity / window", "busy", "window", "fraction"),
    _timeline("busy_time", "lower", "union of all activity", "busy time"),
    _timeline("idle", "lower", "(window - busy) / window", "idle", "window", "fraction"),
    _timeline("idle_time", "lower", "window - union of all activity", "idle time"),
    _timeline("compute_time", "lower", "union of kernels that are not communication", "compute"),
    _timeline("comm_time", "lower", "union of communication kernels and peer-to-peer copies",
              "communication"),
    _timeline("memory_time", "lower", "union of memcpy and memset, peer-to-peer copies apart",
              "memory ops"),
    _timeline("exposed_comm", "lower", "|comm \\ compute|", "exposed comm"),
    _timeline("overlapped_comm", "higher", "|comm ∩ compute|", "overlapped comm"),
    _timeline("overlap", "higher", "|comm ∩ compute| / |comm|", "overlap", "window", "fraction"),
    _timeline("exposed_memory", "lower", "|memory \\ (comm ∪ compute)|", "exposed memory"),
    Metric("idle_host_bound", "us", "lower", "step", "median of steps",
           "part of gaps before the launch call of the next activity begins", _DESIGN, "no",
           "host-bound idle"),
    Metric("idle_launch_latency", "us", "lower", "step", "median of steps",
           "part of gaps from the launch call's begin to the activity's start", _DESIGN, "no",
           "launch-latency idle"),
    Metric("idle_dependency", "us", "lower", "step", "median of steps",
           "gaps whose next activity was launched before the gap began", _DESIGN, "no",
           "dependency idle"),
    Metric("idle_unknown", "us", "lower", "step", "median of steps",
           "gaps whose next activity has no launch record", _DESIGN, "no", "unknown idle"),
    _timeline("forward_time", "lower",
              "union of activity launched by ops that are neither backward nor optimizer",
              "forward"),
    _timeline("backward_time", "lower", "union of activity launched by the autograd engine",
              "backward"),
    _timeline("optimizer_time", "lower",
              "union of activity launched inside an Optimizer annotation", "optimizer"),
    Metric("overlap_slowdown", "fraction", "lower", "window", "over the window",
           "duration of compute kernels beside communication / at their median alone, - 1",
           _DESIGN, "no", "overlap slowdown"),
    Metric("kernel_launches", "count", "lower", "step", "worst step",
           "launch calls (cu*, hip*, Ex, graph launches) that begin in the step", _DESIGN,
           "op_calls: cpu_op events", "kernel launches", "op calls"),
    Metric("host_syncs", "count", "lower", "step", "worst step",
           "blocking runtime calls inside the step, each once", _DESIGN,
           "aten::_local_scalar_dense calls", "host syncs", "scalar reads"),
    Metric("host_to_device", "bytes", "lower", "step", "worst step",
           "bytes of host-to-device copies launched in the step", _DESIGN,
           "bytes that aten::copy_ writes", "host to device", "bytes copied"),
    Metric("device_to_host", "bytes", "lower", "step", "worst step",
           "bytes of device-to-host copies launched in the step", _DESIGN, "no",
           "device to host"),
    Metric("sync_time", "us", "lower", "step", "median of steps",
           "union of the host's blocking runtime calls", _DESIGN, "no", "sync time"),
    Metric("launch_latency", "us", "lower", "window", "median of launches",
           "activity's start - its launch call's begin, device idle and nothing queued", _DESIGN,
           "no", "launch latency"),
    Metric("queue_empty", "fraction", "lower", "window", "over the window",
           "time in which nothing launched waits to start / window", _DESIGN, "no",
           "queue empty"),
    Metric("dataloader_time", "us", "lower", "step", "median of steps",
           "union of enumerate(DataLoader) spans", _DESIGN, "same", "DataLoader wait"),
    _critical("critical_compute", "kernels that are not communication", "same: ops",
              "critical compute"),
    _critical("critical_comm", "communication", "same: gloo spans", "critical communication"),
    _critical("critical_memory", "copies and memsets", "no", "critical memory"),
    _critical("critical_launch", "launch calls, and from call to start on the device", "no",
              "critical launch"),
    _critical("critical_cpu", "the host's other work", "same: what is no op and no gloo span",
              "critical CPU"),
    _critical("critical_sync", "blocking calls, after what they waited for had ended", "same",
              "critical sync"),
    Metric("critical_coverage", "fraction", "higher", "step", "worst step",
           "explained time on the critical path / length of the step", _DESIGN, "same",
           "critical path coverage"),
    Metric("collectives", "count", "lower", "step", "worst step",
           "communication kernels launched in the step", _DESIGN, "gloo spans", "collectives"),
    Metric("collective_bytes", "bytes", "lower", "step", "worst step",
           "sum over collectives of the larger of input and output bytes",
           "nccl-tests, PERFORMANCE.md", "same", "collective bytes"),
    Metric("busbw", "GB/s", "higher", "window", "bytes-weighted over collectives",
           "S / t x factor of the collective, all ranks matched", "nccl-tests, PERFORMANCE.md",
           "same", "bus bandwidth"),
    Metric("peak_memory", "bytes", "lower", "run", "largest",
           "tensors alive at the start + the largest sum of allocations since", _DESIGN, "same",
           "peak memory"),
    Metric("peak_memory_growth", "bytes", "lower", "run", "largest",
           "largest sum of allocations minus frees since the recording began", _DESIGN, "same",
           "peak memory growth"),
    *(
        Metric(f"{name}_memory", "bytes", "lower", "run", "largest over the profiled steps",
               formula, _DESIGN, "same", f"{name} memory")
        for name, formula in (
            ("parameter", "parameters and buffers of modules, leaves that require a gradient"),
            ("gradient", "gradients of parameters (.grad)"),
            ("optimizer", "tensors in the state of optimizers"),
            ("activation", "made from parameters by a forward pass, alive when a backward begins"),
            ("input", "what the step was given or reads, and makes without parameters for them"),
            ("temporary", "everything else that the steps allocate"),
            ("unknown", "alive before the steps, owned by nothing known and not read by them"),
        )
    ),
    Metric("memory_growth", "bytes", "lower", "run", "Theil-Sen slope over steps",
           "median of the slopes of all pairs of memory levels after a step, a step", "Sen (1968)",
           "same", "memory growth per step"),
    Metric("reserved_over_allocated", "x", "lower", "run", "largest of each",
           "peak of memory reserved by the allocator / peak of memory allocated",
           "torch.cuda.memory_stats", "no", "reserved over allocated"),
    Metric("allocations", "count", "lower", "step", "worst step",
           "allocations that begin in the step", "[memory] events (profile_memory=True)", "same",
           "allocations"),
    Metric("over_estimate", "fraction", "lower", "run", "largest",
           "peak_memory / declared estimate (estimate=) - 1; below 0 where it takes less", _DESIGN,
           "same", "over the estimate"),
    Metric("first_call", "us", "lower", "run", "one call",
           "wall time of the first call: compilation, autotuning and set-up are in it", _DESIGN,
           "same", "first call"),
    Metric("graph_breaks", "count", "lower", "run", "over first call, warm-up and samples",
           "places where torch.compile split the workload's graph", "torch._dynamo's counters",
           "same", "graph breaks"),
    Metric("recompiles", "count", "lower", "run", "over first call, warm-up and samples",
           "compilations of code that had been compiled before", "torch._dynamo's counters",
           "same", "recompiles"),
    Metric("allocator_retries", "count", "lower", "run", "over first call, warm-up and samples",
           "allocations that succeeded only after the allocator had freed its cache",
           "torch.cuda.memory_stats, num_alloc_retries", "no", "allocator retries"),
    Metric("short_kernels", "fraction", "lower", "window", "over the window",
           "kernels shorter than 10 µs / kernels", _DESIGN, "no", "short kernels"),
    Metric("launch_bound", "fraction", "lower", "window", "over the window",
           "kernel time of op calls that take the host longer than the device / of all op calls",
           _DESIGN, "no", "launch-bound"),
    Metric("tensor_core_share", "fraction", "higher", "window", "over the window",
           "time of products whose kernel names say tensor cores / whose names tell",
           "names that cuBLAS, cuDNN, CUTLASS, rocBLAS, MIOpen write", "no", "tensor cores"),
    Metric("est_occupancy", "fraction", "higher", "window", "time-weighted over kernels",
           "sum of est. achieved occupancy x duration / sum of duration",
           "Kineto's launch-geometry estimate", "no", "est. occupancy"),
    Metric("few_blocks", "fraction", "lower", "window", "time-weighted over kernels",
           "time of kernels with fewer blocks than multiprocessors / of those that record blocks",
           "CUDA programming guide: a block runs on one multiprocessor", "no", "few blocks"),
    Metric("tail_efficiency", "fraction", "higher", "window", "time-weighted over kernels",
           "waves / ceil(waves), waves = blocks / multiprocessors; a lower bound",
           "waves of equal blocks, one at a time on each multiprocessor", "no", "tail efficiency"),
    _nvml("gpu_util", "fraction", "higher", "mean of samples",
          "share of time with at least one kernel, as NVML reads it", "GPU-Util"),
    _nvml("sm_clock", "MHz", "higher", "median of samples", "SM clock", "SM clock"),
    _nvml("power", "W", "lower", "mean of samples", "board power", "power"),
    _nvml("temperature", "celsius", "lower", "largest", "GPU temperature", "temperature"),
    _nvml("throttled", "fraction", "lower", "share of samples",
          "samples with a thermal, power or hardware clock-event reason", "throttled"),
    _nvml("clock_drop", "fraction", "lower", "median of samples",
          "1 - SM clock / highest SM clock of the board, or of the window where clocks were set",
          "clock drop"),
    _nvml("step_cycles", "count", "lower", "median of samples x median clock",
          "step_time x SM clock", "SM cycles"),
    _nvml("energy_per_step", "J", "lower", "mean over the loop",
          "mean power between updates of the energy counter x time of a call", "energy per step"),
    _nvml("memory_used", "bytes", "lower", "largest", "device memory in use by all processes",
          "memory used"),
    _nvml("pcie_rx", "GB/s", "higher", "mean of samples", "bytes into the GPU over PCIe / time",
          "PCIe in"),
    _nvml("pcie_tx", "GB/s", "higher", "mean of samples", "bytes out of the GPU over PCIe / time",
          "PCIe out"),
    _nvml("nvlink_rx", "GB/s", "higher", "over the window", "bytes into the GPU over NVLink / time",
          "NVLink in"),
    _nvml("nvlink_tx", "GB/s", "higher", "over the window",
          "bytes out of the GPU over NVLink / time", "NVLink out"),
    _gpm("sm_active", "multiprocessors with a warp, over time / multiprocessors", "SM active"),
    _gpm("sm_occupancy", "resident warps, over time / most that fit", "SM occupancy"),
    _gpm("tensor_active", "time in which tensor cores work / time", "tensor active"),
    _gpm("dram_active", "device memory traffic / its theoretical peak", "DRAM active"),
    _gpm("dram_bandwidth", "dram_active x bus width x memory clock x 2", "DRAM bandwidth", "GB/s"),
    _gpm("fp64_active", "time in which the FP64 pipes work / time", "FP64 active"),
    _gpm("fp32_active", "time in which the FP32 pipes work / time", "FP32 active"),
    _gpm("fp16_active", "time in which the FP16 pipes work / time", "FP16 active"),
)  # fmt: skip
"""Every built-in metric, in the order of tables."""

MEMORY_BY_CATEGORY: tuple[str, ...] = (
    "parameter_memory", "gradient_memory", "optimizer_memory", "activation_memory",
    "input_memory", "temporary_memory", "unknown_memory",
)  # fmt: skip
"""Metrics of a live run's pass that gives every byte a category."""
MEMORY_LIMITS: frozenset[str] = frozenset(
    {*MEMORY_BY_CATEGORY, "peak_memory", "peak_memory_growth", "memory_growth"}
)
"""Metrics whose limits want that pass: judged by it, or explained by it."""

TELEMETRY: frozenset[str] = frozenset(m.name for m in BUILTIN if m.source.startswith("NVML"))
"""Metrics that NVML's counters give while a live run is sampled."""
