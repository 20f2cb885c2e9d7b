"""What a file may cost: bounds that turn a hostile or damaged file into one clear error."""

from __future__ import annotations

from dataclasses import dataclass

KIB, MIB, GIB = 2**10, 2**20, 2**30


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of the reader, in bytes unless said otherwise.

    Nesting has no number here: the decoder refuses what is deeper than the interpreter's own
    recursion limit, and such an event is left out.

    Attributes
    ----------
    block
        Text decoded at once. Small enough for a core's cache: 4 MiB is measurably slower.
    event
        Longest single event; also the longest string, since a string is inside one.
    metadata
        Longest text before, or after, the list of events.
    inflated
        Longest text of one file.
    ratio, ratio_from
        Text may be `ratio` times the compressed size once it is longer than `ratio_from`. Traces
        compress 10 to 60 times; what compresses 1000 times is a bomb.
    """

    block: int = 256 * KIB
    event: int = 16 * MIB
    metadata: int = 64 * MIB
    inflated: int = 64 * GIB
    ratio: int = 300
    ratio_from: int = 256 * MIB


DEFAULT_BOUNDS = Bounds()
