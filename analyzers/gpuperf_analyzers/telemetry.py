"""What a live run's NVML summary says: values, why there are none, and what it makes invalid.

A power cap that holds the clocks steady is the operating point of a board at full load: it is
said, and a limit on ``throttled`` can forbid it. What makes times worthless is another matter:
heat and hardware slowdowns, clocks that wander under the cap, other processes, errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gpuperf_analyzers.hardware import find_peak
from gpuperf_analyzers.hookspecs import Peak
from gpuperf_analyzers.live_block import LiveBlock
from gpuperf_analyzers.metrics import TELEMETRY, Metric, Value, absent
from gpuperf_analyzers.stats import median_value
from gpuperf_analyzers.trace.model import Finding

MOSTLY = 0.5
"""Share of samples above which a measurement is a throttled one."""
UNSTEADY = 0.1
"""Spread of the clock (90th less 10th percentile, over the median) above which it wanders."""
COARSE = 0.05
"""Uncertainty of the energy of a step from which on it is said."""
_REASON = "reason:"
_NO_THROTTLING = frozenset(
    {"gpu_idle", "application_clocks", "sync_boost", "display_clocks"}
)  # fmt: skip
_EXACT_UNITS = frozenset({"count", "bytes", "FLOP"})
_NOT_THERE = "the device has no such counter, or the driver does not tell it"


def telemetry_values(block: LiveBlock, peaks: Iterable[Peak], sms: int | None) -> Iterator[Value]:
    """One value for every metric of NVML's, present or absent; nothing on a CPU.

    Parameters
    ----------
    block
        The live run's own measurements.
    peaks
        Peaks to look the memory bandwidth up in, where NVML does not tell it.
    sms
        Multiprocessors of the device, which tell a partition from the whole.
    """
    if block.device_type == "cpu":
        return
    seen = _with_bandwidth(block, peaks, sms)
    for name in sorted(TELEMETRY):
        reason = block.telemetry_absent.get(name)
        if name == "step_cycles":
            yield _cycles(block)
        elif reason is None and "value" in seen.get(name, {}):
            yield _value(name, seen[name])
        else:
            yield absent(name, reason or block.telemetry_absent.get("", _NOT_THERE))


def _value(name: str, summary: Mapping[str, float]) -> Value:
    bounds = [f"{k} {summary[k]:g}" for k in ("min", "max") if k in summary]
    interval = None
    if name == "energy_per_step" and {"min", "max"} <= set(summary):
        # Not a spread of samples: what the counter's own grain leaves open.
        interval, bounds = (summary["min"], summary["max"]), ["by updates of the energy counter"]
    source = ", ".join(["DCGM" if summary.get("dcgm") else "NVML", *bounds])
    return Value(name, summary["value"], interval, int(summary.get("n", 1)), source)


def _with_bandwidth(
    block: LiveBlock, peaks: Iterable[Peak], sms: int | None
) -> Mapping[str, Mapping[str, float]]:
    """The summary, with the memory's bandwidth by the table where NVML gives only its share."""
    seen = block.telemetry
    active = seen.get("dram_active")
    if active is None or "dram_bandwidth" in seen:
        return seen
    peak = find_peak(block.device, peaks, sms=sms)
    if peak is None or peak.memory_gb_s is None:
        return seen
    gb_s = peak.memory_gb_s
    scaled = {key: active[key] * gb_s for key in ("value", "min", "max") if key in active}
    return {**seen, "dram_bandwidth": {**active, **scaled}}


def _cycles(block: LiveBlock) -> Value:
    """Time of a step in cycles of the clock it ran at: comparable where the clocks are not."""
    clock = block.telemetry.get("sm_clock", {}).get("value")
    if clock is None or "sm_clock" in block.telemetry_absent:
        absences = block.telemetry_absent
        return absent("step_cycles", absences.get("sm_clock", absences.get("", _NOT_THERE)))
    if not block.samples_us:
        return absent("step_cycles", "no samples were timed")
    cycles = [us * clock for us in block.samples_us]
    return median_value("step_cycles", cycles, f"samples x {clock:g} MHz, NVML")


