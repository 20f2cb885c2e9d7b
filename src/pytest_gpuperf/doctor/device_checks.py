"""Checks of each device: partitions, power, clocks, heat and who else is there."""

from __future__ import annotations

from collections.abc import Callable

from pytest_gpuperf.doctor.driver import Device
from pytest_gpuperf.doctor.facts import NO_DRIVER, Facts
from pytest_gpuperf.doctor.model import Check, Status, note, ok, skip, warn

_ORDER = list(Status)


def mig(facts: Facts) -> Check:
    """MIG: a slice is not the device."""
    cut = [d.name for d in facts.driver.devices if d.mig]
    if not facts.driver.devices:
        return skip("mig", NO_DRIVER)
    if not cut:
        return ok("mig", "off")
    value = facts.machine.environ.get("CUDA_VISIBLE_DEVICES", "")
    if value.startswith("MIG-"):
        return note("mig", f"{cut[0]} is partitioned; a slice is named: its own limits apply")
    return warn(
        "mig", f"{cut[0]} is partitioned and no slice is named: CUDA takes the first one",
        "CUDA_VISIBLE_DEVICES=MIG-… (nvidia-smi -L lists them)",
    )  # fmt: skip


def _of_devices(
    facts: Facts, name: str, tell: Callable[[Device], Check | None], fine: str
) -> Check:
    """The worst that `tell` says of a device."""
    if not facts.driver.devices:
        return skip(name, NO_DRIVER)
    said = [check for device in facts.driver.devices if (check := tell(device)) is not None]
    return max(said, key=lambda check: _ORDER.index(check.status)) if said else ok(name, fine)


def persistence(facts: Facts) -> Check:
    """Persistence mode: without it the first call of each process sets the device up."""

    def tell(d: Device) -> Check | None:
        if d.persistence is not False:
            return None
        return note("persistence", f"{d.name}: off: the driver unloads between processes",
                    "nvidia-smi -pm 1, or run nvidia-persistenced")  # fmt: skip

    return _of_devices(facts, "persistence", tell, "on, or not told")


def clocks(facts: Facts) -> Check:
    """Clocks locked or not."""

    def tell(d: Device) -> Check | None:
        if d.clocks_set:
            return note("clocks", f"{d.name}: set by somebody: repeatable, and below the highest")
        return note("clocks", f"{d.name}: not locked: they follow load, heat and power",
                    "for repeatable times: nvidia-smi -lgc CLOCK (undo: -rgc)")  # fmt: skip

    return _of_devices(facts, "clocks", tell, "")


def power_limit(facts: Facts) -> Check:
    """Power limit below the board's default."""

    def tell(d: Device) -> Check | None:
        if d.power_limit_w is None or d.default_limit_w is None:
            return None
        if d.power_limit_w >= d.default_limit_w:
            return None
        return warn(
            "power-limit", f"{d.name}: {d.power_limit_w:g} W, the board's default is "
            f"{d.default_limit_w:g} W: shares of peak will be lower",
            f"nvidia-smi -pl {d.default_limit_w:g}",
        )  # fmt: skip

    return _of_devices(facts, "power-limit", tell, "at the board's default, or not told")


def thermal(facts: Facts) -> Check:
    """Heat and hardware slowdowns, now."""

    def tell(d: Device) -> Check | None:
        if not d.slowed:
            return None
        heat = "" if d.temperature_c is None else f" at {d.temperature_c:g} °C"
        return warn("thermal", f"{d.name}: the clock is held down{heat} ({', '.join(d.reasons)})",
                    "mend the cooling or the power supply before you measure")  # fmt: skip

    return _of_devices(facts, "thermal", tell, "no slowdown now")


def processes(facts: Facts) -> Check:
    """Other processes on the device."""

    def tell(d: Device) -> Check | None:
        if not d.processes:
            return None
        return warn("processes", f"{d.name}: {d.processes} processes have a compute context",
                    "end them, or measure on another device")  # fmt: skip

    return _of_devices(facts, "processes", tell, "nobody else is on the device")
