"""What a page is made of: sections of text, tables, drawings and plots, before any markup.

A section module turns an analysis into blocks and knows no HTML; one template draws each kind of
block. Every string in a block may come from a trace or a test: the template escapes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from markupsafe import Markup

from gpuperf_analyzers.display import harmless, show


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    ``metric`` names the metric whose definition is shown with the title; ``unit`` is that of the
    raw values, which a download holds; ``text`` columns are aligned left and searched.
    """

    title: str
    metric: str = ""
    unit: str = ""
    text: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cell shows, the raw value that it is sorted by, and what qualifies it."""

    text: str
    raw: float | str | None = None
    detail: str = ""
    link: str = ""
    kind: str = ""


SHOWN_ROWS = 200
"""Rows that a long table shows at first; the style sheet has the number too."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; ``searchable`` puts a search field above, ``more`` says what is left out."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    searchable: bool = False
    more: str = ""

    @property
    def paged(self) -> bool:
        """Whether the first :data:`SHOWN_ROWS` are shown until a filter or a button asks for all.

        A browser takes as long to lay out some thousand rows as to read all of the page.
        """
        return self.searchable and len(self.rows) > SHOWN_ROWS


@dataclass(frozen=True, slots=True)
class Text:
    """Paragraphs; ``kind`` is ``summary``, ``note``, ``failure`` or "" for plain ones."""

    paragraphs: tuple[str, ...]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture made here as SVG; ``data`` has its numbers for readers and for the download."""

    title: str
    svg: Markup
    description: str
    data: Table
    legend: tuple[tuple[str, str], ...] = ()
    metric: str = ""
    half: bool = False
    """Whether two stand beside each other where there is room."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture that the page draws from arrays (``spec``): series over an axis, or a timeline."""

    title: str
    kind: Literal["series", "timeline"]
    spec: Mapping[str, Any]
    description: str
    legend: tuple[tuple[str, str], ...] = ()
    metric: str = ""


Block = Text | Table | Drawing | Plot


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks under one title."""

    title: str
    blocks: tuple[Block, ...]
    open: bool = True


@dataclass(frozen=True, slots=True)
class Subject:
    """What has a page of its own within the page: a test, a trace, a set, another result.

    ``anchor`` is its deep link; ``head`` one line under its title.
    """

    anchor: str
    title: str
    verdict: str = ""
    head: str = ""
    sections: tuple[Section, ...] = field(default=())


def words(value: object, width: int = 160) -> str:
    """`value` as harmless text of at most `width` characters."""
    return harmless(value, width)


def number_cell(value: float | None, unit: str, detail: str = "") -> Cell:
    """A value in its unit, ``-`` where there is none."""
    if value is None:
        return Cell("-", None, detail)
    return Cell(show(value, unit), float(value), detail)


def text_cell(value: object, width: int = 160) -> Cell:
    """A text, cut for the eye; sorted by itself."""
    shown = words(value, width)
    return Cell(shown, shown)


def legend_of(classes: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Pairs of class and words, each once."""
    return tuple(dict.fromkeys(classes))