def telemetry_findings(block: LiveBlock, metrics: Mapping[str, Metric]) -> tuple[Finding, ...]:
    """What the summary says of the measurement's worth.

    Parameters
    ----------
    block
        The live run's own measurements.
    metrics
        Every metric, of which a finding names those that it makes invalid.
    """
    timed = frozenset(
        name for name, m in metrics.items() if m.unit not in _EXACT_UNITS and name not in TELEMETRY
    )
    return (
        *_throttling(block, timed),
        *_others(block, timed),
        *_errors(block, timed, metrics),
        *_coarse_energy(block),
    )


def _count(block: LiveBlock, name: str) -> int:
    return int(block.telemetry.get(name, {}).get("value", 0))


def _share(block: LiveBlock, name: str) -> float:
    return block.telemetry.get(name, {}).get("value", 0.0)


def _throttling(block: LiveBlock, timed: frozenset[str]) -> Iterator[Finding]:
    throttled, slowed = _share(block, "throttled"), _share(block, "slowed")
    if not throttled:
        return
    samples = int(block.telemetry["throttled"].get("n", 1))
    held = {
        name.removeprefix(_REASON): summary.get("value", 0.0)
        for name, summary in block.telemetry.items()
        if name.startswith(_REASON) and name.removeprefix(_REASON) not in _NO_THROTTLING
    }
    largest = sorted(held.items(), key=lambda entry: -entry[1])
    reasons = ", ".join(f"{name} {100 * share:.0f}%" for name, share in largest if share)
    message = f"the clocks were held down in {100 * throttled:.0f}% of {samples} samples: {reasons}"
    wanders = _share(block, "clock_spread") > UNSTEADY
    if slowed > MOSTLY or (throttled > MOSTLY and wanders):
        # A low clock that is steady leaves cycles comparable; of one that wanders, the median is
        # not the clock that each sample ran at.
        invalid = timed | {"step_cycles"} if wanders else timed
        yield Finding("throttled", message, example=reasons, invalidates=invalid)
    elif throttled > MOSTLY:
        known = "clock_spread" in block.telemetry
        steady = "they were steady" if known else "whether they were steady is not known"
        yield Finding("power-capped", f"{message}; {steady}", example=reasons)
    else:
        yield Finding("partly-throttled", message, example=reasons)


def _others(block: LiveBlock, timed: frozenset[str]) -> Iterator[Finding]:
    users, contexts = _count(block, "other_users"), _count(block, "other_contexts")
    if users:
        yield Finding(
            "device-shared",
            f"{users} other process{'es' if users > 1 else ''} used the device meanwhile",
            users,
            invalidates=timed | TELEMETRY,
        )
    elif contexts:
        yield Finding(
            "other-context",
            f"{contexts} other process{'es' if contexts > 1 else ''} held the device open, "
            "and were not seen to use it",
            contexts,
        )


def _errors(
    block: LiveBlock, timed: frozenset[str], metrics: Mapping[str, Metric]
) -> Iterator[Finding]:
    if _count(block, "lost"):
        message = "the GPU was lost while it was measured"
        yield Finding("gpu-lost", message, invalidates=frozenset(metrics))
    for name in block.telemetry:
        if name.startswith("xid:"):
            number, count = name.removeprefix("xid:"), _count(block, name)
            message = f"the driver reported XID {number} while the workload was measured"
            yield Finding(
                "xid", message, count, example=number, invalidates=timed | {"step_cycles"}
            )
    uncorrected, corrected = _count(block, "ecc_uncorrected"), _count(block, "ecc_corrected")
    if uncorrected:
        message = f"{uncorrected} uncorrected memory errors (ECC) while it was measured"
        invalid = timed | {"step_cycles"}
        yield Finding("ecc-uncorrected", message, uncorrected, invalidates=invalid)
    if corrected:
        message = f"{corrected} memory errors (ECC) were corrected while it was measured"
        yield Finding("ecc-corrected", message, corrected)


def _coarse_energy(block: LiveBlock) -> Iterator[Finding]:
    energy = block.telemetry.get("energy_per_step", {})
    if "energy_per_step" in block.telemetry_absent or not {"value", "min", "max"} <= set(energy):
        return
    if not energy["value"]:
        return
    uncertain = (energy["max"] - energy["min"]) / 2 / energy["value"]
    if uncertain > COARSE:
        updates = int(energy.get("n", 0))
        message = (
            f"the energy counter was updated {updates} times in the window, which is short for it: "
            f"energy_per_step is known to within {100 * uncertain:.0f}%"
        )
        yield Finding("energy-window-short", message, updates)
