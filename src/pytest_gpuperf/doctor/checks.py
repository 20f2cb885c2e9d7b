"""Every check of the doctor, in order; those of the host, the driver and torch."""

from __future__ import annotations

import re
import resource
import time
from collections.abc import Callable, Iterator

from gpuperf_analyzers.display import counted
from pytest_gpuperf.doctor.device_checks import (
    clocks,
    mig,
    persistence,
    power_limit,
    processes,
    thermal,
)
from pytest_gpuperf.doctor.driver import Driver
from pytest_gpuperf.doctor.facts import NO_DRIVER, Facts
from pytest_gpuperf.doctor.model import Check, fail, note, ok, skip, warn

_MISMATCH, _NOT_LOADED, _NO_PERMISSION = 18, 9, 4
"""NVML_ERROR_LIB_RM_VERSION_MISMATCH, _DRIVER_NOT_LOADED, _NO_PERMISSION."""
SHARED_BYTES = 1 << 30
"""Below it NCCL and DataLoader workers run out of /dev/shm; Docker's default is 64 MiB."""
DISK_BYTES = 2 << 30
"""Traces of some thousand steps: below it a run may not fit."""
_CARD_RUN = "docker run --gpus all … (compose: deploy.resources.reservations.devices)"
_GOOD_CLOCKS = frozenset({"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"})


def hardware(facts: Facts) -> Check:
    """Whether there is a GPU at all."""
    seen = {vendor: n for vendor, n in facts.machine.gpus_on_the_bus().items() if n}
    if facts.driver.devices:
        names = ", ".join(dict.fromkeys(d.name for d in facts.driver.devices))
        return ok("hardware", f"{len(facts.driver.devices)} by the driver: {names}")
    if seen:
        return note("hardware", "on the bus: " + ", ".join(f"{n} {v}" for v, n in seen.items()))
    return note("hardware", "no GPU on the bus: measurements are of the CPU")


def driver(facts: Facts) -> Check:
    """Driver present, and its version."""
    loaded = facts.machine.driver_module()
    if facts.driver.version:
        return ok("driver", f"NVIDIA {facts.driver.version}{_cuda(facts.driver)}")
    if loaded:
        return warn(
            "driver", f"the kernel module {loaded} is loaded, but NVML does not answer",
            "see the check nvml",
        )  # fmt: skip
    if facts.machine.gpus_on_the_bus()["NVIDIA"]:
        return fail(
            "driver", "an NVIDIA GPU is on the bus and no driver is loaded",
            "install the driver (modprobe nvidia loads it); in a container: --gpus all",
        )  # fmt: skip
    return skip("driver", "no NVIDIA GPU is on the bus")


def _cuda(driver: Driver) -> str:
    return "" if driver.cuda is None else f", for CUDA up to {driver.cuda[0]}.{driver.cuda[1]}"


def nvml(facts: Facts) -> Check:
    """NVML loadable, and of the driver's own version."""
    d, machine = facts.driver, facts.machine
    if not d.error:
        return ok("nvml", "answers")
    if d.code == _MISMATCH:
        return fail(
            "nvml", "driver/library version mismatch: the driver was updated and not reloaded",
            "reboot, or unload and load the kernel modules; in a container: restart it",
        )  # fmt: skip
    if d.code == _NO_PERMISSION:
        return fail(
            "nvml", "the driver may not be opened by this user",
            "give the user the device nodes (group video), or run the container with --gpus all",
        )  # fmt: skip
    if machine.driver_module() or machine.device_nodes():
        library = "libnvidia-ml.so.1 is not found" if d.code in (None, 12) else d.error
        return fail(
            "nvml", f"the driver is there, but {library}",
            "in a container: NVIDIA_DRIVER_CAPABILITIES=utility,compute, --gpus all; else install "
            "the driver's library package (libnvidia-compute)",
        )  # fmt: skip
    return skip("nvml", f"{NO_DRIVER} ({d.error})")


def device_nodes(facts: Facts) -> Check:
    """Device nodes there, and ours to open."""
    nodes = facts.machine.device_nodes()
    if not nodes:
        if facts.machine.driver_module():
            return fail(
                "device-nodes", "the driver is loaded and /dev/nvidia* is missing",
                "nvidia-modprobe -u -c=0 makes them; in a container: --gpus all",
            )  # fmt: skip
        return skip("device-nodes", NO_DRIVER)
    closed = [name for name, mine in nodes.items() if not mine]
    if closed:
        named = ", ".join(f"/dev/{name}" for name in closed)
        return fail("device-nodes", f"not ours to open: {named}", "add the user to group video")
    if "nvidia-uvm" not in nodes:
        return fail(
            "device-nodes", "/dev/nvidia-uvm is missing: CUDA cannot start",
            "nvidia-modprobe -u -c=0; in a container: --gpus all",
        )  # fmt: skip
    return ok("device-nodes", ", ".join(f"/dev/{name}" for name in nodes))


