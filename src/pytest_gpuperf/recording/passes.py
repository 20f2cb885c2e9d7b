"""The pass under the profiler, made again with more steps while a limit is still open."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from gpuperf_analyzers.live_block import LiveBlock
from pytest_gpuperf.recording.coordination import Coordinator
from pytest_gpuperf.recording.gpu_watch import counters_of
from pytest_gpuperf.recording.host_environment import environment
from pytest_gpuperf.recording.memory import alive_bytes
from pytest_gpuperf.recording.options import Options
from pytest_gpuperf.recording.profiled import profile_steps
from pytest_gpuperf.recording.quiet import garbage_collection_off
from pytest_gpuperf.recording.sampling import Workload

if TYPE_CHECKING:
    import torch

    from gpuperf_analyzers.config import Config

Enough = Callable[[Path, "Config | None"], bool]
"""Whether a trace decides the limits on what it shows."""


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes under the profiler of one recording; each writes the trace at ``path`` anew."""

    workload: Workload
    device: torch.device
    path: Path
    coordinator: Coordinator

    def until(
        self, enough: Enough | None, block: LiveBlock, options: Options, config: Config | None
    ) -> LiveBlock:
        """The block, completed, once the trace decides the limits or the time is spent."""
        steps, spent_s = options.steps, 0.0
        first_notes = block.notes
        while True:
            begin = perf_counter()
            block = self._one(replace(block, steps=steps))
            spent_s += perf_counter() - begin
            if enough is None or not self.coordinator.any(not enough(self.path, config)):
                return block
            if not self.coordinator.agree(spent_s < options.max_time_s):
                return block
            steps *= 2
            note = f"profiled again with {steps} steps: fewer did not decide the limits"
            block = replace(block, notes=(*first_notes, note))

    def _one(self, block: LiveBlock) -> LiveBlock:
        """Write the trace with the block inside; the block, completed, comes back."""
        complete = [block]

        def metadata() -> str:
            complete[0] = replace(
                block, alive_bytes=alive_bytes(self.device), environment=environment(self.device)
            )
            return json.dumps(complete[0].to_json())

        with garbage_collection_off(), counters_of(self.device) as counters:
            profile_steps(
                self.workload,
                device=self.device,
                steps=block.steps,
                metadata=metadata,
                path=self.path,
                barrier=self.coordinator.barrier,
                counters=counters,
            )
        return complete[0]
