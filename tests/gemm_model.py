"""An analytic GPU's matmul times: tiles, waves, memory, and what no model explains.

Formula, for a matmul of M·N·K with a tile (tm, tn) of relative speed e on S multiprocessors:

    tiles  = ceil(M/tm) · ceil(N/tn)
    waves  = ceil(tiles / S)
    time   = waves · (2·tm·tn·ceil(K/64)·64 / (peak/S · e) + fill) + launch
    time   = max(time, bytes / bandwidth),  bytes = (M·K + K·N + 2·M·N)·2

The library takes the fastest tile, in one of eight shapes the second fastest (a heuristic that
errs). The clock falls by up to 6% as the work of a matmul grows (a power limit), and each shape
has a factor of its own that nothing explains (log-normal, 0.4%). A call is that time with
log-normal noise of 1%, and one call of thirty takes 30% longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Tiles = tuple[tuple[int, int, float], ...]
TILES: Tiles = ((256, 128, 1.0), (128, 256, 1.0), (256, 64, 0.93), (64, 256, 0.93),
         (128, 128, 0.96), (128, 64, 0.86), (64, 128, 0.86), (64, 64, 0.72), (256, 192, 0.985),
         (192, 128, 0.98))  # fmt: skip
OTHER_TILES: Tiles = ((160, 320, 1.0), (320, 160, 1.0), (224, 224, 0.99), (96, 192, 0.9),
               (192, 96, 0.9), (96, 96, 0.8))  # fmt: skip
"""Another library's: none of them is a tile that the search takes for ordinary."""


@dataclass(frozen=True)
class Gpu:
    """Geometry: multiprocessors, dense TFLOPS, GB/s, FLOP at which the clock begins to fall."""

    units: int
    tflops: float
    gb_s: float
    throttles_at: float


GPUS = {
    "A100": Gpu(108, 312.0, 1555.0, 4e11),
    "H100": Gpu(132, 989.0, 3350.0, 3e11),
    "MI300X": Gpu(304, 1307.0, 5300.0, 1e12),
    "RTX 4090": Gpu(128, 165.2, 1008.0, 1e13),
    "L4": Gpu(58, 121.0, 300.0, 2e10),
}


class Table:
    """Times of every shape of a grid on one GPU, and noisy calls of them."""

    def __init__(
        self, gpu: Gpu, axes: tuple[range, range, range], seed: int, tiles: Tiles = TILES
    ) -> None:
        self._tiles = tiles
        self._random = np.random.default_rng(seed)
        self.axes = axes
        self.seconds = self._times(gpu)
        m, n, k = np.meshgrid(*axes, indexing="ij")
        self.tflops = 2.0 * m * n * k / self.seconds / 1e12
        self.timed: dict[tuple[int, int, int], int] = {}

    def _times(self, gpu: Gpu) -> Floats:
        m, n, k = (a.astype(np.float64) for a in np.meshgrid(*self.axes, indexing="ij"))
        per_unit = gpu.tflops * 1e12 / gpu.units
        each = []
        for tm, tn, speed in self._tiles:
            waves = np.ceil(np.ceil(m / tm) * np.ceil(n / tn) / gpu.units)
            inner = 2 * tm * tn * np.ceil(k / 64) * 64 / (per_unit * speed) + 1.5e-6
            each.append(waves * inner + 3e-6)
        ordered = np.sort(np.stack(each), axis=0)
        errs = self._random.random(m.shape) < 1 / 8
        seconds = np.where(errs, ordered[1], ordered[0])
        flops = 2 * m * n * k
        seconds *= 1 + 0.06 / (1 + gpu.throttles_at / flops)
        seconds = np.maximum(seconds, 2 * (m * k + k * n + 2 * m * n) / (gpu.gb_s * 1e9))
        result: Floats = seconds * np.exp(self._random.normal(0, 0.004, m.shape))
        return result

    def index(self, shape: tuple[int, int, int]) -> tuple[int, ...]:
        return tuple(axis.index(x) for axis, x in zip(self.axes, shape, strict=True))

    def time(self, shape: tuple[int, int, int], calls: int) -> tuple[float, ...]:
        """Seconds of `calls` calls."""
        self.timed[shape] = self.timed.get(shape, 0) + calls
        noise = np.exp(self._random.normal(0, 0.01, calls))
        noise[self._random.random(calls) < 1 / 30] *= 1.3
        return tuple((self.seconds[self.index(shape)] * noise).tolist())

    def share(self, shape: tuple[int, int, int]) -> float:
        """True rate of `shape` over that of the best of the whole table."""
        return float(self.tflops[self.index(shape)] / self.tflops.max())
