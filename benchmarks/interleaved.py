"""Whole commands timed in turn, A B A B …, so that a machine's drift falls on all alike."""

from __future__ import annotations

import resource
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of each round of one command."""

    wall_s: tuple[float, ...]
    cpu_s: tuple[float, ...]

    @property
    def wall(self) -> float:
        """Median wall-clock seconds."""
        return statistics.median(self.wall_s)

    @property
    def cpu(self) -> float:
        """Median CPU seconds, user and system."""
        return statistics.median(self.cpu_s)


def time_commands(
    commands: Mapping[str, Sequence[str]],
    *,
    rounds: int,
    cwd: Path,
    env: Mapping[str, str] | None = None,
) -> dict[str, Timing]:
    """Time each command `rounds` times in alternating order, after one round that is not counted.

    Raises
    ------
    subprocess.CalledProcessError
        A command failed; its output is in the exception.
    """
    walls: dict[str, list[float]] = {name: [] for name in commands}
    cpus: dict[str, list[float]] = {name: [] for name in commands}
    names = list(commands)
    for index in range(rounds + 1):
        for name in names if index % 2 else reversed(names):
            wall, cpu = _run(commands[name], cwd, env)
            if index:
                walls[name].append(wall)
                cpus[name].append(cpu)
    return {name: Timing(tuple(walls[name]), tuple(cpus[name])) for name in names}


def _run(command: Sequence[str], cwd: Path, env: Mapping[str, str] | None) -> tuple[float, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu
