"""All that the checks look at."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_gpuperf.doctor.driver import Driver
from pytest_gpuperf.doctor.machine import Machine
from pytest_gpuperf.doctor.torch_facts import TorchFacts

NO_DRIVER = "no NVIDIA driver answers"


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the checks look at."""

    machine: Machine
    driver: Driver
    torch: TorchFacts
