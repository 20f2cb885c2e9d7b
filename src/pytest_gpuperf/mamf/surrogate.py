"""What shapes not timed yet may reach, guessed from those that were: a Gaussian process.

The logarithm of a shape's rate is modelled as the sum of a smooth function of the logarithms of
M, N and K, and of a function of how well a GPU's tiles fill its waves. A library cuts the product
into tiles of tm·tn, and S multiprocessors work on S of them at a time: with
``tiles = ceil(M/tm)·ceil(N/tn)`` the share of a tile's time that is useful is at most
``M·N / (ceil(tiles/S)·S·tm·tn)``. These shares are coordinates beside the three logarithms: those
of ordinary tiles, or of the tiles that explain best what was timed so far, whichever makes it
likelier. Guesses choose what to time next and nothing else: no number in a result comes from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

Tiles = tuple[tuple[int, int], ...]
TILES: Tiles = ((128, 256), (128, 128), (256, 256), (64, 128))
"""Ordinary tiles of GEMM kernels, each with its transpose; a library's own may be others."""
_SIDES = (64, 96, 128, 160, 192, 224, 256, 320)
_LEARNT = 4
_ENOUGH = 40
_LENGTHS = (0.3, 0.6, 1.2)
_FILL_LENGTHS = (0.05, 0.15, 0.4)
_NOISES = (1e-3, 1e-2, 1e-1)
_FILL_SHARE = 0.5
_CHUNK = 8192


def fill_shares(shapes: Any, units: int, tiles: Tiles) -> Floats:
    """How much of the waves that a shape makes is useful, a column a tile.

    Of a tile and its transpose a library takes the better one.

    Parameters
    ----------
    shapes
        Rows of M, N, K.
    units
        Multiprocessors.
    tiles
        Tiles, each of which stands for its transpose too.
    """
    import numpy as np

    sizes = np.asarray(shapes, dtype=np.float64)
    m, n = sizes[:, 0], sizes[:, 1]
    columns = []
    for tm, tn in tiles:
        both = []
        for a, b in {(tm, tn), (tn, tm)}:
            waves = np.ceil(np.ceil(m / a) * np.ceil(n / b) / units)
            both.append(m * n / (waves * units * a * b))
        columns.append(np.maximum.reduce(both))
    return np.stack(columns, axis=1)


def learnt_tiles(shapes: Any, log_rates: Floats, units: int) -> Tiles:
    """The few tiles whose waves explain best what is not smooth in `log_rates`.

    Chosen one by one: what a quadratic of the logarithms of the sides leaves over is correlated
    with the logarithm of each tile's share, and what the chosen one explains is taken out.
    """
    import numpy as np

    logs = np.log2(np.asarray(shapes, dtype=np.float64))
    pairs = [logs[:, i] * logs[:, j] for i in range(3) for j in range(i, 3)]
    basis = [np.ones(len(logs)), *logs.T, *pairs]
    tiles = [(a, b) for a in _SIDES for b in _SIDES if a <= b]
    columns = np.log(fill_shares(shapes, units, tuple(tiles)))
    chosen: list[tuple[int, int]] = []
    for _ in range(_LEARNT):
        known = np.stack(basis, axis=1)
        left = _unexplained(known, log_rates)
        apart = _unexplained(known, columns)
        norms = np.linalg.norm(apart, axis=0)
        # What is as good as known already would be divided by next to nothing.
        scores = np.where(norms > 1e-6, np.abs(apart.T @ left) / np.maximum(norms, 1e-6), 0.0)
        best = int(np.argmax(scores))
        chosen.append(tiles[best])
        basis.append(columns[:, best])
    return tuple(chosen)


def _unexplained(known: Floats, values: Floats) -> Floats:
    """What of `values` is no linear combination of the columns of `known`."""
    import numpy as np

    left: Floats = values - known @ np.linalg.lstsq(known, values, rcond=None)[0]
    return left