def container(facts: Facts) -> Check:
    """In a container: whether it was started with the GPU."""
    machine = facts.machine
    if not machine.in_container():
        return skip("container", "not in a container")
    if facts.driver.devices:
        return ok("container", "in a container that has the GPU")
    visible = machine.environ.get("NVIDIA_VISIBLE_DEVICES", "")
    if visible and visible not in ("void", "none"):
        return fail(
            "container", f"NVIDIA_VISIBLE_DEVICES={visible} asks for GPUs and none is here: the "
            "container runs without NVIDIA's runtime",
            f"install nvidia-container-toolkit on the host, then {_CARD_RUN}",
        )  # fmt: skip
    if machine.gpus_on_the_bus()["NVIDIA"] or machine.driver_module():
        return fail(
            "container", "the host has an NVIDIA GPU that this container was not given",
            _CARD_RUN,
        )  # fmt: skip
    return note("container", "in a container without a GPU", f"where the host has one: {_CARD_RUN}")


def visible_devices(facts: Facts) -> Check:
    """CUDA_VISIBLE_DEVICES hides nothing by accident."""
    value = facts.machine.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return ok("visible-devices", "CUDA_VISIBLE_DEVICES is not set")
    count = len(facts.driver.devices)
    if not count:
        return skip("visible-devices", NO_DRIVER)
    first = value.split(",")[0].strip()
    if first in ("", "-1") or (first.isdigit() and int(first) >= count):
        return fail(
            "visible-devices", f"CUDA_VISIBLE_DEVICES={value!r} hides every device of {count}",
            "unset it, or name a device by its number or UUID",
        )  # fmt: skip
    return note("visible-devices", f"CUDA_VISIBLE_DEVICES={value!r} of {counted(count, 'device')}")


def torch_build(facts: Facts) -> Check:
    """Torch there, and built for the GPU that is there."""
    t = facts.torch
    if t.error:
        missing = "ModuleNotFoundError" in t.error
        found = "torch is not installed" if missing else f"torch cannot be imported: {t.error}"
        mend = "pip install 'pytest-gpuperf[torch]'; traces are analyzed without it"
        return (note if missing else fail)("torch", found, mend)
    built = f"CUDA {t.cuda}" if t.cuda else f"ROCm {t.hip}" if t.hip else "CPU only"
    if not t.cuda and not t.hip and facts.driver.devices:
        return fail(
            "torch", f"torch {t.version} is built for the CPU only, and a GPU is here",
            "install a CUDA build of torch",
        )  # fmt: skip
    if facts.driver.devices and (t.cuda_error or not t.available):
        why = t.cuda_error or "torch.cuda.is_available() is False"
        return fail("torch", f"torch {t.version} ({built}) cannot use the GPU: {why}",
                    "see the checks cuda, visible-devices and device-nodes")  # fmt: skip
    return ok("torch", f"{t.version}, {built}")


def cuda(facts: Facts) -> Check:
    """The driver runs the CUDA that torch was built for."""
    built = re.match(r"(\d+)\.(\d+)", facts.torch.cuda)
    if not built or facts.driver.cuda is None:
        return skip("cuda", "no CUDA build of torch beside a driver")
    wanted, has = (int(built[1]), int(built[2])), facts.driver.cuda
    said = f"torch is built for CUDA {facts.torch.cuda}, the driver runs up to {has[0]}.{has[1]}"
    if has[0] < wanted[0]:
        return fail("cuda", said, "update the driver, or install a torch for an older CUDA")
    if has < wanted:
        return note("cuda", f"{said}: minor versions are compatible, but PTX is not compiled")
    return ok("cuda", said)


def counters(facts: Facts) -> Check:
    """Profiling counters: whether they are for administrators only."""
    restricted = facts.machine.counters_are_restricted()
    if restricted is None:
        return skip("counters", NO_DRIVER)
    if restricted and not facts.machine.may_profile():
        return warn(
            "counters", "the driver gives hardware counters to administrators only: kernels and "
            "times are recorded all the same, CUPTI counters by kernel and GPM by some drivers not",
            "options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, then reboot; "
            "in a container: --cap-add SYS_ADMIN",
        )  # fmt: skip
    return ok("counters", "open to this process")


