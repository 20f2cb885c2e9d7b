"""NVML's clock-event reasons, decoded bit by bit: several hold at once more often than not."""

from __future__ import annotations

from enum import IntFlag


class ClockReason(IntFlag):
    """Why the clocks are what they are (``nvmlClocksEventReason…`` in nvml.h)."""

    GPU_IDLE = 0x1
    APPLICATION_CLOCKS = 0x2
    SW_POWER_CAP = 0x4
    HW_SLOWDOWN = 0x8
    SYNC_BOOST = 0x10
    SW_THERMAL_SLOWDOWN = 0x20
    HW_THERMAL_SLOWDOWN = 0x40
    HW_POWER_BRAKE = 0x80
    DISPLAY_CLOCKS = 0x100
    BOARD_LIMIT = 0x200
    RELIABILITY = 0x400


_THROTTLING = (
    ClockReason.SW_POWER_CAP
    | ClockReason.HW_SLOWDOWN
    | ClockReason.SW_THERMAL_SLOWDOWN
    | ClockReason.HW_THERMAL_SLOWDOWN
    | ClockReason.HW_POWER_BRAKE
    | ClockReason.BOARD_LIMIT
    | ClockReason.RELIABILITY
)
"""Thermal, power and hardware reasons. Idling and clocks that someone set are none."""


def reason_names(mask: int) -> tuple[str, ...]:
    """The reasons in `mask`, lowest bit first; a bit without a name is ``bit_N``, never dropped."""
    names = []
    for bit in range(mask.bit_length()):
        if mask >> bit & 1:
            known = 1 << bit in ClockReason.__members__.values()
            names.append(str(ClockReason(1 << bit).name).lower() if known else f"bit_{bit}")
    return tuple(names)


def is_throttled(mask: int) -> bool:
    """Whether a thermal, power or hardware reason holds the clocks down."""
    return bool(mask & _THROTTLING)


def is_slowed(mask: int) -> bool:
    """Whether it is more than the power cap in software, under which full load is the rule."""
    return bool(mask & (_THROTTLING & ~ClockReason.SW_POWER_CAP))
