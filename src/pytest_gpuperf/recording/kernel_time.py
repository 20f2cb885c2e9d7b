"""Samples from a trace: in each step, the time during which at least one kernel ran."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.recording.coordination import Coordinator, share_count
from pytest_gpuperf.recording.errors import RecordingError
from pytest_gpuperf.recording.profiled import profile_steps
from pytest_gpuperf.recording.sampling import Samples, Workload

if TYPE_CHECKING:
    import torch

    from gpuperf_analyzers.trace.model import Trace
    from pytest_gpuperf.recording.options import Options

_NO_KERNEL = "gpuperf: timer='kernel': the trace shows no kernel on the device: take timer='wall'"
_FEWEST_STEPS, _MOST_STEPS = 8, 64


def kernel_samples(trace: Trace, device: int) -> tuple[float, ...]:
    """µs of each step of `trace` in which a kernel ran on `device`, copies not counted.

    Raises
    ------
    RecordingError
        The trace has no kernels.
    """
    from gpuperf_analyzers.intervals import clip, join, measure
    from gpuperf_analyzers.registry import load_config
    from gpuperf_analyzers.trace.classify import devices
    from gpuperf_analyzers.trace.selection import activity
    from gpuperf_analyzers.trace.steps import steps

    config = load_config()
    if device not in devices(trace):
        raise RecordingError(_NO_KERNEL)
    seen = activity(trace, device, config)
    kernels = join(seen.compute, seen.comm)
    if not measure(kernels):
        raise RecordingError(_NO_KERNEL)
    found = steps(trace, device, config)
    return tuple(measure(clip(kernels, s.start, s.end)) / 1e3 for s in found)


def take_kernel_samples(
    workload: Workload,
    device: torch.device,
    options: Options,
    call_us: float,
    coordinator: Coordinator,
) -> Samples:
    """Profile as many steps as fit into ``max_time_s``, from 8 to 64, and read their kernels.

    Raises
    ------
    RecordingError
        The workload ran no kernel.
    """
    from gpuperf_analyzers.trace.reader import read_trace

    fitting = int(options.max_time_s * 1e6 / max(call_us, 1.0))
    count = share_count(coordinator, max(_FEWEST_STEPS, min(_MOST_STEPS, fitting)))
    with tempfile.TemporaryDirectory(prefix="gpuperf-") as folder:
        path = Path(folder) / "kernels.pt.trace.json"
        profile_steps(
            workload,
            device=device,
            steps=count,
            metadata=lambda: json.dumps({}),
            path=path,
            barrier=coordinator.barrier,
        )
        samples = kernel_samples(read_trace(path), device.index or 0)
    return Samples(samples, "samples", 1)
