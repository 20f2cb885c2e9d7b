"""Which devices a trace shows, and which of their kernels are communication."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import numpy as np

from gpuperf_analyzers.config import Config
from gpuperf_analyzers.hookspecs import CommClassifier
from gpuperf_analyzers.trace.model import GPU_ACTIVITY, I64, Bool, Category, Finding, Trace

Device = int | Literal["cpu"]

_ACCELERATOR = (
    *GPU_ACTIVITY,
    Category.RUNTIME,
    Category.DRIVER,
    Category.GPU_USER_ANNOTATION,
    Category.SYNC,
    Category.MTIA,
    Category.COUNTER_RANGE,
    Category.OLD_MEMORY,
)

_LIBRARIES = re.compile(r"nccl|rccl|hccl|nvshmem|deep_?ep\b|deep_ep|mscclpp", re.IGNORECASE)
# Reductions inside a block or warp carry "AllReduce" in their names too, so custom collectives
# are told by the whole of their kernels' names.
_CUSTOM = re.compile(
    r"multimem_(all|reduce)|(one|two)_?shot_?all_?reduce|cross_device_reduce"
    r"|allreduce_fusion_kernel|allreduce_prototype",
    re.IGNORECASE,
)

STEP_NAME = re.compile(r"ProfilerStep#(\d+)")


def is_library_collective(name: str) -> bool:
    """Kernels of NCCL, RCCL, HCCL, NVSHMEM, DeepEP and MSCCL++."""
    return _LIBRARIES.search(name) is not None


def is_custom_collective(name: str) -> bool:
    """All-reduce kernels of PyTorch's symmetric memory and of inference engines."""
    return _CUSTOM.search(name) is not None


BUILTIN_CLASSIFIERS: tuple[CommClassifier, ...] = (is_library_collective, is_custom_collective)


def comm_mask(trace: Trace, config: Config) -> Bool:
    """Mask over events: GPU kernels that are communication, by the classifiers of `config`."""
    cached = trace.memo.get("comm_mask")
    if cached is not None and cached[0] == config.comm_classifiers:
        mask: Bool = cached[1]
        return mask
    events = trace.events
    kernels = np.flatnonzero(events.cat == Category.KERNEL)
    mask = np.zeros(len(events), dtype=np.bool_)
    mask[kernels] = names_mask(
        trace, kernels, lambda name: any(test(name) for test in config.comm_classifiers)
    )
    trace.memo["comm_mask"] = (config.comm_classifiers, mask)
    return mask


def names_mask(trace: Trace, rows: I64, test: Callable[[str], object]) -> Bool:
    """Whether the name of each event in `rows` (-1: no event, no) passes `test`.

    `test` is asked once a name: there are few names and many events.
    """
    names = np.where(rows >= 0, trace.events.name[np.maximum(rows, 0)], -1)
    verdict = np.zeros(len(trace.strings) + 1, dtype=np.bool_)  # the last is for absent names
    used = np.bincount(names + 1, minlength=len(verdict))[1:]
    for name in np.flatnonzero(used).tolist():
        verdict[name] = bool(test(trace.strings[name]))
    mask: Bool = verdict[names]
    return mask


def step_mask(trace: Trace) -> Bool:
    """Mask over events: spans of any category that name a profiler step."""
    cached = trace.memo.get("step_mask")
    if cached is None:
        named = [i for i, s in enumerate(trace.strings) if STEP_NAME.fullmatch(s)]
        cached = trace.memo["step_mask"] = np.isin(
            trace.events.name, np.array(named, dtype=np.int32)
        )
    mask: Bool = cached
    return mask


def devices(trace: Trace) -> tuple[Device, ...]:
    """GPUs with activity, ascending; ``("cpu",)`` where nothing points to an accelerator.

    Empty where there is nothing to analyze; :func:`device_findings` says why.
    """
    events = trace.events
    gpu = np.isin(events.cat, np.array(GPU_ACTIVITY, dtype=np.int8))
    if gpu.any():
        return tuple(int(d) for d in np.unique(events.device[gpu]))
    if accelerator_signs(trace):
        return ()
    if np.any(events.cat == Category.CPU_OP):
        return ("cpu",)
    return ()


def accelerator_signs(trace: Trace) -> tuple[str, ...]:
    """What in the trace says that an accelerator was in use, in words; empty on a CPU run."""
    signs: list[str] = []
    present = np.unique(trace.events.cat)
    signs += [f"{c.name.lower()} events" for c in _ACCELERATOR if int(c) in present]
    if any(s.startswith("nccl:") for s in trace.strings):
        signs.append("nccl spans")
    if trace.device_properties:
        signs.append("device properties")
    return tuple(signs)


def device_findings(trace: Trace) -> tuple[Finding, ...]:
    """Why there is no device to analyze, and what looks like activity of one but is not."""
    old = int((trace.events.cat == Category.OLD_MEMORY).sum())
    found: list[Finding] = []
    if old:
        found.append(
            Finding(
                "old-memory-category",
                "copies and fills of the categories Memcpy and Memset (profilers of 2021) are in "
                "no time: the definition names gpu_memcpy and gpu_memset",
                old,
                example="Memcpy",
                invalidates=frozenset(
                    {"memory_time", "exposed_memory", "host_to_device", "device_to_host"}
                ),
            )
        )
    return tuple(found) if devices(trace) else (*found, _no_device(trace))


def _no_device(trace: Trace) -> Finding:
    """Why there is nothing to analyze."""
    if np.any(trace.events.cat == Category.MTIA):
        count = int((trace.events.cat == Category.MTIA).sum())
        return Finding("unsupported-device", "an MTIA trace: not supported yet", count)
    signs = accelerator_signs(trace)
    if signs:
        return Finding(
            "no-gpu-events",
            "an accelerator was in use, but the trace has no GPU activity: record with "
            "ProfilerActivity.CUDA",
            example=", ".join(signs),
        )
    return Finding("no-events", "the trace has no CPU ops and no GPU activity")


def device_name(trace: Trace, device: Device) -> str:
    """The driver's name of `device` as the trace gives it, ``cpu``, or "" where it does not."""
    if device == "cpu":
        return "cpu"
    for properties in trace.device_properties:
        if properties.get("id") == device:
            return str(properties.get("name", ""))
    return ""
