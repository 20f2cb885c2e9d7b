"""``gpuperf analyze … --nccl-log FILE``: what NCCL chose, in place of what kernel names hint at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_gpuperf.cli.inputs import complain

if TYPE_CHECKING:
    from gpuperf_analyzers.analysis import DeviceAnalysis
    from gpuperf_analyzers.nccl_log import Choice
    from gpuperf_analyzers.set_analysis import SetAnalysis


def read_choices(logs: Sequence[str]) -> tuple[Choice, ...] | None:
    """The choices in `logs`; None, after a line why, where they cannot be had."""
    from gpuperf_analyzers.nccl_log import read_nccl_log

    try:
        return read_nccl_log(*logs)
    except ValueError as error:
        complain(str(error))
    except OSError as error:
        complain(f"{error.filename}: {error.strerror or error}")
    return None


def told_by_log(found: SetAnalysis, choices: Sequence[Choice]) -> SetAnalysis:
    """`found` with the log's algorithm and protocol at every collective whose size it names."""
    from gpuperf_analyzers.nccl_log import with_choices

    def told(device: DeviceAnalysis) -> DeviceAnalysis:
        collectives = with_choices(device.results["collectives"], choices)
        return replace(device, results={**device.results, "collectives": collectives})

    ranks = (replace(rank, devices=tuple(map(told, rank.devices))) for rank in found.ranks)
    return replace(found, ranks=tuple(ranks))
