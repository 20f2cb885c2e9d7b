"""The thresholds behind every sentence that calls something a cause: documented and changeable.

Shares are fractions. Change one with :func:`dataclasses.replace` on ``Config.thresholds``, or by
the hook ``gpuperf_thresholds``. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any


def _at(value: float, says: str, why: str) -> Any:
    return field(default=value, metadata={"says": says, "why": why})


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When something is worth a sentence; :func:`threshold_rows` has what each says, and why.

    Raises
    ------
    ValueError
        A threshold is not a number, or below 0.
    """

    host_wait: float = _at(
        0.15, "the device waits for the CPU for this share of the step",
        "a warm training step that is bound by the device idles a few percent; from a seventh on "
        "the host is worth looking at before any kernel",
    )  # fmt: skip
    exposed_comm: float = _at(
        0.10, "communication that no compute hides takes this share of the step",
        "the end of the last collective is always exposed; a tenth is more than an end",
    )  # fmt: skip
    exposed_copies: float = _at(
        0.05, "copies and fills that nothing hides take this share of the step",
        "pinned, asynchronous copies are hidden: what shows is a fault, and cheap to mend",
    )  # fmt: skip
    dependency: float = _at(
        0.15, "the device waits for this share of the step though its next work was launched",
        "the gap between two kernels of one stream is a µs: below this they add up to no more",
    )  # fmt: skip
    unknown_idle: float = _at(
        0.15, "idle time without launch records takes this share of the step",
        "below it the missing cause cannot change which of the known ones is the largest",
    )  # fmt: skip
    compute_bound: float = _at(
        0.75, "compute takes this share of the step",
        "three quarters: nothing else can be worth more than a third of what kernels are",
    )  # fmt: skip
    main_cause: float = _at(
        0.50, "one cause is named for a wait, or one name for a part, from this share of it on",
        "more than half: whatever the rest is, it is less",
    )  # fmt: skip
    one_kernel: float = _at(
        0.30, "one kernel takes this share of compute",
        "a kernel that could be made free to gain a third of the step is a target",
    )  # fmt: skip
    few_blocks: float = _at(
        0.50, "this share of kernel time is in kernels with fewer blocks than multiprocessors",
        "half of the time with part of the chip empty, however high GPU-Util reads",
    )  # fmt: skip
    low_occupancy: float = _at(
        0.10, "estimated occupancy is below this",
        "good matrix products run at an eighth to a quarter by design; below that the chip is "
        "empty for lack of work",
    )  # fmt: skip
    busy_enough: float = _at(
        0.50, "saturation is spoken of where compute takes this share of the step",
        "a device that is idle or communicates is not filled either: that is the news then",
    )  # fmt: skip
    tensor_cores: float = _at(
        0.50, "matrix products spend less than this share of their time on tensor cores",
        "on them such a product is several times faster: half is a wrong dtype, not an exception",
    )  # fmt: skip
    matrix_share: float = _at(
        0.20, "tensor cores are spoken of where products take this share of the step",
        "below it nothing would be gained",
    )  # fmt: skip
    straggler: float = _at(
        0.05, "a rank comes this share of a step later than the median of the others",
        "every other rank waits for it: 5% late is 5% of the whole job",
    )  # fmt: skip
    straggler_chance: float = _at(
        0.05, "ranks that are last by turns would have one so often the last in this share of sets",
        "in every set one rank is the latest; one wrong name in twenty sets is borne",
    )  # fmt: skip
    straggler_stands_out: float = _at(
        4.0, "or its late steps are this many times what the other ranks and the other steps show",
        "a rank that was held up once is last once, and by far",
    )  # fmt: skip
    straggler_stands_out_of_few: float = _at(
        10.0, "the same, of fewer than five steps",
        "of few steps one stands out easily",
    )  # fmt: skip
    slow_step: float = _at(
        0.20, "a step is this much longer than the median step",
        "above the spread of warm steps on a machine of one's own",
    )  # fmt: skip
    slow_step_noise: float = _at(
        2.0, "and longer by this many times the spread of the steps below the median",
        "on steps that vary anyway one in forty is longer by chance; slow steps do not widen the "
        "spread, since it is taken below the median",
    )  # fmt: skip
    fewest_steps: float = _at(
        3.0, "slow steps are looked for among this many steps or more",
        "of two steps either may be the odd one",
    )  # fmt: skip
    throttled: float = _at(
        0.05, "this share of samples has a thermal, power or hardware clock-event reason",
        "one sample in twenty: longer than a blip",
    )  # fmt: skip

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if not isinstance(value, (int, float)) or not value >= 0:
                raise ValueError(
                    f"gpuperf: the threshold {f.name} is a number from 0 on: {value!r}"
                )


def threshold_rows(thresholds: Thresholds | None = None) -> list[tuple[str, float, str, str]]:
    """Name, value, what it says, why this value, in the order of declaration."""
    chosen = thresholds or Thresholds()
    return [
        (f.name, getattr(chosen, f.name), f.metadata["says"], f.metadata["why"])
        for f in fields(chosen)
    ]


def thresholds_markdown() -> str:
    """The default thresholds as the table of docs/how-to/summary.md."""
    head = "| threshold | default | said where | why this value |\n| :-- | :-- | :-- | :-- |\n"
    return head + "".join(
        f"| `{name}` | {value:g} | {says} | {why} |\n"
        for name, value, says, why in threshold_rows()
    )
