"""One measurement of the trace engine in a fresh process: seconds and memory as JSON.

``python -m benchmarks.trace_child WHAT PATH…``
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

QUESTIONS = ("timeline", "kernels", "collectives")
"""Timeline, kernels and ops, collectives: what the peer's four breakdowns are set against."""


def _peak_mb(process: int | str = "self") -> float:
    """The largest resident set of a program.

    Not ``ru_maxrss``: that keeps the peak of the process which started it.
    """
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


@contextmanager
def _helpers() -> Iterator[dict[str, float]]:
    """CPU seconds and peak memory of the processes that help to read, as they end."""
    from gpuperf_analyzers.trace.crew import _Member

    spent = {"cpu": 0.0, "peak_mb": 0.0}
    share, end = _Member.share, _Member.end

    def told_share(member: _Member) -> Any:
        found = share(member)  # it has read all, and waits to hand over its columns
        spent["peak_mb"] += _peak_mb(member._process.pid)  # noqa: SLF001  # its insides
        return found

    def told_end(member: _Member) -> None:
        stat = Path(f"/proc/{member._process.pid}/stat").read_text(encoding="ascii")  # noqa: SLF001
        fields = stat.rpartition(")")[2].split()
        spent["cpu"] += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        end(member)

    _Member.share, _Member.end = told_share, told_end  # type: ignore[method-assign]
    yield spent


def load(path: str) -> dict[str, float]:
    """File to columns."""
    from gpuperf_analyzers.trace.reader import read_trace

    start, cpu = time.perf_counter(), time.process_time()
    trace = read_trace(path)
    return {
        "load": time.perf_counter() - start,
        "cpu": time.process_time() - cpu,
        "peak_mb": _peak_mb(),
        "events": float(sum(trace.phases.values())),
    }


def analyze(path: str, processes: str = "1") -> dict[str, float]:
    """File to columns to all timeline, kernel, op and collective results.

    CPU time and memory are those of all processes together.
    """
    from gpuperf_analyzers.registry import load_config
    from gpuperf_analyzers.trace.classify import devices
    from gpuperf_analyzers.trace.reader import read_trace

    # Imports are in nobody's time; numpy makes this one on first use, the peer's pandas at once.
    import_module("numpy.ma")
    config = load_config()
    modules = [import_module(f"gpuperf_analyzers.{name}") for name in QUESTIONS]
    start, cpu = time.perf_counter(), time.process_time()
    with _helpers() as helpers:
        trace = read_trace(path, processes=int(processes))
    loaded, loaded_cpu = time.perf_counter(), time.process_time()
    for device in devices(trace):
        for module in modules:
            module.analyze(trace, config, device)
    done = time.perf_counter()
    return {
        "load": loaded - start,
        "analyses": done - loaded,
        "cpu": time.process_time() - cpu + helpers["cpu"],
        "share": (time.process_time() - loaded_cpu) / (loaded_cpu - cpu + helpers["cpu"]),
        "peak_mb": _peak_mb() + helpers["peak_mb"],
    }


def floor(path: str) -> dict[str, float]:
    """Inflate and scan: what no reader of JSON can be faster than, and the typed decode alone."""
    import msgspec

    from gpuperf_analyzers.trace import schema
    from gpuperf_analyzers.trace.blocks import _boundary
    from gpuperf_analyzers.trace.bounds import DEFAULT_BOUNDS
    from gpuperf_analyzers.trace.containers import Unpacked

    class Nothing(msgspec.Struct):
        """No field: every byte is looked at and none kept."""

    seconds = {}
    start = time.process_time()
    with Path(path).open("rb") as file:
        for _ in Unpacked(file, path, DEFAULT_BOUNDS):
            pass
    seconds["inflate"] = time.process_time() - start
    skip = msgspec.json.Decoder(list[Nothing])
    for name, decoder in (("scan", skip), ("decode", schema.block_decoder)):
        spent, pending = 0.0, b""
        with Path(path).open("rb") as file:
            for chunk in Unpacked(file, path, DEFAULT_BOUNDS):
                end, following = _boundary(chunk)
                if end:
                    block = b"".join((b"[", pending, memoryview(chunk)[:end], b"]"))
                    start = time.process_time()
                    try:
                        decoder.decode(block)
                    except msgspec.MsgspecError:  # the first block begins with the metadata
                        spent -= time.process_time() - start
                    spent += time.process_time() - start
                    pending = chunk[following:]
                else:
                    pending += chunk
        seconds[name] = spent
    return seconds


def cached(path: str) -> dict[str, float]:
    """First look through the cache, second look, and what the key costs."""
    from gpuperf_analyzers.trace import cache
    from gpuperf_analyzers.trace.bounds import DEFAULT_BOUNDS

    cache.SMALLEST = 0
    times = []
    for _ in range(2):
        start = time.perf_counter()
        cache.read_cached(path)
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    cache._key(path, DEFAULT_BOUNDS, salvage=True)  # noqa: SLF001  # a part of the second look
    key = time.perf_counter() - start
    kept = sum(p.stat().st_size for p in cache.cache_folder().glob("*.npz"))
    return {"first": times[0], "second": times[1], "key": key, "kept_mb": kept / 1e6}


def ranks(folder: str, processes: str) -> dict[str, float]:
    """All ranks in `folder` reduced to their timelines."""
    from gpuperf_analyzers.trace.sets import map_ranks

    start = time.perf_counter()
    found = map_ranks(folder, _timeline, processes=int(processes))
    wall = time.perf_counter() - start
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall": wall,
        "ranks": float(len(found.ranks)),
        "peak_mb": max(_peak_mb(), children.ru_maxrss * 1024 / 1e6),
    }


def _timeline(trace: Any) -> int:
    from gpuperf_analyzers import timeline
    from gpuperf_analyzers.registry import load_config
    from gpuperf_analyzers.trace.classify import devices

    config = load_config()
    return sum(len(list(timeline.analyze(trace, config, d).metrics())) for d in devices(trace))


WHAT: dict[str, Callable[..., dict[str, float]]] = {
    "load": load, "analyze": analyze, "floor": floor, "cached": cached, "ranks": ranks,
}  # fmt: skip

if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print(json.dumps(WHAT[sys.argv[1]](*sys.argv[2:])))
