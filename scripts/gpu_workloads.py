"""The GPU side of the workloads, for ``gpu_check.py``: each is checked, then timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_gpuperf import ratio, workloads
from pytest_gpuperf.workloads import UnavailableError, Workload
from pytest_gpuperf.workloads.one_thread import saturation
from pytest_gpuperf.workloads.product_kernels import VARIANTS

_NEARLY_ALL = 0.9
_AS_FEW = 2.0
"""How far above 1 / multiprocessors a counter that averages may read."""


def chosen(*, large: bool) -> list[Workload]:
    """One of each kind: of sizes that fill a GPU, or of such as a CPU does in no time."""
    w = workloads
    side, kernels, rows, n = (4096, 2048, 2048, 1 << 26) if large else (64, 16, 64, 1 << 12)
    dtype = "bf16" if large else "fp32"
    made = [w.matmul(side, side, side, dtype=d) for d in (dtype, "fp8")]
    made += [w.attention(2, 8, rows, 64, dtype=dtype, backend=b) for b in ("flash", "materialized")]
    made += [w.elementwise(n, form=f) for f in ("eager", "builtin", "triton")]
    made += [w.copy(n, kind=k) for k in (("fill", "read", "copy", "triad") if large else ("copy",))]
    made += [w.host_to_device(n, pinned=pinned) for pinned in (True, False)]
    channels = 256 if large else 8
    made += [w.convolution(16, channels, channels, 28), w.depthwise(16, channels, 28)]
    width = 1024 if large else 32
    made += [w.mlp(side, side, side, dtype=dtype), w.transformer_layer(2, rows, width, 16)]
    made += [
        w.training_step(p, batch=width, width=width, hidden=4 * width)
        for p in (("fp32", "fp16", "bf16", "fp8") if large else ("fp32", "fp16"))
    ]
    for variant in VARIANTS if large else VARIANTS[:1]:
        sizes = (kernels, kernels, kernels)
        made += [w.matmul_kernel(variant, *sizes, language=lang) for lang in ("cuda", "triton")]
    return made


def workload_set(check: Any) -> dict[str, Any]:
    """Error, time, TFLOPS and GB/s of each, and what the fused forms gain."""
    found: dict[str, Any] = {}
    for workload in chosen(large=check.device.type == "cuda"):
        try:
            found[workload.name] = _measured(check, workload)
        except UnavailableError as error:  # noqa: PERF203 - each stands on its own
            check.missing[workload.name] = str(error)
    found["gains"] = _gains(check)
    return found


def _measured(check: Any, workload: Workload) -> dict[str, Any]:
    prepared = workload.on(check.device)
    error = None if prepared.check is None else prepared.check()
    if prepared.untimed:
        raise UnavailableError(prepared.untimed)
    options = {"warmup_s": 0.01, "max_time_s": 0.02} if check.quick else {"max_time_s": 0.3}
    block = check.record(workload.name, prepared.step, steps=1, **options)
    us = sorted(block["samples_us"])[len(block["samples_us"]) // 2]
    return {
        "error_over_allowed": error,
        "us": us,
        "tflops": workload.flops / us / 1e6 if workload.flops else None,
        "gb_s": workload.bytes / us / 1e3 if workload.bytes else None,
        "notes": workload.notes,
    }


def _gains(check: Any) -> dict[str, Any]:
    """Each pair timed in turn: the first over the second."""
    w, n = workloads, 1 << (26 if check.device.type == "cuda" else 12)
    warmup, max_time = ("10ms", "20ms") if check.quick else ("100ms", "300ms")
    pairs: dict[str, Callable[[], tuple[Workload, Workload]]] = {
        "triton elu over eager": lambda: (w.elementwise(n, form="triton"), w.elementwise(n)),
        "builtin elu over eager": lambda: (w.elementwise(n, form="builtin"), w.elementwise(n)),
        "depthwise over full": lambda: (w.depthwise(4, 64, 28), w.convolution(4, 64, 64, 28)),
    }
    if check.device.type == "cuda":  # on a CPU compiling takes longer than this whole part
        pairs |= {
            "compiled elu over eager": lambda: (
                w.elementwise(n, form="compiled"), w.elementwise(n),
            ),
            "fused chain over unfused": lambda: (
                w.pointwise_chain(n, fused=True), w.pointwise_chain(n),
            ),
        }  # fmt: skip
    found: dict[str, Any] = {}
    for name, pair in pairs.items():
        try:
            measured = ratio(
                *pair(), device=str(check.device), warmup=warmup, max_time=max_time, steps=1
            )
        except UnavailableError as error:
            check.missing[name] = str(error)
            continue
        speedup = measured["speedup"]
        found[name] = {"speedup": speedup.value, "interval": speedup.interval}
    return found


def one_thread(check: Any) -> dict[str, Any]:
    """One thread that counts: NVML's utilization near 100%, one multiprocessor of all at work."""
    step = workloads.spin().on(check.device).step
    block = check.record("one-thread", step, counters_s=1.5)
    told = {
        name: block["telemetry"].get(name, {}).get("value")
        for name in ("gpu_util", "sm_active", "sm_occupancy")
    }
    expected = saturation(check.device)
    for name, value in told.items():
        if value is None:
            why = block["telemetry_absent"].get(name, "the driver does not tell it")
            check.missing[f"counter {name}"] = why
    verdict = one_thread_verdict(told, expected)
    if verdict:
        raise RuntimeError(verdict)
    return {**told, "expected_sm_active": expected}


def one_thread_verdict(told: dict[str, float | None], expected: float) -> str:
    """What of the counters is not as one thread makes it; "" where nothing is."""
    util, active = told.get("gpu_util"), told.get("sm_active")
    if util is not None and util < _NEARLY_ALL:
        return f"gpu_util reads {util:.1%} while one kernel runs all the time"
    # Counters come in whole percents.
    if active is not None and active > _AS_FEW * expected + 0.01:
        return f"sm_active reads {active:.1%}, and one thread fills {expected:.1%}"
    return ""
