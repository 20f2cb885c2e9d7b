"""Long series in few points, with every extreme kept."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
MOST = 2000


def thinned(x: npt.ArrayLike, y: npt.ArrayLike, most: int = MOST) -> npt.NDArray[np.int64]:
    """Which points to keep so that a line or steps through them look the same, in order.

    Of each of `most` / 4 stretches of points the first, the last, the lowest and the highest.
    """
    values = np.asarray(y, dtype=np.float64)
    count = len(np.asarray(x))
    if count <= most:
        return np.arange(count)
    edges = np.linspace(0, count, most // 4 + 1).astype(np.int64)
    keep: set[int] = {0, count - 1}
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = values[begin:end]
        keep |= {begin, end - 1, begin + int(part.argmin()), begin + int(part.argmax())}
    return np.array(sorted(keep), dtype=np.int64)


def told(kept: int, of: int) -> str:
    """What a reader must know of points left out."""
    return "" if kept == of else f" {kept:,} of {of:,} points are drawn, every extreme among them."
