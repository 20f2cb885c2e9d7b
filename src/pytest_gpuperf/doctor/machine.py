"""What the machine's files say, below a root that a test can make up."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_NVIDIA, _AMD = "0x10de", "0x1002"
_DISPLAY = ("0x03", "0x12")
"""PCI classes of displays and of processing accelerators."""
_CONTAINERS = re.compile(r"docker|kubepods|containerd|libpod|lxc|garden", re.IGNORECASE)
HOLDERS = ("nv-hostengine", "dcgm-exporter", "nsys", "ncu", "nv-nsight-cu-cli", "rocprofv3")
"""Programs that may hold the profiling counters, by the name in ``/proc/PID/comm``."""
_CAP_SYS_ADMIN, _CAP_PERFMON = 21, 38


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as its files show it.

    Attributes
    ----------
    root
        Where its ``/`` is.
    environ
        Environment variables.
    work
        Folder that traces are written to.
    """

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    work: Path = field(default_factory=Path.cwd)

    def text(self, path: str) -> str:
        """The text of a file below the root; "" where it cannot be read."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def gpus_on_the_bus(self) -> dict[str, int]:
        """Graphics and compute devices by vendor, as PCI lists them."""
        found = {"NVIDIA": 0, "AMD": 0}
        for device in self._listed("sys/bus/pci/devices"):
            vendor = self.text(f"{device}/vendor").strip()
            if self.text(f"{device}/class").strip()[:4] in _DISPLAY:
                found["NVIDIA"] += vendor == _NVIDIA
                found["AMD"] += vendor == _AMD
        return found

    def driver_module(self) -> str:
        """Version of the loaded kernel module, "" where there is none."""
        found = re.search(
            r"(?:Kernel Module|NVIDIA UNIX)[^\n]*?(\d{3,}\.\d+(?:\.\d+)?)",
            self.text("proc/driver/nvidia/version"),
        )
        return found[1] if found else ""

    def device_nodes(self) -> dict[str, bool]:
        """Device nodes of NVIDIA's driver, and whether this user may open them."""
        names = [Path(p).name for p in self._listed("dev")]
        wanted = [n for n in names if re.fullmatch(r"nvidia(\d+|ctl|-uvm)", n)]
        return {n: os.access(self.root / "dev" / n, os.R_OK | os.W_OK) for n in sorted(wanted)}

    def in_container(self) -> bool:
        """Whether this looks like the inside of a container."""
        marks = (".dockerenv", "run/.containerenv")
        if any((self.root / mark).exists() for mark in marks):
            return True
        return bool(_CONTAINERS.search(self.text("proc/1/cgroup")))

    def counters_are_restricted(self) -> bool | None:
        """Whether the driver gives profiling counters to administrators only; None: not told."""
        found = re.search(r"RmProfilingAdminOnly:\s*(\d)", self.text("proc/driver/nvidia/params"))
        return found[1] == "1" if found else None

    def may_profile(self) -> bool:
        """Whether this process has CAP_SYS_ADMIN or CAP_PERFMON."""
        found = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", self.text("proc/self/status"), re.MULTILINE)
        held = int(found[1], 16) if found else 0
        return bool(held >> _CAP_SYS_ADMIN & 1 or held >> _CAP_PERFMON & 1)

    def counter_holders(self) -> list[str]:
        """Running programs that may hold the profiling counters."""
        names = {
            self.text(f"{process}/comm").strip()
            for process in self._listed("proc")
            if Path(process).name.isdigit()
        }
        # The kernel keeps 15 characters of a name.
        return sorted(h for h in HOLDERS if h[:15] in names)

    def clock_source(self) -> str:
        """The kernel's clock source, "" where it is not told."""
        return self.text("sys/devices/system/clocksource/clocksource0/current_clocksource").strip()

    def space(self, path: Path) -> tuple[int, int] | None:
        """Size and free bytes of the file system of `path`; None where there is none."""
        try:
            stat = os.statvfs(path)
        except OSError:
            return None
        return stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize

    def _listed(self, path: str) -> Iterator[str]:
        try:
            names = sorted(os.listdir(self.root / path))  # noqa: PTH208 - names, not paths
        except OSError:
            return
        yield from (f"{path}/{name}" for name in names)
