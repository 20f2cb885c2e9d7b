"""Logs of nvidia-smi over time: ``--query-gpu … --format=csv`` and ``dmon``."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence

from gpuperf_analyzers.foreign.model import ForeignError, Reading, Sheet, one_name
from gpuperf_analyzers.foreign.samples import THROTTLE_MASK, values_of
from gpuperf_analyzers.foreign.text import number
from gpuperf_analyzers.trace.model import Finding

CSV, DMON = "nvidia-smi --query-gpu", "nvidia-smi dmon"
_MIB = float(2**20)
_QUERIES: Mapping[str, tuple[str, float]] = {
    "utilization.gpu": ("gpu_util", 0.01),
    "clocks.sm": ("sm_clock", 1.0),
    "clocks.current.sm": ("sm_clock", 1.0),
    "power.draw": ("power", 1.0),
    "power.draw.average": ("power", 1.0),
    "power.draw.instant": ("power", 1.0),
    "temperature.gpu": ("temperature", 1.0),
    "memory.used": ("memory_used", _MIB),
}
_COLUMNS: Mapping[str, tuple[str, float]] = {
    "sm": ("gpu_util", 0.01),
    "pclk": ("sm_clock", 1.0),
    "pwr": ("power", 1.0),
    "gtemp": ("temperature", 1.0),
    "fb": ("memory_used", _MIB),
    "rxpci": ("pcie_rx", 1e-3),  # MB/s
    "txpci": ("pcie_tx", 1e-3),
    "smact": ("sm_active", 0.01),
    "smocc": ("sm_occupancy", 0.01),
    "tensor": ("tensor_active", 0.01),
    "dram": ("dram_active", 0.01),
    "fp64": ("fp64_active", 0.01),
    "fp32": ("fp32_active", 0.01),
    "fp16": ("fp16_active", 0.01),
}
_MASKS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
_FLAG = re.compile(r"clocks_(?:event|throttle)_reasons\.(\w+)")
_SLOWED = ("sw_power_cap", "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown",
           "hw_power_brake_slowdown")  # fmt: skip
_UNIT = re.compile(r"\s*\[[^\]]*\]\s*$")
_WHO = ("uuid", "gpu_uuid", "index", "pci.bus_id", "gpu_bus_id", "gpu_name", "name")

Readings = dict[str, dict[str, list[float]]]


def read_query_csv(path: str, lines: Sequence[str]) -> Reading:
    """A log of ``--query-gpu``: readings by device, with units in header or cells, or in neither.

    Raises
    ------
    ForeignError
        There is no row below the header.
    """
    rows = list(csv.reader(lines))
    header = [_UNIT.sub("", cell).strip() for cell in rows[0]]
    found: Readings = {}
    names: dict[str, str] = {}
    skipped, times = 0, []
    for cells in rows[1:]:
        if not any(cell.strip() for cell in cells):
            continue
        row = dict(zip(header, (cell.strip() for cell in cells), strict=False))
        if len(cells) != len(header) or row.get(header[0]) == header[0]:
            skipped += row.get(header[0]) != header[0]
            continue
        who = next((f"{key} {row[key]}" for key in _WHO if row.get(key)), "GPU")
        names[who] = row.get("name") or row.get("gpu_name") or ""
        times.append(row.get("timestamp", ""))
        _add(found.setdefault(who, {}), _of_query(row))
    if not found:
        raise ForeignError(f"{path}: a header of nvidia-smi without a row below it")
    return _reading(path, CSV, found, names, times, skipped)


def _of_query(row: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    seen: set[str] = set()
    for column, (metric, scale) in _QUERIES.items():
        value = number(row.get(column))
        if value is not None and metric not in seen:
            seen.add(metric)
            yield metric, value * scale
    clock, highest = (
        number(row.get("clocks.sm") or row.get("clocks.current.sm")),
        number(row.get("clocks.max.sm")),
    )
    if clock is not None and highest:
        yield "clock_drop", max(0.0, 1 - clock / highest)
    held = _held(row)
    if held is not None:
        yield "throttled", float(held)


def _held(row: Mapping[str, str]) -> bool | None:
    """Whether a reason that holds the clock down is active; None where the row has no reasons."""
    for column in _MASKS:
        mask = row.get(column, "")
        if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", mask):
            return bool(int(mask, 16) & THROTTLE_MASK)
    flags = {m[1]: text for key, text in row.items() if (m := _FLAG.fullmatch(key))}
    known = [flags[name] for name in _SLOWED if flags.get(name) in {"Active", "Not Active"}]
    return any(state == "Active" for state in known) if known else None


def read_dmon(path: str, lines: Sequence[str]) -> Reading:
    """A log of ``dmon``: the header repeats, ``-`` stands for what is not known.

    Raises
    ------
    ForeignError
        There is no row below the header.
    """
    header: list[str] = []
    found: Readings = {}
    times: list[str] = []
    skipped = 0
    for line in lines:
        words = line.lstrip("#").split()
        if line.lstrip().startswith("#"):
            if "gpu" in words[:3]:
                header = words
            continue
        if not words or not header:
            continue
        row = dict(zip(header, words, strict=False))
        if len(words) != len(header) or not row.get("gpu", "").isdigit():
            skipped += 1
            continue
        times.append(row.get("Time", ""))
        said = ((k, number(row.get(column)), s) for column, (k, s) in _COLUMNS.items())
        _add(
            found.setdefault(f"GPU {row['gpu']}", {}),
            ((metric, value * scale) for metric, value, scale in said if value is not None),
        )
    if not found:
        raise ForeignError(f"{path}: a header of nvidia-smi dmon without a row below it")
    return _reading(path, DMON, found, {}, times, skipped)


def _add(series: dict[str, list[float]], said: Iterator[tuple[str, float]]) -> None:
    for metric, value in said:
        series.setdefault(metric, []).append(value)


def _reading(
    path: str, kind: str, found: Readings, names: Mapping[str, str], times: Sequence[str],
    skipped: int,
) -> Reading:  # fmt: skip
    findings = []
    if skipped:
        message = f"{skipped} lines are not whole and were left out"
        findings.append(Finding("lines-lost", message, skipped))
    window = f"{times[0]} to {times[-1]}" if times and times[0] else ""
    sheet = Sheet(
        f"readings {window}".strip(),
        ("device", "name", "readings"),
        tuple(
            (who, names.get(who, ""), max((len(s) for s in series.values()), default=0))
            for who, series in found.items()
        ),
    )
    return Reading(
        path, kind, one_name([n for n in names.values() if n]),
        parts={who: values_of(series, kind) for who, series in found.items()},
        sheets=(sheet,), findings=tuple(findings),
    )  # fmt: skip
