"""Calls of one matmul on this device, timed one by one.

A product of (M×K)·(K×N) of normal random numbers into a tensor made before. Half as many
warm-ups as timed calls come first (the ratio that others use, 50 and 100). On a GPU each call
lies between two CUDA events, after a write of twice the L2 cache, as other searches for this
number do. On a CPU it is the host's clock, caches as calls leave them; a call in which another
process took a core from one of ours does not count where enough others do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.mamf.ranges import Grid, Shape
from pytest_gpuperf.recording.capacity import available_bytes
from pytest_gpuperf.recording.cpu_peak import cores_lost
from pytest_gpuperf.recording.errors import RecordingError, import_torch
from pytest_gpuperf.recording.l2_cache import flushed
from pytest_gpuperf.recording.mamf_cache import DTYPES
from pytest_gpuperf.recording.sampling import Workload
from pytest_gpuperf.recording.timers import make_timer

if TYPE_CHECKING:
    import torch

FEWEST_CALLS = 3
"""Timed calls of a shape, whatever they take."""
_MOST_TRIES = 3
"""Calls made for each one wanted, on a CPU that is not ours alone."""
_PROBE, _FEWEST_TILES, _FASTER = 256, 64, 4
"""Rows and columns of a small product, how many such a large one has, and how much faster it may
be for the same FLOP."""
_TORCH = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
_FP8_MULTIPLE = 16
_NEEDS = {"tf32": (8, 0), "fp8": (8, 9)}


class TimeOverError(Exception):
    """The time given to a search is over, or too short for three calls of the shape in hand."""


def check_dtype(dtype: str, device: torch.device, grid: Grid) -> None:
    """Whether `device` can multiply shapes of `grid` in `dtype`.

    Raises
    ------
    RecordingError
        It cannot; one line with the mend.
    """
    torch = import_torch()
    if dtype not in DTYPES:
        raise RecordingError(f"gpuperf: no dtype {dtype!r}: name one of {', '.join(DTYPES)}")
    hip = getattr(torch.version, "hip", None)
    if device.type != "cuda":
        if dtype == "tf32":
            raise RecordingError("gpuperf: tf32 is of NVIDIA GPUs: on a CPU take --dtype fp32")
    elif dtype == "tf32" and hip:
        raise RecordingError("gpuperf: torch has no tf32 on AMD GPUs: take --dtype fp32")
    elif dtype in _NEEDS and not hip:
        have = torch.cuda.get_device_capability(device)
        if have < _NEEDS[dtype]:
            need = ".".join(map(str, _NEEDS[dtype]))
            raise RecordingError(
                f"gpuperf: {dtype} needs compute capability {need}, this GPU has "
                f"{have[0]}.{have[1]}: take another --dtype"
            )
    if dtype == "fp8" and device.type == "cuda":
        odd = next((s for axis in (grid.n, grid.k) for s in axis if s % _FP8_MULTIPLE), None)
        if odd is not None:
            raise RecordingError(
                f"gpuperf: fp8 takes N and K in multiples of {_FP8_MULTIPLE}, not {odd}"
            )
    if dtype == "fp8" and not hasattr(torch, "_scaled_mm"):
        raise RecordingError("gpuperf: this torch has no _scaled_mm, which fp8 needs: update torch")


@contextmanager
def fp32_matmuls(dtype: str, device: torch.device) -> Iterator[None]:
    """float32 matmuls on a GPU run as TF32 for ``tf32`` and in full for ``fp32``, then as before.

    The old name of the setting raises once a program has used the current one.
    """
    if device.type != "cuda" or dtype not in ("fp32", "tf32"):
        yield
        return
    matmul = import_torch().backends.cuda.matmul
    name = "fp32_precision" if hasattr(matmul, "fp32_precision") else "allow_tf32"
    values = ("tf32", "ieee") if name == "fp32_precision" else (True, False)
    before = getattr(matmul, name)
    setattr(matmul, name, values[0] if dtype == "tf32" else values[1])
    try:
        yield
    finally:
        setattr(matmul, name, before)


class MatmulTimer:
    """``time(shape, calls)`` for a search, on a device and in a dtype that fit.

    Attributes
    ----------
    failures
        Shapes that could not be run, and why.
    disturbed
        Shapes on a CPU whose latest calls were all disturbed, but for two: these count too.
    notes
        Conditions of the timing, in words.
    name
        The timer: ``event`` or ``wall``.
    """

    def __init__(
        self, device: torch.device, dtype: str, *, shape_s: float = 5.0, until: float | None = None
    ) -> None:
        """Make a timer that spends about `shape_s` seconds a question, three calls excepted.

        At `until` (``perf_counter``) it ends within a question, even a warm-up; a call is not cut.
        """
        self.failures: dict[Shape, str] = {}
        self.disturbed: set[Shape] = set()
        self.notes: tuple[str, ...] = ()
        self._device, self._dtype, self._shape_s = device, dtype, shape_s
        self._until = inf if until is None else until
        self._timer = make_timer(None, device)
        self.name = self._timer.name
        self._prepare: Callable[[], object] | None = None
        if device.type == "cuda":
            try:
                self._prepare = flushed(Workload(lambda: None), device).setup
            except RecordingError:
                self.notes = ("the L2 cache is as calls leave it: torch does not tell its size",)
        self._random = import_torch().Generator(device).manual_seed(0)

    @property
    def l2(self) -> str:
        """``cold`` where the cache is flushed before each call, else ``hot``; "" on a CPU."""
        if self._device.type != "cuda":
            return ""
        return "hot" if self._prepare is None else "cold"

    def time(self, shape: Shape, calls: int) -> tuple[float, ...]:
        """Seconds of each call; none where the shape cannot be run (see :attr:`failures`).

        Raises
        ------
        TimeOverError
            The end was reached, or three calls would go beyond it, or on a CPU one, by far.
        """
        torch = import_torch()
        why = self._too_large(shape)
        if why:
            self.failures[shape] = why
            return ()
        try:
            with torch.inference_mode():
                self._check_hope(torch, shape)
                taken = self._timed(self._matmul(torch, shape), calls, shape)
        except RuntimeError as error:  # out of memory, or a shape that the library refuses
            lines = str(error).strip().splitlines()
            self.failures[shape] = lines[0] if lines else type(error).__name__
            if self._device.type == "cuda":
                torch.cuda.empty_cache()
            return ()
        if min(taken) <= 0:
            self.failures[shape] = "too short for the clock"
            return ()
        return taken

    def _too_large(self, shape: Shape) -> str:
        """Why `shape` does not fit into memory; "" where it does, or nobody knows."""
        m, n, k = shape
        size = _BYTES[self._dtype]
        # fp8 operands are made from bf16 ones, and the product is bf16.
        need = (m * k + k * n) * (3 if self._dtype == "fp8" else size) + m * n * max(size, 2)
        free = available_bytes(self._device)
        if free is None or need <= free:
            return ""
        return f"needs {need / 2**30:.1f} GiB of memory, {free / 2**30:.1f} GiB are free"

    def _check_hope(self, torch: Any, shape: Shape) -> None:
        """Leave a shape of which not even one call fits by far, for a call of it cannot be left.

        On a CPU a product of 20480³ takes minutes. One of 256 of its rows and columns says how
        many, and the whole may be four times as fast.
        """
        m, n, k = shape
        tiles = m * n / _PROBE**2
        if self._until == inf or self._device.type == "cuda" or tiles < _FEWEST_TILES:
            return
        call = self._matmul(torch, (_PROBE, _PROBE, k))
        call()
        begin = perf_counter()
        call()
        took = perf_counter() - begin
        if took * tiles / _FASTER > self._until - perf_counter():
            raise TimeOverError

    def _matmul(self, torch: Any, shape: Shape) -> Callable[[], object]:
        m, n, k = shape

        def made(rows: int, columns: int, kind: Any) -> Any:
            return torch.randn(
                rows, columns, generator=self._random, device=self._device, dtype=kind
            )

        if self._dtype == "fp8":
            kind = _fp8(torch, self._device)
            a = made(m, k, torch.bfloat16).to(kind)
            # The second operand is given by columns, as the hardware wants it.
            b = made(n, k, torch.bfloat16).to(kind).t()
            one = torch.ones((), device=self._device)
            into = torch.empty(m, n, device=self._device, dtype=torch.bfloat16)
            multiply = torch._scaled_mm  # noqa: SLF001 - torch has no public name for it
            return lambda: multiply(
                a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, out=into
            )
        kind = getattr(torch, _TORCH[self._dtype])
        a, b = made(m, k, kind), made(k, n, kind)
        out = torch.empty(m, n, device=self._device, dtype=kind)
        return lambda: torch.mm(a, b, out=out)

    def _timed(self, call: Callable[[], object], calls: int, shape: Shape) -> tuple[float, ...]:
        timer = self._timer
        begin = perf_counter()
        call()
        timer.synchronize()
        self._check_time()
        if perf_counter() - begin < self._shape_s:  # else one warm-up must do
            begin = perf_counter()
            call()
            timer.synchronize()
        took = perf_counter() - begin
        left = self._until - perf_counter()
        if left < FEWEST_CALLS * took:
            raise TimeOverError
        fitting = int(min(self._shape_s, left) / max(took, 1e-9) / 1.5)
        calls = max(FEWEST_CALLS, min(calls, fitting))
        for _ in range(calls // 2 - 2):
            call()
            self._check_time()
        if self._device.type == "cuda":
            return self._queued(call, calls)
        return self._undisturbed(call, calls, shape)

    def _check_time(self) -> None:
        if perf_counter() > self._until:
            raise TimeOverError

    def _queued(self, call: Callable[[], object], calls: int) -> tuple[float, ...]:
        """Calls that the device does one after the other, the host ahead of it."""
        timer = self._timer
        marks = []
        for _ in range(calls):
            if self._prepare is not None:
                self._prepare()
            start = timer.mark()
            call()
            marks.append((start, timer.mark()))
        timer.synchronize()
        return tuple(timer.elapsed_us(start, end) / 1e6 for start, end in marks)

    def _undisturbed(
        self, call: Callable[[], object], calls: int, shape: Shape
    ) -> tuple[float, ...]:
        """`calls` that kept their cores; all of them where too few did in twice the time."""
        timer = self._timer
        kept: list[float] = []
        all_calls: list[float] = []
        end = min(perf_counter() + 2 * self._shape_s, self._until)
        while len(kept) < calls and len(all_calls) < _MOST_TRIES * calls:
            lost = cores_lost()
            start = timer.mark()
            call()
            took = timer.elapsed_us(start, timer.mark()) / 1e6
            all_calls.append(took)
            if cores_lost() == lost:
                kept.append(took)
            if perf_counter() > end and len(all_calls) >= FEWEST_CALLS:
                break
            self._check_time()
        if len(kept) >= FEWEST_CALLS:
            self.disturbed.discard(shape)
            return tuple(kept)
        self.disturbed.add(shape)
        return tuple(all_calls)


def _fp8(torch: Any, device: torch.device) -> Any:
    """The 8-bit float that the device multiplies: AMD's gfx94x has an encoding of its own."""
    if getattr(torch.version, "hip", None):
        name = str(torch.cuda.get_device_properties(device).gcnArchName)
        if name.startswith("gfx94"):
            return torch.float8_e4m3fnuz
    return torch.float8_e4m3fn
