"""The peak of this machine's CPU, measured once: no datasheet has it.

A short best-of search over matmul sizes with the threads that torch uses. The result is kept in
the user's cache directory, by processor, torch version and thread count, and is shown as
*measured*: it is what a large matmul reaches here, not what the silicon could.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, Literal

from pytest_gpuperf.recording.errors import RecordingError, import_torch
from pytest_gpuperf.recording.host_environment import cpu_model

CACHE_VARIABLE = "GPUPERF_CACHE_DIR"
_FILE = "cpu-peaks.json"
_BUDGET_S = 1.0
_PATIENCE = 4
_SIZES = (256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
_LONG_ENOUGH_S = 1e-3
"""A matmul shorter than this measures how fast threads start as well as how fast they multiply."""
_STEADY_S = 10e-3
"""A matmul of this length left in peace tells that the machine was not shared."""
_TRIES = " tries"
_MOST_TRIES = 5
_REST_S = 2e-3
_NOISE = 0.05
_TRY_AGAIN_S = 30.0
_LOCK_TIMEOUT_S = 60.0
_TORCH_NAMES = {"fp64": "float64", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
MEASURED_DTYPES = frozenset(_TORCH_NAMES)
"""Dtypes that :func:`measured_cpu_peak` takes."""
Search = Literal["again", "better", "missing", "never"]
_in_process: dict[tuple[str, str], float] = {}
_too_busy_at: dict[tuple[str, str], float] = {}
_searched_again: set[tuple[str, str]] = set()


def measured_cpu_peak(dtype: str, *, search: Search = "better") -> float:
    """The highest TFLOPS that a square matmul of `dtype` reached on this machine.

    FLOP are 2·N³; the best repetition of the best N counts. A few seconds the first time,
    read from the cache after that; where the cache cannot be written the measurement is made once a
    process.

    Parameters
    ----------
    dtype
        ``fp64``, ``fp32``, ``bf16`` or ``fp16``.
    search
        When it is to be measured: ``missing`` where it is not known yet, ``better`` also where a
        busy machine gave what is known, ``again`` whatever is known (once a process; the best
        stays), ``never``.

    Raises
    ------
    RecordingError
        No matmul of `dtype` is measured on a CPU, or the machine is too busy to measure one.
    """
    if dtype not in _TORCH_NAMES:
        raise RecordingError(
            f"gpuperf: the CPU's peak is measured for {', '.join(_TORCH_NAMES)}, not for {dtype!r}"
        )
    torch = import_torch()
    machine = machine_key(torch.get_num_threads())
    key = (machine, dtype)
    known = _in_process.get(key)
    if known is not None and search == "again" and key not in _searched_again:
        _searched_again.add(key)
        found = _cached(cache_directory() / _FILE, machine, dtype, again=True)
        _in_process[key] = known = max(known, found or 0.0)
    if known is not None:
        return known
    # Each search takes seconds: a machine that was too busy is not asked again at once.
    if perf_counter() - _too_busy_at.get(key, -_TRY_AGAIN_S) >= _TRY_AGAIN_S:
        path = cache_directory() / _FILE
        found = None if search in ("better", "again") else _read(path).get(machine, {}).get(dtype)
        if found is None and search != "never":
            found = _cached(path, machine, dtype)
            if found is None:
                _too_busy_at[key] = perf_counter()
        if found is not None:
            _in_process[key] = found
            return found
    raise RecordingError(
        f"no {dtype} peak of this CPU: other processes kept its cores busy while it was to be "
        "measured; measure once on an idle machine"
    )


def machine_key(threads: int) -> str:
    """What a peak belongs to: the processor, torch's version, the number of threads."""
    return f"{cpu_model()} | torch {import_torch().__version__} | {threads} threads"


