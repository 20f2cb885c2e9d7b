"""The sentences about one device: where its time went, and what else stands out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpuperf_analyzers.display import show
from gpuperf_analyzers.outliers import OutliersResult
from gpuperf_analyzers.summary.sentence import (
    Answered,
    Evidence,
    Sentence,
    Subject,
    named,
    percent,
    time,
    value_of,
)
from gpuperf_analyzers.summary.waiting import host_wait
from gpuperf_analyzers.thresholds import Thresholds
from gpuperf_analyzers.trace.parts import HOST_PARTS, Part


def time_sentences(device: Answered, who: Subject, limits: Thresholds) -> tuple[Sentence, ...]:
    """Where the time went: each part that passes its threshold, the largest first."""
    found: OutliersResult = device.results["outliers"]
    made = [
        host_wait(device, who, limits),
        _communication(device, found.share(Part.COMMUNICATION), who, limits),
        _copies(device, found.share(Part.COPIES), who, limits),
        _dependency(found.share(Part.DEPENDENCY), who, limits),
        _unknown(found.share(Part.UNKNOWN), who, limits),
        _compute(device, found.share(Part.COMPUTE), who, limits),
    ]
    return tuple(sorted((s for s in made if s is not None), key=lambda s: -s.share))


def other_sentences(device: Answered, who: Subject, limits: Thresholds) -> Iterator[Sentence]:
    """What is worth saying besides: the chip not filled, wrong units, slow steps, throttling."""
    for made in (
        _saturation(device, who, limits),
        _tensor_cores(device, who, limits),
        _slow_steps(device.results["outliers"]),
        _throttled(device, who, limits),
    ):
        if made is not None:
            yield made


def parts_in_words(found: OutliersResult) -> tuple[str, tuple[Evidence, ...]]:
    """``compute 61%, communication 9%, …`` of all that is a hundredth or more."""
    host = found.share(*HOST_PARTS)
    shares = [
        ("compute", found.share(Part.COMPUTE)),
        ("exposed communication", found.share(Part.COMMUNICATION)),
        ("waiting for the CPU" if found.device != "cpu" else "outside ops", host),
        ("exposed copies", found.share(Part.COPIES)),
        ("dependencies", found.share(Part.DEPENDENCY)),
        ("idle of unknown cause", found.share(Part.UNKNOWN)),
    ]
    told = [(name, share) for name, share in shares if share >= 0.01]
    text = ", ".join(f"{name} {percent(share)}" for name, share in told)
    return text, tuple(Evidence(name, share, "fraction") for name, share in told)


def _communication(
    device: Answered, share: float, who: Subject, limits: Thresholds
) -> Sentence | None:
    if share < limits.exposed_comm:
        return None
    calls = device.results["collectives"].calls
    exposed: dict[str, float] = {}
    for call in calls:
        exposed[call.kind] = exposed.get(call.kind, 0.0) + call.exposed_us
    text = f"communication that no compute hides takes {percent(share)} of {who.of}"
    evidence = [Evidence("exposed communication / step", share, "fraction")]
    total = sum(exposed.values())
    if total:
        kind = max(exposed, key=lambda k: exposed[k])
        name = "collectives of unknown kind" if kind == "unknown" else kind.replace("_", "-")
        part = exposed[kind] / total
        evidence.append(Evidence(f"exposed {name}", exposed[kind], "us"))
        text += f", {'all' if part >= 0.995 else percent(part)} of it {name}"
    overlap = value_of(device, "overlap")
    if overlap is not None:
        evidence.append(Evidence("overlap", overlap, "fraction"))
        text += (
            "; none of it runs beside compute" if not overlap
            else f"; {percent(overlap)} of all communication runs beside compute"
        )  # fmt: skip
    return Sentence("exposed-communication", _begin(text), tuple(evidence), share)


def _copies(device: Answered, share: float, who: Subject, limits: Thresholds) -> Sentence | None:
    if share < limits.exposed_copies:
        return None
    text = f"copies and fills that nothing hides take {percent(share)} of {who.of}"
    evidence = [Evidence("exposed copies / step", share, "fraction")]
    copies = device.results["host"].copies
    if copies:
        most = max(copies, key=lambda c: c.time)
        evidence.append(Evidence(most.name, most.time / 1e3, "us"))
        size = f", {show(most.bytes, 'bytes')}" if most.bytes else ""
        text += f", chiefly {named(most.name)} ({most.count:,} of them{size}"
        text += ": pin that memory)" if most.memory == "pageable" else ")"
    return Sentence("exposed-copies", _begin(text + "."), tuple(evidence), share)


def _dependency(share: float, who: Subject, limits: Thresholds) -> Sentence | None:
    if share < limits.dependency:
        return None
    text = (
        f"{who.name} is idle for {percent(share)} of {who.of} though its next work was launched: "
        "it waits for another stream or an event."
    )
    return Sentence(
        "dependency", _begin(text), (Evidence("dependency / step", share, "fraction"),), share
    )


def _unknown(share: float, who: Subject, limits: Thresholds) -> Sentence | None:
    if share < limits.unknown_idle:
        return None
    text = (
        f"{who.name} is idle for {percent(share)} of {who.of} before work without a launch "
        "record: the trace does not say why."
    )
    return Sentence(
        "unknown-idle", _begin(text), (Evidence("unknown idle / step", share, "fraction"),), share
    )


def _compute(device: Answered, share: float, who: Subject, limits: Thresholds) -> Sentence | None:
    if share < limits.compute_bound:
        return None
    text = f"{who.name} computes for {percent(share)} of {who.of}"
    evidence = [Evidence("compute / step", share, "fraction")]
    kernels: Sequence[Any] = device.results["kernels"].by_kernel
    if kernels:
        first = kernels[0]
        name = named(first.name)
        evidence.append(Evidence(f"share of {name}", first.share, "fraction"))
        kind = "op" if who.cpu else "kernel"
        text += (
            f", and {percent(first.share)} of that is the {kind} {name}"
            if first.share >= limits.one_kernel
            else f", spread over many {kind}s: the first, {name}, has {percent(first.share)}"
        )
    hfu = value_of(device, "hfu")
    if hfu is not None:
        evidence.append(Evidence("hfu", hfu, "fraction"))
        text += f"; it reaches {percent(hfu)} of the dense peak"
    return Sentence("compute-bound", _begin(text + "."), tuple(evidence), share)


def _saturation(device: Answered, who: Subject, limits: Thresholds) -> Sentence | None:
    """Utilization beside saturation: one thread in a loop is busy for 100% of the time."""
    found = device.results["saturation"]
    parts: OutliersResult = device.results["outliers"]
    # Communication fills no chip by design: a GPU busy with it has no need of larger batches.
    if parts.share(Part.COMPUTE) < limits.busy_enough or found.compute_occupancy is None:
        return None
    busy = parts.share(Part.COMPUTE, Part.COMMUNICATION, Part.COPIES)
    few = found.compute_part_filled
    low = found.compute_occupancy < limits.low_occupancy
    if not low and (few is None or few < limits.few_blocks):
        return None
    evidence = [
        Evidence("busy / step", busy, "fraction"),
        Evidence("occupancy of compute kernels", found.compute_occupancy, "fraction"),
    ]
    text = f"Busy for {percent(busy)} of {who.of} is not full: "
    if few is not None and few >= limits.few_blocks:
        evidence.append(Evidence("kernel time with fewer blocks than SMs", few, "fraction"))
        text += (
            f"{percent(few)} of compute is in kernels with fewer blocks than the GPU has "
            f"multiprocessors, at {percent(found.compute_occupancy)} estimated occupancy."
        )
    else:
        text += f"its kernels fill {percent(found.compute_occupancy)} of it (estimated occupancy)."
    return Sentence("not-filled", text, tuple(evidence))


def _tensor_cores(device: Answered, who: Subject, limits: Thresholds) -> Sentence | None:
    share = value_of(device, "tensor_core_share")
    if share is None or share >= limits.tensor_cores:
        return None
    found = device.results["tensor_cores"]
    whole = device.results["kernels"].kernel_time_us
    of_kernels = (found.tensor_us + found.plain_us) / whole if whole else 0.0
    product = of_kernels * device.results["outliers"].share(Part.COMPUTE)
    if product < limits.matrix_share:
        return None
    text = (
        f"Matrix products and convolutions take {percent(product)} of {who.of} and spend "
        f"{percent(share) if share else 'none'} of it on tensor cores."
    )
    return Sentence(
        "off-tensor-cores", text,
        (Evidence("tensor_core_share", share, "fraction"),
         Evidence("products / step", product, "fraction")),
    )  # fmt: skip


def _slow_steps(found: OutliersResult) -> Sentence | None:
    if not found.slow:
        return None
    first = found.slow[0]
    number = first.name.partition("#")[2]
    text = f"Step {number} takes {time(first.step_time_us)}, "
    text += f"{percent(first.excess)} longer than the median step"
    if first.part_us > 0:
        text += f": {time(first.part_us)} more {part_words(first.part)}"
    if len(found.slow) > 1:
        others = sorted(found.slow[1:], key=lambda s: s.index)
        shown = [s.name.partition("#")[2] for s in others[:4]]
        more = f" and {len(others) - 4} more" if len(others) > 4 else ""
        plural = "s" if len(others) > 1 else ""
        verb = "stand out too" if len(others) > 1 else "stands out too"
        text += f" (step{plural} {', '.join(shown)}{more} {verb})"
    return Sentence(
        "slow-steps", text + ".",
        (Evidence("slow_steps", float(len(found.slow)), "count"),
         Evidence(first.name, first.step_time_us, "us"),
         Evidence(f"{first.part.value}, over its median", first.part_us, "us")),
    )  # fmt: skip


def part_words(part: Part | str) -> str:
    """A part as a sentence says it."""
    return {
        Part.COMMUNICATION: "communication that no compute hides",
        Part.COPIES: "copies that nothing hides",
        Part.DATA: "waiting for the DataLoader",
        Part.SYNC: "idle time after synchronizations",
        Part.LAUNCHING: "idle time while launching",
        Part.OPS: "idle time while the host is in ops",
        Part.BETWEEN: "time outside of ops on the host",
        Part.DEPENDENCY: "waiting for other streams",
        Part.UNKNOWN: "idle time of unknown cause",
    }.get(Part(part), Part(part).value)


def _throttled(device: Answered, who: Subject, limits: Thresholds) -> Sentence | None:
    share = value_of(device, "throttled")
    if share is None or share < limits.throttled:
        return None
    text = f"{who.name} was throttled in {percent(share)} of the samples: its times are no measure."
    return Sentence("throttled", text, (Evidence("throttled", share, "fraction"),))


def _begin(text: str) -> str:
    """As the begin of a sentence, and with its end."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
