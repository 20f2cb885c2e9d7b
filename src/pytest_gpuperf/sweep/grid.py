"""The points of a sweep: every combination of the values of some axes.

An axis is a keyword of the user's ``make_step``; ``world_size`` alone is ours, the number of ranks.
"""

from __future__ import annotations

import keyword
import math
import re
import sys
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from gpuperf_analyzers.display import harmless

Setting = bool | int | float | str
"""A value of an axis."""
WORLD_SIZE = "world_size"
MOST_POINTS = 10_000
"""Points of a grid: at seconds each, more would take days."""
MOST_RANKS = 65_536
_LONGEST = 200
_TAKEN = frozenset({"rank", "self"})
_WORDS = {"true": True, "on": True, "false": False, "off": False}
_WHOLE = re.compile(r"[+-]?\d+\Z")


class GridError(ValueError):
    """Axes that cannot be understood: one line with the mend."""


class Grid:
    """Axes in the order in which they were given; the last one runs fastest."""

    def __init__(self, axes: Mapping[str, tuple[Setting, ...]]) -> None:
        self.axes = dict(axes)

    def __len__(self) -> int:
        return math.prod(map(len, self.axes.values()))

    def points(self) -> list[dict[str, Setting]]:
        """Every combination, in order."""
        return [
            dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())
        ]

    def to_json(self) -> dict[str, list[Setting]]:
        """The axes as plain JSON types."""
        return {name: list(values) for name, values in self.axes.items()}

    def words(self) -> str:
        """The grid in one line."""
        sides = " × ".join(f"{len(v)} {harmless(name, 40)}" for name, v in self.axes.items())
        return f"{sides}: {len(self):,} point{'s' * (len(self) != 1)}"


def point_words(values: Mapping[str, Setting]) -> str:
    """A point in one line: ``micro_batch=2 precision=bf16``."""
    return " ".join(f"{name}={setting_words(value)}" for name, value in values.items())


def setting_words(value: Setting) -> str:
    """A value as it would be written on the command line."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else harmless(value, 60)


def parse_axis(text: str) -> tuple[str, tuple[Setting, ...]]:
    """An axis from ``NAME=V1,V2,…``: whole numbers, numbers, on/off, and other words as they are.

    Raises
    ------
    GridError
        It is not written so.
    """
    name, equals, rest = text.partition("=")
    if not equals or not rest.strip():
        raise GridError(f"--axis {harmless(text, 80)}: write NAME=V1,V2,… as micro_batch=1,2,4")
    return name.strip(), tuple(_setting(name, part.strip()) for part in rest.split(","))


def _setting(name: str, text: str) -> Setting:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        # Python refuses more digits than it would read in a moment, as a ValueError.
        return int(text) if _WHOLE.match(text) and text.isascii() else float(text)
    except ValueError:
        if _WHOLE.match(text):
            raise GridError(
                f"axis {harmless(name, 40)}: {harmless(text, 40)} is too long"
            ) from None
        return text


def read_axes(path: Path) -> list[tuple[str, tuple[Setting, ...]]]:
    """The table ``[axes]`` of a TOML file: ``micro_batch = [1, 2, 4]``.

    Raises
    ------
    GridError
        The file cannot be read, or has no such table of lists.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    shown = harmless(path, 120)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise GridError(f"{shown}: {error.strerror or error}") from None
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise GridError(f"{shown} is no TOML: {harmless(error, 120)}") from None
    axes = raw.get("axes")
    if not isinstance(axes, dict) or not axes:
        raise GridError(f"{shown} has no table [axes] with a list of values for each axis")
    unknown = [key for key in raw if key != "axes"]
    if unknown:
        raise GridError(f"{shown}: {harmless(unknown[0], 40)} is no part of a grid: only [axes] is")
    for name, values in axes.items():
        if not isinstance(values, list):
            raise GridError(f"{shown}: {harmless(name, 40)} must be a list, as [1, 2, 4]")
    return [(name, tuple(values)) for name, values in axes.items()]


def make_grid(axes: Iterable[tuple[str, tuple[Any, ...]]]) -> Grid:
    """The grid of `axes`.

    Raises
    ------
    GridError
        There is none, one is named twice or cannot be a keyword, a value cannot be one or is there
        twice, or there are too many points.
    """
    found: dict[str, tuple[Setting, ...]] = {}
    for name, values in axes:
        if name in found:
            raise GridError(
                f"axis {harmless(name, 40)} is there twice: give all its values at once"
            )
        _check_name(name)
        if not values:
            raise GridError(f"axis {name} has no values")
        for value in values:
            _check_value(name, value)
        # 1, 1.0 and True are equal and not the same.
        if len({(type(v), v) for v in values}) < len(values):
            raise GridError(f"axis {name} has a value twice")
        found[name] = tuple(values)
    if not found:
        raise GridError("there is no axis: give --axis NAME=V1,V2,… or --grid FILE.toml")
    grid = Grid(found)
    if len(grid) > MOST_POINTS:
        raise GridError(f"{len(grid):,} points are more than {MOST_POINTS:,}: take fewer values")
    return grid


def _check_name(name: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name) or len(name) > _LONGEST:
        raise GridError(f"axis {harmless(name, 40)!r} is no name that a keyword can have")
    if name in _TAKEN:
        raise GridError(f"axis {name}: the name is taken (ranks are the axis {WORLD_SIZE})")


def _check_value(name: str, value: object) -> None:
    if not isinstance(value, (bool, int, float, str)):
        raise GridError(f"axis {name}: a {type(value).__name__} is no number, word or true/false")
    if isinstance(value, float) and not math.isfinite(value):
        raise GridError(f"axis {name}: {value} is no finite number")
    if isinstance(value, int) and abs(value) > 2**63:
        raise GridError(f"axis {name}: a number of {value.bit_length()} bits is too large")
    if isinstance(value, str) and (not value.strip() or len(value) > _LONGEST):
        raise GridError(
            f"axis {name}: an empty value"
            if not value.strip()
            else f"axis {name}: a value of {len(value):,} characters is too long"
        )
    if name == WORLD_SIZE and (type(value) is not int or not 1 <= value <= MOST_RANKS):
        raise GridError(
            f"axis {name}: {harmless(value, 40)} is no number of ranks (1 to {MOST_RANKS:,})"
        )
