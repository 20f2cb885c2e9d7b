"""A builder of synthetic Kineto traces that reads like the timeline it draws.

Times are in µs, as a trace stores them::

    t = KinetoTrace()
    with t.step(1, at=0, dur=100):
        t.op("aten::mm", at=10, dur=5, dims=[[64, 32], [32, 16]], dtypes=["float", "float"])
        t.launch("gemm", at=12, runs=(20, 60), stream=7)
    path = t.write(tmp_path / "rank0.json")
"""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MAIN = 100
"""pid and main thread of the synthetic process."""


class KinetoTrace:
    """Events and metadata of one rank, written as torch.profiler would."""

    def __init__(
        self,
        *,
        device: int = 0,
        device_name: str | None = "NVIDIA H100 80GB HBM3",
        rank: int | None = None,
        world_size: int | None = None,
        base_us: float = 1_000_000.0,
        **metadata: Any,
    ) -> None:
        self.events: list[dict[str, Any]] = []
        self.device = device
        self.base_us = base_us
        self.metadata: dict[str, Any] = {"schemaVersion": 1, **metadata}
        if device_name is not None:
            self.metadata["deviceProperties"] = [{"id": device, "name": device_name, "numSms": 132}]
        if rank is not None:
            self.metadata["distributedInfo"] = {
                "backend": "nccl",
                "rank": rank,
                "world_size": world_size or 1,
            }
        self._correlation = 0

    def event(
        self,
        name: str,
        cat: str | None,
        at: float,
        dur: float | None,
        *,
        pid: Any = MAIN,
        tid: Any = MAIN,
        ph: str = "X",
        **args: Any,
    ) -> dict[str, Any]:
        """One raw event."""
        e: dict[str, Any] = {
            "ph": ph,
            "name": name,
            "pid": pid,
            "tid": tid,
            "ts": self.base_us + at,
        }
        if cat is not None:
            e["cat"] = cat
        if dur is not None:
            e["dur"] = dur
        if args:
            e["args"] = args
        self.events.append(e)
        return e

    @contextlib.contextmanager
    def step(self, number: int, at: float, dur: float) -> Iterator[None]:
        """A host-side ProfilerStep span."""
        self.event(f"ProfilerStep#{number}", "user_annotation", at, dur)
        yield

    def op(
        self,
        name: str,
        at: float,
        dur: float,
        *,
        dims: Any = None,
        dtypes: Any = None,
        concrete: Any = None,
        tid: int = MAIN,
        **args: Any,
    ) -> None:
        """A CPU op."""
        if dims is not None:
            args["Input Dims"] = dims
        if dtypes is not None:
            args["Input type"] = dtypes
        if concrete is not None:
            args["Concrete Inputs"] = concrete
        self.event(name, "cpu_op", at, dur, tid=tid, **args)

    def launch(
        self,
        kernel: str,
        at: float,
        runs: tuple[float, float],
        *,
        call_dur: float = 2,
        stream: int = 7,
        tid: int = MAIN,
        call: str = "cudaLaunchKernel",
        cat: str = "kernel",
        device: int | None = None,
        recorded: bool = True,
        **args: Any,
    ) -> int:
        """A launch call at `at` and the activity it starts, running from runs[0] to runs[1].

        ``recorded=False`` leaves the launch call out. Returns the correlation id.
        """
        self._correlation += 1
        correlation = self._correlation
        if recorded:
            self.event(call, "cuda_runtime", at, call_dur, tid=tid, correlation=correlation)
        dev = self.device if device is None else device
        self.event(
            kernel,
            cat,
            runs[0],
            runs[1] - runs[0],
            pid=dev,
            tid=stream,
            device=dev,
            stream=stream,
            correlation=correlation,
            **args,
        )
        return correlation

    def runtime(self, call: str, at: float, dur: float, *, tid: int = MAIN, **args: Any) -> None:
        """A runtime call that starts nothing, such as a synchronize."""
        self._correlation += 1
        self.event(call, "cuda_runtime", at, dur, tid=tid, correlation=self._correlation, **args)

    def memory(
        self,
        at: float,
        bytes_: int,
        total: int,
        *,
        address: int = 4096,
        device_type: int = 0,
        device: int = -1,
        tid: int = MAIN,
    ) -> None:
        """A [memory] instant."""
        self.event(
            "[memory]",
            "cpu_instant_event",
            at,
            None,
            ph="i",
            tid=tid,
            **{
                "Bytes": bytes_,
                "Addr": address,
                "Total Allocated": total,
                "Total Reserved": 0,
                "Device Type": device_type,
                "Device Id": device,
            },
        )

    def to_json(self) -> dict[str, Any]:
        """The whole document."""
        return {**self.metadata, "traceEvents": self.events}

    def write(self, path: Path) -> Path:
        """The document as a file; gzip where the name ends in .gz."""
        text = json.dumps(self.to_json())
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text)
        return path
