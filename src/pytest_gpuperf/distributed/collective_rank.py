"""What one rank does for the table of collectives: make each case, check it, time it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.ranks import RankContext
from pytest_gpuperf.session.ddp_child import GroupCoordinator, join_group, leave_group
from pytest_gpuperf.workloads.distributed.collective_calls import prepare

if TYPE_CHECKING:
    import torch

_WARMUPS = 5
_ROUND = 5
"""Samples between two questions whether there are enough."""
_FEWEST = 10
_MOST = 200
_TARGET = 0.02
"""Half-width of the interval, relative to the median, at which sampling stops."""
_PROBES = 51
_CUDA_CALLS = 20
"""Calls in a row that one sample times on a GPU: nccl-tests' default, so that the host's launch
and wait are spread over them."""


def run_collectives(context: RankContext, payload: Mapping[str, Any]) -> dict[str, Any]:
    """All cases of `payload` on this rank, in a process group of their own launch."""
    device, coordinator = join_group(context, payload)

    def tell(case: str) -> None:
        context.progress.stage(f"in {case}")

    seen = time_cases(coordinator, device, payload, tell)
    leave_group(context, coordinator)
    return seen


def time_cases(
    coordinator: GroupCoordinator,
    device: torch.device,
    payload: Mapping[str, Any],
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """What this rank saw of each case: starts and ends in ns on its own clock."""
    import torch

    from pytest_gpuperf.recording.devices import device_title

    seen: dict[str, Any] = {
        "clock": _clock(),
        "host": platform.node(),
        "device_name": device_title(device),
        "torch": str(torch.__version__),
        "probe_ends_ns": _probe(coordinator),
        "cases": [],
    }
    for case in payload["cases"]:
        tell(f"{case['op']} of {case['size']} B")
        seen["cases"].append(_case(coordinator, device, case, payload["max_time_s"]))
    return seen


def _clock() -> str:
    """Which clock ``perf_counter`` reads: one a boot of a machine, shared by its processes."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return boot.read_text().strip() if boot.exists() else platform.node()


def _probe(coordinator: GroupCoordinator) -> list[int]:
    """Ends of small all-reduces, which all ranks leave together, ns."""
    ends = []
    for _ in range(_PROBES):
        coordinator.any(False)
        ends.append(perf_counter_ns())
    return ends


def _case(
    coordinator: GroupCoordinator, device: torch.device, case: Mapping[str, Any], max_time_s: float
) -> dict[str, Any]:
    """One case on this rank; ``absent`` says why it has no numbers, on this rank or another."""
    reason, made, wrong = "", None, 0
    try:
        made = prepare(
            case["op"],
            coordinator.rank,
            coordinator.world_size,
            size=case["size"],
            dtype=case["dtype"],
            device=device,
        )
        made.fill()
        made.call()
        wrong = made.wrong()
    except (RuntimeError, ValueError, NotImplementedError, TypeError) as error:
        # What a backend lacks it says so on every rank; a rank that breaks alone stops the others
        # in the collective, and the time limit names it.
        reason = str(error).strip().partition("\n")[0][:300] or type(error).__name__
    if coordinator.any(bool(reason)) or made is None:
        return {"absent": reason or "another rank could not do it"}
    calls = _CUDA_CALLS if device.type == "cuda" else 1
    synchronize = _synchronize(device)
    for _ in range(_WARMUPS):
        made.call()
    synchronize()
    starts, ends = _samples(coordinator, made.call, synchronize, calls, max_time_s)
    return {
        "absent": "",
        "bytes": made.bytes,
        "elements": made.elements,
        "wrong": wrong,
        "calls": calls,
        "starts_ns": starts,
        "ends_ns": ends,
    }


def _synchronize(device: torch.device) -> Callable[[], object]:
    import torch

    return torch.cuda.synchronize if device.type == "cuda" else (lambda: None)


def _samples(
    coordinator: GroupCoordinator,
    call: Callable[[], object],
    synchronize: Callable[[], object],
    calls: int,
    max_time_s: float,
) -> tuple[list[int], list[int]]:
    """Starts and ends, as many on every rank: rank 0 decides between rounds."""
    starts: list[int] = []
    ends: list[int] = []
    begun = perf_counter_ns()
    while True:
        for _ in range(_ROUND):
            coordinator.barrier()
            starts.append(perf_counter_ns())
            for _ in range(calls):
                call()
            synchronize()
            ends.append(perf_counter_ns())
        over = perf_counter_ns() - begun > max_time_s * 1e9
        if coordinator.agree(_enough(starts, ends, over)):
            return starts, ends


def _enough(starts: list[int], ends: list[int], over: bool) -> bool:
    from gpuperf_analyzers.stats import median, median_interval

    if len(starts) < _FEWEST:
        return False
    if over or len(starts) >= _MOST:
        return True
    own = [end - start for start, end in zip(starts, ends, strict=True)]
    bounds = median_interval(own)
    return bounds is not None and bounds[1] - bounds[0] <= 2 * _TARGET * median(own)