class Surrogate:
    """Guesses of log rates, fitted to some shapes."""

    def __init__(self, shapes: Sequence[tuple[int, int, int]], rates: Sequence[float],
                 units: int | None) -> None:  # fmt: skip
        import numpy as np

        self._units = units
        self._shapes = np.asarray(shapes, dtype=np.float64)
        self._logs = np.log2(self._shapes)
        # Shapes that reach little tell nothing of the top: beyond a factor of 8 all are alike.
        target = np.maximum(np.log(np.asarray(rates)), np.log(max(rates)) - 2.1)
        self._mean = float(target.mean())
        self._scale = float(target.std()) or 1.0
        self._target = (target - self._mean) / self._scale
        self._best = -np.inf
        if units is None:
            self._fit(())
            return
        self._fit(TILES)
        if len(self._shapes) >= _ENOUGH:
            self._fit(learnt_tiles(self._shapes, target, units))

    def _fill(self, shapes: Any, tiles: Tiles) -> Floats:
        import numpy as np

        if self._units is None or not tiles:
            return np.zeros((len(shapes), 0))
        return fill_shares(shapes, self._units, tiles)

    def _fit(self, tiles: Tiles) -> None:
        """Lengths and noise of the greatest likelihood, of a few of each, with these tiles."""
        fills = self._fill(self._shapes, tiles)
        fill_lengths = _FILL_LENGTHS if tiles else _FILL_LENGTHS[:1]
        near, fill_near = _squares(self._logs, self._logs), _squares(fills, fills)
        for length in _LENGTHS:
            for fill_length in fill_lengths:
                kernel = self._kernel(near, fill_near, length, fill_length, tiles)
                for noise in _NOISES:
                    found = _likelihood(kernel, noise, self._target)
                    if found is not None and found[0] > self._best:
                        self._best, self._factor, self._weights = found
                        self._lengths = (length, fill_length)
                        self._tiles, self._fills = tiles, fills

    @staticmethod
    def _kernel(
        near: Floats, fill_near: Floats, length: float, fill: float, tiles: Tiles
    ) -> Floats:
        import numpy as np

        smooth: Floats = np.exp(-near / (2 * length**2))
        if not tiles:
            return smooth
        filled: Floats = smooth + _FILL_SHARE * np.exp(-fill_near / (2 * fill**2))
        return filled

    def guess(self, shapes: Any) -> tuple[Floats, Floats]:
        """Log rates expected of `shapes`, and their standard deviations."""
        import numpy as np
        from scipy.linalg import solve_triangular

        means, deviations = [], []
        top = 1.0 + (_FILL_SHARE if self._tiles else 0.0)
        for start in range(0, len(shapes), _CHUNK):
            part = np.asarray(shapes[start : start + _CHUNK], dtype=np.float64)
            near = _squares(np.log2(part), self._logs)
            fill_near = _squares(self._fill(part, self._tiles), self._fills)
            across = self._kernel(near, fill_near, *self._lengths, self._tiles)
            means.append(across @ self._weights)
            seen = solve_triangular(self._factor, across.T, lower=True, check_finite=False)
            deviations.append(np.sqrt(np.maximum(top - (seen**2).sum(axis=0), 0)))
        return (
            self._mean + self._scale * np.concatenate(means),
            self._scale * np.concatenate(deviations),
        )


def _squares(a: Floats, b: Floats) -> Floats:
    """Squared distances between the rows of `a` and of `b`."""
    import numpy as np

    found: Floats = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2 * a @ b.T
    return np.maximum(found, 0)


def _likelihood(
    kernel: Floats, noise: float, target: Floats
) -> tuple[float, Floats, Floats] | None:
    """Log likelihood of `target` with its scale free, the factor and the weights."""
    import numpy as np
    from scipy.linalg import LinAlgError, cho_solve, cholesky

    n = len(target)
    try:
        factor = cholesky(kernel + noise * np.eye(n), lower=True, check_finite=False)
    except LinAlgError:
        return None
    weights = cho_solve((factor, True), target, check_finite=False)
    fit = float(target @ weights) / n
    score = -0.5 * n * np.log(max(fit, 1e-12)) - float(np.log(np.diag(factor)).sum())
    return score, factor, weights
