"""The peak of this machine's CPU, measured once: no datasheet has it.

A short best-of search over matmul sizes with the threads that torch uses. The result is kept in
the user's cache directory, by processor, torch version and thread count, and is shown as
*measured*: it is what a large matmul reaches here, not what the silicon could.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

from pytest_gpuperf.recording.errors import RecordingError, import_torch
from pytest_gpuperf.recording.host_environment import cpu_model

CACHE_VARIABLE = "GPUPERF_CACHE_DIR"
_FILE = "cpu-peaks.json"
_BUDGET_S = 1.0
_PATIENCE = 3
_SIZES = (256, 512, 1024, 2048, 4096)
_LOCK_TIMEOUT_S = 60.0
_TORCH_NAMES = {"fp64": "float64", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
MEASURED_DTYPES = frozenset(_TORCH_NAMES)
"""Dtypes that :func:`measured_cpu_peak` takes."""
_in_process: dict[tuple[str, str], float | None] = {}


def measured_cpu_peak(dtype: str) -> float:
    """The highest TFLOPS that a square matmul of `dtype` reached on this machine.

    FLOP are 2·N³; the best repetition of the best N counts. A second or three the first time,
    read from the cache after that; where the cache cannot be written the measurement is made once a
    process.

    Parameters
    ----------
    dtype
        ``fp64``, ``fp32``, ``bf16`` or ``fp16``.

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
    machine = f"{cpu_model()} | torch {torch.__version__} | {torch.get_num_threads()} threads"
    key = (machine, dtype)
    if key not in _in_process:
        _in_process[key] = _cached(cache_directory() / _FILE, machine, dtype)
    peak = _in_process[key]
    if peak is None:
        raise RecordingError(
            f"no {dtype} peak of this CPU: other processes kept its cores busy while it was to be "
            "measured; measure once on an idle machine"
        )
    return peak


def cache_directory() -> Path:
    """Where measured peaks are kept: ``GPUPERF_CACHE_DIR``, else the user's cache directory."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("gpuperf")


def _cached(path: Path, machine: str, dtype: str) -> float | None:
    """The peak from the file, measured and added to it where it is not there."""
    from filelock import FileLock, Timeout

    known = _read(path).get(machine, {}).get(dtype)
    if known is not None:
        return known
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Held while measuring: two searches at once would halve each other's result.
        with FileLock(f"{path}.lock", timeout=_LOCK_TIMEOUT_S):
            peaks = _read(path)
            known = peaks.get(machine, {}).get(dtype)
            if known is None:
                known = _search(dtype)
                if known is not None:
                    peaks.setdefault(machine, {})[dtype] = known
                    _write(path, peaks)
            return known
    except (OSError, Timeout):
        return _search(dtype)


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


def _search(dtype: str) -> float | None:
    """Best TFLOPS over sizes and undisturbed repetitions; None where the machine is too busy.

    On a loaded machine a matmul reaches a fraction of the peak, and a peak that is too low makes
    every share of it too high. So a repetition counts only if no other process took a core from
    it, and one of the two largest sizes tried must have such a repetition.
    """
    torch = import_torch()
    kind = getattr(torch, _TORCH_NAMES[dtype])
    # Its own generator: the program's random numbers are none of ours to draw.
    numbers = torch.Generator().manual_seed(0)
    found: list[float | None] = []
    begin = perf_counter()
    with torch.inference_mode():
        for size in _SIZES:
            a = torch.rand(size, size, generator=numbers).to(kind)
            b = torch.rand(size, size, generator=numbers).to(kind)
            out = torch.empty(size, size, dtype=kind)
            fastest, seconds = _fastest(partial(torch.mm, a, b, out=out))
            found.append(None if fastest is None else 2 * size**3 / fastest / 1e12)
            # The next size costs eight times as much: not begun where it would not fit.
            if perf_counter() - begin + 8 * seconds > _BUDGET_S * _PATIENCE:
                break
    undisturbed = [tflops for tflops in found if tflops is not None]
    return max(undisturbed) if any(found[-2:]) else None


def _fastest(matmul: Callable[[], object]) -> tuple[float | None, float]:
    """Seconds of the fastest undisturbed repetition (None: there was none), and of the last one.

    Repetitions go on for a share of the budget, for several of them while all are disturbed.
    """
    share = _BUDGET_S / len(_SIZES)
    fastest: float | None = None
    begin = perf_counter()
    while True:
        lost = _cores_lost()
        start = perf_counter()
        matmul()
        end = perf_counter()
        if _cores_lost() == lost:
            fastest = end - start if fastest is None else min(fastest, end - start)
        spent = end - begin
        if spent > share * _PATIENCE or (spent > share and fastest is not None):
            return fastest, end - start


def _cores_lost() -> int:
    """How often a thread of this process was made to leave its core; 0 where unknown."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
