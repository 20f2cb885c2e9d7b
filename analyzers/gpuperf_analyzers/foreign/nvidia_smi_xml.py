"""``nvidia-smi -q -x``: one moment of every device (DTD v11 to v13)."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from gpuperf_analyzers.foreign.model import ForeignError, Reading, Sheet, one_name
from gpuperf_analyzers.foreign.samples import values_of
from gpuperf_analyzers.foreign.text import number
from gpuperf_analyzers.metrics import Value
from gpuperf_analyzers.trace.model import Finding

KIND = "nvidia-smi -q -x"
THROTTLING = frozenset(
    {
        "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown",
        "sw_thermal_slowdown",
    }
)  # fmt: skip
"""Reasons that hold a clock down; the others are idleness and settings."""
_POWER = (
    "gpu_power_readings/average_power_draw", "gpu_power_readings/power_draw",
    "gpu_power_readings/instant_power_draw", "power_readings/power_draw",
)  # fmt: skip
_LIMITS = (
    ("gpu_power_readings", "current_power_limit"), ("gpu_power_readings", "power_limit"),
    ("power_readings", "power_limit"), ("power_readings", "enforced_power_limit"),
)  # fmt: skip
_DEFAULTS = ("gpu_power_readings/default_power_limit", "power_readings/default_power_limit")
_ACTIVE = "Active"


def read_nvidia_smi_xml(path: str, text: str) -> Reading:
    """The devices of one query; a metric that a device does not report is absent.

    Raises
    ------
    ForeignError
        Not the XML of nvidia-smi, or with entity declarations, which it never has.
    """
    if "<!ENTITY" in text:
        raise ForeignError(f"{path}: XML with entities of its own is not read: nvidia-smi has none")
    try:
        root = ET.fromstring(text)  # noqa: S314 - no entity is left to expand
    except (ET.ParseError, ValueError, RecursionError) as error:
        raise ForeignError(
            f"{path}: the XML is not whole ({error}): record it again with nvidia-smi -q -x"
        ) from None
    gpus = root.findall("gpu")
    if root.tag != "nvidia_smi_log" or not gpus:
        raise ForeignError(f"{path}: no device in this output of nvidia-smi")
    labels = [f"GPU {index}" for index in range(len(gpus))]
    names = [_text(gpu, "product_name") for gpu in gpus]
    parts = {label: _values(gpu) for label, gpu in zip(labels, gpus, strict=True)}
    sheets = [_facts(root, gpus, labels)]
    sheets += list(_mig(gpus, labels))
    findings = [f for label, gpu in zip(labels, gpus, strict=True) for f in _findings(label, gpu)]
    return Reading(
        path, KIND, one_name(names), parts=parts, sheets=tuple(sheets), findings=tuple(findings)
    )


def _text(node: ET.Element, path: str) -> str:
    return (node.findtext(path) or "").strip()


def _first(node: ET.Element, *paths: str) -> float | None:
    return next((n for p in paths if (n := number(_text(node, p))) is not None), None)


def reasons_of(gpu: ET.Element) -> dict[str, bool] | None:
    """Clock-event reasons by name, None where the device reports none."""
    for group in ("clocks_event_reasons", "clocks_throttle_reasons"):
        node = gpu.find(group)
        if node is None:
            continue
        prefix = f"{group.rstrip('s')}_"
        said = {
            child.tag.removeprefix(prefix): (child.text or "").strip()
            for child in node
            if (child.text or "").strip() in {_ACTIVE, "Not Active"}
        }
        if said:
            return {name: state == _ACTIVE for name, state in said.items()}
    return None


def _values(gpu: ET.Element) -> dict[str, Value]:
    said = {
        "gpu_util": (_first(gpu, "utilization/gpu_util"), 0.01),
        "sm_clock": (_first(gpu, "clocks/sm_clock"), 1.0),
        "power": (_first(gpu, *_POWER), 1.0),
        "temperature": (_first(gpu, "temperature/gpu_temp"), 1.0),
        "memory_used": (_first(gpu, "fb_memory_usage/used"), float(2**20)),
        "pcie_rx": (_first(gpu, "pci/rx_util"), 1e-6),  # KB/s
        "pcie_tx": (_first(gpu, "pci/tx_util"), 1e-6),
    }
    readings = {name: [n * scale] for name, (n, scale) in said.items() if n is not None}
    reasons = reasons_of(gpu)
    if reasons is not None:
        readings["throttled"] = [float(any(reasons.get(name, False) for name in THROTTLING))]
    missing = {}
    highest = _first(gpu, "max_clocks/sm_clock")
    if reasons is not None and reasons.get("gpu_idle"):
        missing["clock_drop"] = "the GPU was idle: its clock says nothing"
    elif highest and "sm_clock" in readings:
        readings["clock_drop"] = [max(0.0, 1 - readings["sm_clock"][0] / highest)]
    if _text(gpu, "mig_mode/current_mig") == "Enabled":
        missing["gpu_util"] = "the driver tells no utilization of a GPU in MIG mode"
    return values_of(readings, KIND, missing)


def _facts(root: ET.Element, gpus: list[ET.Element], labels: list[str]) -> Sheet:
    driver, cuda = _text(root, "driver_version"), _text(root, "cuda_version")
    rows = []
    for label, gpu in zip(labels, gpus, strict=True):
        limit = _first(gpu, *("/".join(place) for place in _LIMITS))
        held = [name for name, active in (reasons_of(gpu) or {}).items() if active]
        processes = gpu.findall("processes/process_info")
        rows.append(
            (
                label, _text(gpu, "product_name"),
                _text(gpu, "persistence_mode"), _text(gpu, "mig_mode/current_mig"), limit,
                _first(gpu, *_DEFAULTS), ", ".join(held), len(processes),
                _text(gpu, "uuid"),
            )
        )  # fmt: skip
    return Sheet(
        f"{_text(root, 'timestamp')}, driver {driver or '?'}, CUDA {cuda or '?'}",
        ("device", "name", "persistence", "MIG", "power limit W", "default W",
         "clock-event reasons", "processes", "UUID"),
        tuple(rows),
    )  # fmt: skip


def _mig(gpus: list[ET.Element], labels: list[str]) -> Iterator[Sheet]:
    """The slices of partitioned devices: never merged with the device they are cut from."""
    rows = [
        (
            label, _text(mig, "gpu_instance_id"), _text(mig, "compute_instance_id"),
            _first(mig, "device_attributes/shared/multiprocessor_count"),
            _first(mig, "fb_memory_usage/used"), _first(mig, "fb_memory_usage/total"),
        )
        for label, gpu in zip(labels, gpus, strict=True)
        for mig in gpu.findall("mig_devices/mig_device")
    ]  # fmt: skip
    if rows:
        yield Sheet(
            "MIG slices",
            ("device", "GPU instance", "compute instance", "SMs", "used MiB", "total MiB"),
            tuple(rows),
        )


def _findings(label: str, gpu: ET.Element) -> Iterator[Finding]:
    volatile = gpu.find("ecc_errors/volatile")
    counts = {} if volatile is None else {c.tag: number(c.text) for c in volatile.iter()}
    bad = sum(int(n) for tag, n in counts.items() if n and "uncorrect" in tag)
    bad = bad or sum(int(n) for tag, n in counts.items() if n and "double_bit" in tag)
    if bad:
        message = f"{label}: {bad} uncorrectable memory errors since the driver was loaded"
        yield Finding("ecc-errors", message, bad, at=label)
    limit = _first(gpu, *("/".join(place) for place in _LIMITS))
    default = _first(gpu, *_DEFAULTS)
    if limit is not None and default is not None and limit < default:
        message = f"{label}: the power limit is {limit:g} W, below the default of {default:g} W"
        yield Finding("power-limit", message, at=label)
    held = [n for n, active in (reasons_of(gpu) or {}).items() if active and n in THROTTLING]
    if held:
        message = f"{label}: the clock is held down ({', '.join(held)})"
        yield Finding("throttled", message, at=label)
