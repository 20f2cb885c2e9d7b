"""Errors of Docker, the driver and NCCL that everybody meets once: cause, and the line to add."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Known:
    """One error message: what it looks like, what it means, what to do."""

    pattern: str
    cause: str
    mend: str


KNOWN: tuple[Known, ...] = (
    Known(
        r"could not select device driver .*(\"\"|gpu)|could not select device driver",
        "Docker knows no runtime for GPUs: the NVIDIA container toolkit is not installed or "
        "not configured on the host",
        "install nvidia-container-toolkit, then: nvidia-ctk runtime configure --runtime=docker && "
        "systemctl restart docker",
    ),
    Known(
        r"[Uu]nknown (?:or invalid )?runtime(?: specified| name)?:? ?\"?nvidia",
        "the runtime `nvidia` is not registered with Docker",
        "nvidia-ctk runtime configure --runtime=docker && systemctl restart docker; or use "
        "--gpus all instead of --runtime=nvidia",
    ),
    Known(
        r"libnvidia-ml\.so(?:\.1)?.*(?:not found|cannot open|no such file)|NVML Shared Library Not "
        r"Found",
        "the driver's library is not in this container or not installed",
        "docker run --gpus all with NVIDIA_DRIVER_CAPABILITIES=compute,utility; on a host: install "
        "the driver's compute package",
    ),
    Known(
        r"[Dd]river/library version mismatch",
        "the driver was updated and the old kernel module is still loaded",
        "reboot, or unload and load the nvidia modules; then restart the containers",
    ),
    Known(
        r"nvidia-container-cli: .*(?:driver error|initialization error|nvml error)",
        "the host's own driver does not answer",
        "run nvidia-smi on the host and mend that first",
    ),
    Known(
        r"unsatisfied condition: cuda>=|requirement error: .*cuda",
        "the image wants a newer CUDA than the host's driver runs",
        "update the driver, or take an image with an older CUDA",
    ),
    Known(
        r"Found no NVIDIA driver on your system|no CUDA-capable device is detected",
        "the process sees no GPU: a container without --gpus all, or CUDA_VISIBLE_DEVICES hides it",
        "docker run --gpus all; check CUDA_VISIBLE_DEVICES",
    ),
    Known(
        r"ERR_NVGPUCTRPERM|CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
        "the driver gives profiling counters to administrators only",
        "options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d and reboot; in a "
        "container: --cap-add SYS_ADMIN",
    ),
    Known(
        r"[Bb]us error|unable to (?:open|mmap|allocate) shared memory|No space left on device.*shm",
        "/dev/shm is too small: Docker's default is 64 MiB",
        "docker run --shm-size=8g (or --ipc=host)",
    ),
    Known(
        r"no kernel image is available for execution",
        "torch was built without kernels for this GPU's architecture",
        "install a torch whose torch.cuda.get_arch_list() has it",
    ),
)


def explain(text: str) -> tuple[Known, ...]:
    """The known errors that `text` shows, in the order of the table."""
    return tuple(known for known in KNOWN if re.search(known.pattern, text))