def holders(facts: Facts) -> Check:
    """Nobody else holds the counters."""
    found = facts.machine.counter_holders()
    if not found:
        return ok("counter-holders", "no other profiler is running")
    return note(
        "counter-holders", f"running: {', '.join(found)}: one program at a time gets CUPTI's "
        "hardware counters",
        "dcgmi profile --pause during a run that needs them; DCGM's own values can be gated on",
    )  # fmt: skip


def shared_memory(facts: Facts) -> Check:
    """/dev/shm large enough for NCCL and DataLoader workers."""
    space = facts.machine.space(facts.machine.root / "dev/shm")
    if space is None:
        return warn("shared-memory", "there is no /dev/shm", "mount a tmpfs at /dev/shm")
    size, free = space
    if free < SHARED_BYTES:
        return warn(
            "shared-memory", f"/dev/shm has {free / 2**20:,.0f} MiB free of {size / 2**20:,.0f}: "
            "DataLoader workers and NCCL fail with a bus error when it is full",
            "docker run --shm-size=8g (or --ipc=host)",
        )  # fmt: skip
    return ok("shared-memory", f"{free / 2**30:,.1f} GiB free in /dev/shm")


def locked_memory(_: Facts) -> Check:
    """Memory that may be locked: RDMA and pinned buffers need it."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft == resource.RLIM_INFINITY or soft >= 1 << 30:
        return ok("locked-memory", "unlimited" if soft < 0 else f"{soft / 2**30:,.1f} GiB")
    return note("locked-memory", f"{soft / 2**20:,.0f} MiB may be locked: too little for RDMA",
                "docker run --ulimit memlock=-1; else /etc/security/limits.conf")  # fmt: skip


def time_source(facts: Facts) -> Check:
    """A clock that is read in tens of nanoseconds."""
    source = facts.machine.clock_source()
    begin = time.perf_counter_ns()
    for _ in range(1000):
        time.perf_counter_ns()
    each = (time.perf_counter_ns() - begin) / 1000
    found = f"{source or 'not told'}, {each:.0f} ns a reading"
    if source and source not in _GOOD_CLOCKS:
        return warn("time-source", f"the kernel's clock is {found}: it is read through the kernel",
                    "boot with tsc=reliable where the processor has an invariant TSC")  # fmt: skip
    return ok("time-source", found)


def disk(facts: Facts) -> Check:
    """Disk for traces."""
    space = facts.machine.space(facts.machine.work)
    if space is None:
        return fail("disk", f"{facts.machine.work} cannot be written to", "see --gpuperf-dir")
    free = space[1]
    if free < DISK_BYTES:
        return warn("disk", f"{free / 2**30:.1f} GiB free at {facts.machine.work} for traces",
                    "free some, or point --gpuperf-dir elsewhere")  # fmt: skip
    return ok("disk", f"{free / 2**30:,.0f} GiB free at {facts.machine.work}")


def self_test(facts: Facts) -> Check:
    """A profile of one matmul has its kernel: catches the silently empty profile."""
    t = facts.torch
    if t.error:
        return skip("self-test", "no torch to profile")
    if t.profile_error:
        return fail("self-test", f"the profiler failed: {t.profile_error}",
                    "no other profiler may run in the process; update torch")  # fmt: skip
    if t.profiled_on == "cpu":
        if t.ops != 1:
            return fail("self-test", f"a profile of one matmul shows {t.ops} of aten::mm",
                        "the profiler records nothing here: update torch")  # fmt: skip
        return ok("self-test", "a profile of one matmul on the CPU shows its op")
    if not t.kernels:
        return fail(
            "self-test", "a profile of one matmul on the GPU shows no kernel: CUPTI gives nothing",
            "see the checks counters and counter-holders; libcupti must match the driver",
        )  # fmt: skip
    return ok(
        "self-test", f"a profile of one matmul on the GPU shows {counted(t.kernels, 'kernel')}"
    )


CHECKS: tuple[Callable[[Facts], Check], ...] = (
    hardware, driver, nvml, device_nodes, container, visible_devices, mig, torch_build, cuda,
    counters, holders, persistence, clocks, power_limit, thermal, processes, shared_memory,
    locked_memory, time_source, disk, self_test,
)  # fmt: skip


def run_checks(facts: Facts) -> Iterator[Check]:
    """Every check, in the order in which they build on each other."""
    for check in CHECKS:
        yield check(facts)
