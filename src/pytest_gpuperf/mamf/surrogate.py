"""What shapes not timed yet may reach, guessed from those that were: a Gaussian process.

The logarithm of a shape's rate is modelled as the sum of a smooth function of the logarithms of
M, N and K, and of a function of how well a GPU's tiles fill its waves. A library cuts the product
into tiles of tm·tn, and S multiprocessors work on S of them at a time: with
``tiles = ceil(M/tm)·ceil(N/tn)`` the share of a tile's time that is useful is at most
``M·N / (ceil(tiles/S)·S·tm·tn)``. These shares, for ordinary tiles, are coordinates beside the
three logarithms; which of them matter is learnt from what was timed. Guesses choose what to time
next and nothing else: no number in a result comes from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

TILES = ((256, 128), (128, 256), (128, 128), (256, 256), (64, 128), (128, 64))
"""Ordinary tiles of GEMM kernels; a library's own may be others."""
_LENGTHS = (0.3, 0.6, 1.2)
_FILL_LENGTHS = (0.05, 0.15, 0.4)
_NOISES = (1e-3, 1e-2, 1e-1)
_FILL_SHARE = 0.5
_CHUNK = 8192


def coordinates(shapes: Any, units: int | None) -> tuple[Floats, Floats]:
    """Logarithms of M, N and K to base 2, and the shares of waves that are filled.

    Parameters
    ----------
    shapes
        Rows of M, N, K.
    units
        Multiprocessors; None where waves are unknown (a CPU): then no shares.
    """
    import numpy as np

    sizes = np.asarray(shapes, dtype=np.float64)
    logs = np.log2(sizes)
    if units is None:
        return logs, np.zeros((len(sizes), 0))
    m, n = sizes[:, 0], sizes[:, 1]
    shares = []
    for tm, tn in TILES:
        waves = np.ceil(np.ceil(m / tm) * np.ceil(n / tn) / units)
        shares.append(m * n / (waves * units * tm * tn))
    # Of a tile and its transpose a library takes the better one.
    pairs = [np.maximum(shares[0], shares[1]), shares[2], shares[3]]
    pairs.append(np.maximum(shares[4], shares[5]))
    return logs, np.stack(pairs, axis=1)


class Surrogate:
    """Guesses of log rates, fitted to some shapes."""

    def __init__(self, shapes: Sequence[tuple[int, int, int]], rates: Sequence[float],
                 units: int | None) -> None:  # fmt: skip
        import numpy as np

        self._units = units
        self._logs, self._fills = coordinates(shapes, units)
        # Shapes that reach little tell nothing of the top: beyond a factor of 8 all are alike.
        target = np.maximum(np.log(np.asarray(rates)), np.log(max(rates)) - 2.1)
        self._mean = float(target.mean())
        self._scale = float(target.std()) or 1.0
        self._target = (target - self._mean) / self._scale
        self._fit()

    def _fit(self) -> None:
        """Lengths and noise of the greatest likelihood, of a few of each."""
        import numpy as np

        best = -np.inf
        fill_lengths = _FILL_LENGTHS if self._fills.shape[1] else _FILL_LENGTHS[:1]
        near, fill_near = _squares(self._logs, self._logs), _squares(self._fills, self._fills)
        for length in _LENGTHS:
            for fill_length in fill_lengths:
                kernel = self._kernel(near, fill_near, length, fill_length)
                for noise in _NOISES:
                    found = _likelihood(kernel, noise, self._target)
                    if found is not None and found[0] > best:
                        best, self._factor, self._weights = found
                        self._lengths = (length, fill_length)

    def _kernel(self, near: Floats, fill_near: Floats, length: float, fill: float) -> Floats:
        import numpy as np

        smooth: Floats = np.exp(-near / (2 * length**2))
        if not self._fills.shape[1]:
            return smooth
        filled: Floats = smooth + _FILL_SHARE * np.exp(-fill_near / (2 * fill**2))
        return filled

    def guess(self, shapes: Any) -> tuple[Floats, Floats]:
        """Log rates expected of `shapes`, and their standard deviations."""
        import numpy as np
        from scipy.linalg import solve_triangular

        means, deviations = [], []
        top = 1.0 + (_FILL_SHARE if self._fills.shape[1] else 0.0)
        for start in range(0, len(shapes), _CHUNK):
            logs, fills = coordinates(shapes[start : start + _CHUNK], self._units)
            across = self._kernel(
                _squares(logs, self._logs), _squares(fills, self._fills), *self._lengths
            )
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