def cache_directory() -> Path:
    """Where measured peaks are kept: ``GPUPERF_CACHE_DIR``, else the user's cache directory."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("gpuperf")


@dataclass(frozen=True, slots=True)
class Found:
    """What one search gave: `steady` where the machine was quiet enough for long matmuls too."""

    tflops: float
    steady: bool


def _cached(path: Path, machine: str, dtype: str, *, again: bool = False) -> float | None:
    """The peak from the file, measured and added to it where it is not there, or `again`.

    What an unsteady machine gave may be some percent low: the next processes search again, up to
    a number of times, and the best of all stays.
    """
    from filelock import FileLock, Timeout

    known = _settled(_read(path).get(machine, {}), dtype)
    if known is not None and not again:
        return known
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Held while measuring: two searches at once would halve each other's result.
        with FileLock(f"{path}.lock", timeout=_LOCK_TIMEOUT_S):
            peaks = _read(path)
            entry = peaks.setdefault(machine, {})
            known = _settled(entry, dtype)
            if known is not None and not again:
                return known
            found = _search(dtype)
            if found is not None:
                _keep_best(entry, dtype, found)
                _write(path, peaks)
            return entry.get(dtype)
    except (OSError, Timeout):
        found = _search(dtype)
        return None if found is None else found.tflops


def _settled(entry: Mapping[str, float], dtype: str) -> float | None:
    """The peak of `dtype` where no further search would better it."""
    tries = entry.get(dtype + _TRIES, 0)
    return entry.get(dtype) if tries == 0 or tries >= _MOST_TRIES else None


def _keep_best(entry: dict[str, float], dtype: str, found: Found) -> None:
    """Add one search to the machine's entry."""
    entry[dtype] = max(found.tflops, entry.get(dtype, 0.0))
    if found.steady:
        entry.pop(dtype + _TRIES, None)
    else:
        entry[dtype + _TRIES] = entry.get(dtype + _TRIES, 0.0) + 1.0


def _read(path: Path) -> dict[str, dict[str, float]]:
    """The file's peaks; what is damaged or not a positive number counts as not measured."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(raw, dict):
        return {}
    return {
        machine: {d: v for d, v in peaks.items() if isinstance(v, float) and v > 0}
        for machine, peaks in raw.items()
        if isinstance(peaks, dict)
    }


def _write(path: Path, peaks: dict[str, dict[str, float]]) -> None:
    """Replace the file in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(json.dumps(peaks, indent=1), encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _search(dtype: str) -> Found | None:
    """Best TFLOPS over sizes and undisturbed repetitions; None where the machine is too busy.

    On a loaded machine a matmul reaches a fraction of the peak, and a peak that is too low makes
    every share of it too high. So a repetition counts only if no other process took a core from
    it, and one that lasted a millisecond must. Such a millisecond is found on any machine that is
    not overrun; larger matmuls, which take longer, add what they can.
    """
    torch = import_torch()
    # Its own generator: the program's random numbers are none of ours to draw.
    numbers = torch.Generator().manual_seed(0)
    begin = perf_counter()
    with torch.inference_mode():
        while True:
            found = _best_over_sizes(torch, getattr(torch, _TORCH_NAMES[dtype]), numbers)
            if found is not None or perf_counter() - begin > _BUDGET_S * _PATIENCE:
                return found


def _best_over_sizes(torch: Any, kind: Any, numbers: Any) -> Found | None:
    """Best TFLOPS of the sizes, each twice the time of the one before at least, tried once."""
    best, longest = 0.0, 0.0
    begin = perf_counter()
    for size, larger in zip(_SIZES, (*_SIZES[1:], 0), strict=True):
        a = torch.rand(size, size, generator=numbers).to(kind)
        b = torch.rand(size, size, generator=numbers).to(kind)
        out = torch.empty(size, size, dtype=kind)
        undisturbed, fastest = _fastest(partial(torch.mm, a, b, out=out))
        if undisturbed is not None:
            best = max(best, 2 * size**3 / undisturbed / 1e12)
            # Of a machine for which all are short the largest is as long as it gets.
            longest = max(longest, undisturbed if larger else inf)
        elif longest >= _LONG_ENOUGH_S:
            break  # a longer one has even less of a chance
        if (larger / size) ** 3 * fastest > _BUDGET_S - (perf_counter() - begin) / _PATIENCE:
            break
    return Found(best, longest >= _STEADY_S) if longest >= _LONG_ENOUGH_S else None


def _fastest(matmul: Callable[[], object]) -> tuple[float | None, float]:
    """Seconds of the fastest undisturbed repetition (None: there was none), and of any.

    Repetitions go on for a share of the budget, on a noisy machine for several of them: threads
    that had to wait for a core to begin on slow one down without a trace.
    """
    share = _BUDGET_S / len(_SIZES)
    undisturbed: float | None = None
    fastest, repetitions, noisy = inf, 0, 0
    begin = perf_counter()
    while True:
        lost = cores_lost()
        start = perf_counter()
        matmul()
        took = perf_counter() - start
        fastest, repetitions = min(fastest, took), repetitions + 1
        if cores_lost() == lost:
            undisturbed = took if undisturbed is None else min(undisturbed, took)
        else:
            noisy += 1
            # Who has slept is let run first, and for a while.
            sleep(_REST_S)
        spent = perf_counter() - begin
        if spent > share * (_PATIENCE if noisy > _NOISE * repetitions else 1):
            return undisturbed, fastest


def cores_lost() -> int:
    """How often a thread of this process was made to leave its core; 0 where unknown."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
