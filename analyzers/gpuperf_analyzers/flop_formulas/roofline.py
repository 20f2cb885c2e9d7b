"""The roofline: what an op could reach on its device, and which side holds it back.

Williams, Waterman, Patterson, "Roofline: an insightful visual performance model" (2009):
attainable = min(peak, intensity x memory bandwidth), where intensity = FLOP / bytes moved. Bytes
are ideal, each operand once, so the true intensity is at most this.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuperf_analyzers.hardware import peak_tflops
from gpuperf_analyzers.hookspecs import Peak


@dataclass(frozen=True, slots=True)
class Roofline:
    """Where an op stands. None, or "", where a number that it needs is not known.

    ``intensity`` is FLOP per byte; ``tflops`` and ``gb_s`` what was achieved, GB being 1e9;
    ``attainable_tflops`` the roof over that intensity; ``bound`` which part of the roof it is,
    ``compute`` or ``memory``; ``share`` is achieved / attainable.
    """

    intensity: float | None
    tflops: float | None
    gb_s: float | None
    attainable_tflops: float | None
    bound: str
    share: float | None


def roofline(
    flops: int, moved: int | None, time_ns: int, peak: Peak | None, dtype: str
) -> Roofline:
    """Place `flops` over `moved` bytes in `time_ns` under the roof of `peak` for `dtype`."""
    intensity = flops / moved if moved else None
    achieved = flops / time_ns / 1e3 if time_ns else None
    gb_s = moved / time_ns if moved and time_ns else None
    top = peak_tflops(peak, dtype) if peak is not None else None
    slope = peak.memory_gb_s if peak is not None else None
    if intensity is None or top is None or slope is None:
        return Roofline(intensity, achieved, gb_s, None, "", None)
    sloped = intensity * slope / 1e3
    attainable = min(top, sloped)
    bound = "compute" if top <= sloped else "memory"
    share = achieved / attainable if achieved is not None else None
    return Roofline(intensity, achieved, gb_s, attainable, bound, share)
