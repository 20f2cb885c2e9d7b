"""A scrape of dcgm-exporter, or several of them one after the other in a file.

DCGM writes blanks as numbers near the end of a type's range (9223372036854775794 is "not
supported"): those are no readings. Slices of a partitioned GPU carry labels of their own and are
never merged with the GPU.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuperf_analyzers.foreign.model import ForeignError, Reading, Sheet, one_name
from gpuperf_analyzers.foreign.samples import THROTTLE_MASK, values_of
from gpuperf_analyzers.trace.model import Finding

KIND = "DCGM scrape"
FIELDS: Mapping[str, tuple[str, float]] = {
    "DCGM_FI_PROF_SM_ACTIVE": ("sm_active", 1.0),
    "DCGM_FI_PROF_SM_OCCUPANCY": ("sm_occupancy", 1.0),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("tensor_active", 1.0),
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE": ("fp64_active", 1.0),
    "DCGM_FI_PROF_PIPE_FP32_ACTIVE": ("fp32_active", 1.0),
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE": ("fp16_active", 1.0),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("dram_active", 1.0),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": ("nvlink_tx", 1e-9),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": ("nvlink_rx", 1e-9),
    "DCGM_FI_PROF_PCIE_TX_BYTES": ("pcie_tx", 1e-9),
    "DCGM_FI_PROF_PCIE_RX_BYTES": ("pcie_rx", 1e-9),
    "DCGM_FI_DEV_GPU_UTIL": ("gpu_util", 0.01),
    "DCGM_FI_DEV_SM_CLOCK": ("sm_clock", 1.0),
    "DCGM_FI_DEV_POWER_USAGE": ("power", 1.0),
    "DCGM_FI_DEV_GPU_TEMP": ("temperature", 1.0),
    "DCGM_FI_DEV_FB_USED": ("memory_used", float(2**20)),
}
"""DCGM's field: the metric, and the factor from DCGM's unit (share, bytes/s, %, MHz, W, MiB)."""
REASON_FIELDS = ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")
_RATES = frozenset({"nvlink_tx", "nvlink_rx", "pcie_tx", "pcie_rx"})
_XID = "DCGM_FI_DEV_XID_ERRORS"
_ECC = ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL")
_BLANK_INT64, _BLANK_INT32, _BLANK_FP64 = 2.0**63 - 2**12, 2.0**31 - 16, 140737488355328.0
_SAMPLE = re.compile(
    r"^(?P<name>DCGM_\w+|[a-zA-Z_]\w*)\{(?P<labels>[^{}]*)\}\s+(?P<value>\S+)(?:\s+-?\d+)?\s*$"
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_TYPE = re.compile(r"^# TYPE (DCGM_\w+) (\w+)")


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a scrape: field, labels, value, and whether it is declared a counter."""

    field: str
    labels: Mapping[str, str]
    value: float
    counter: bool

    @property
    def device(self) -> str:
        """``GPU 0``, or ``GPU 0 MIG 1g.5gb/7`` of a slice."""
        gpu = f"GPU {self.labels.get('gpu', '?')}"
        host = self.labels.get("Hostname", "")
        name = f"{host} {gpu}" if host else gpu
        profile, instance = (self.labels.get(key, "") for key in ("GPU_I_PROFILE", "GPU_I_ID"))
        return f"{name} MIG {profile}/{instance}" if profile or instance else name


def is_blank(value: float) -> bool:
    """Whether `value` is one of DCGM's blanks, or no number at all.

    0x7ffffffffffffff0 and up (int64), 0x7ffffff0 and up (int32), 140737488355328 to …331 (fp64).
    A large counter of bytes or mJ is below the first and far above the second: the int32 blanks
    are the 16 numbers below 2**31 alone.
    """
    if not math.isfinite(value) or abs(value) >= _BLANK_INT64:
        return True
    return _BLANK_INT32 <= value < 2.0**31 or _BLANK_FP64 <= value < _BLANK_FP64 + 4


def samples_of(lines: Sequence[str]) -> Iterator[Sample]:
    """The samples of DCGM's fields that are no blanks."""
    counters: set[str] = set()
    for line in lines:
        declared = _TYPE.match(line)
        if declared:
            (counters.add if declared[2] == "counter" else counters.discard)(declared[1])
            continue
        found = _SAMPLE.match(line)
        if not found or not found["name"].startswith("DCGM_"):
            continue
        try:
            value = float(found["value"])
        except ValueError:
            continue
        if not is_blank(value):
            labels = dict(_LABEL.findall(found["labels"]))
            yield Sample(found["name"], labels, value, found["name"] in counters)


def read_dcgm(path: str, lines: Sequence[str]) -> Reading:
    """Values by device; a field that occurs several times was scraped several times.

    Raises
    ------
    ForeignError
        Every field is blank.
    """
    return reading_of(path, list(samples_of(lines)))


def reading_of(path: str, samples: Sequence[Sample]) -> Reading:
    """Values by device of `samples` from `path` (a file or an address).

    Raises
    ------
    ForeignError
        There are none.
    """
    found: dict[str, dict[str, list[float]]] = {}
    missing: dict[str, dict[str, str]] = {}
    names: dict[str, str] = {}
    for sample in samples:
        series = found.setdefault(sample.device, {})
        names[sample.device] = sample.labels.get("modelName", "")
        if sample.field in REASON_FIELDS:
            series.setdefault("throttled", []).append(
                float(bool(int(sample.value) & THROTTLE_MASK))
            )
        metric, scale = FIELDS.get(sample.field, ("", 1.0))
        if metric in _RATES and sample.counter:
            why = f"{sample.field} is a counter here: a rate takes two scrapes with their times"
            missing.setdefault(sample.device, {})[metric] = why
        elif metric:
            series.setdefault(metric, []).append(sample.value * scale)
    if not found:
        raise ForeignError(
            f"{path}: DCGM tells no value of any field: is a GPU there, and may DCGM profile it?"
        )
    rows = tuple((who, names[who], len(series)) for who, series in found.items())
    return Reading(
        path, KIND, one_name(list(names.values())),
        parts={
            who: values_of(series, "DCGM", missing.get(who)) for who, series in found.items()
        },
        sheets=(Sheet("devices", ("device", "name", "metrics"), rows),),
        findings=tuple(_findings(samples)),
    )  # fmt: skip


def _findings(samples: Sequence[Sample]) -> Iterator[Finding]:
    told: set[tuple[str, str]] = set()
    for sample in samples:
        at = sample.device
        if not sample.value or (sample.field, at) in told:
            continue
        if sample.field == _XID:
            told.add((sample.field, at))
            message = f"{at}: the driver's last error is XID {sample.value:.0f}"
            yield Finding("xid", message, at=at)
        if sample.field in _ECC:
            told.add((sample.field, at))
            message = f"{at}: {sample.value:.0f} uncorrectable memory errors ({sample.field})"
            yield Finding("ecc-errors", message, int(sample.value), at=at)
