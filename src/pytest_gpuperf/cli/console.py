"""Where the command prints: a console that is plain when piped, and tables that fit it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from gpuperf_analyzers.display import harmless

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

PIPED_WIDTH = 100
"""Columns where nobody said how wide the reader is."""

LEAST_TEXT = 6
"""Columns that text keeps beside numbers; it breaks there."""


def make_console(*, stderr: bool = False) -> Console:
    """A console for the standard output: no colour and no escape codes unless it is a terminal.

    The width is the terminal's, ``COLUMNS`` where it is set, else 100.
    """
    from rich.console import Console

    plain = Console(stderr=stderr)
    width = None if plain.is_terminal or os.environ.get("COLUMNS") else PIPED_WIDTH
    return Console(
        stderr=stderr, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False
    )


def words(text: object, style: str = "", width: int = 400) -> Text:
    """`text` as a cell or line: never markup, no control characters."""
    from rich.text import Text

    return Text(harmless(text, width), style=style)


def table(*titles: str, numbers: int | Literal["rest"] = 0, title: str = "") -> Table:
    """An empty table; its last `numbers` columns (or all but the first) are right-aligned."""
    from rich import box
    from rich.table import Table

    made = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title=title or None,
        title_justify="left",
    )
    right = len(titles) - 1 if numbers == "rest" else numbers
    for index, name in enumerate(titles):
        is_number = index >= len(titles) - right
        made.add_column(
            name,
            justify="right" if is_number else "left",
            overflow="fold",
            no_wrap=is_number,
        )
    return made


def _hold_widths(shown: Table, width: int) -> None:
    """Let no column be narrower than its numbers.

    Rich crops a number that does not fit, without a mark: 1048576 would read 10485.
    """
    from rich.cells import cell_len

    for column in shown.columns:
        texts = [str(column.header), *map(str, column.cells)]
        if column.no_wrap:
            column.min_width = max(cell_len(line) for t in texts for line in t.split("\n"))
    needed = sum((column.min_width or LEAST_TEXT) + 1 for column in shown.columns)
    if needed > width:
        shown.width = needed


def emit(console: Console, shown: Table | Text) -> None:
    """Print `shown` without blanks at the ends of lines, and an empty line after a table.

    A table is wider than the console where its numbers need that.
    """
    from rich.table import Table

    if isinstance(shown, Table):
        _hold_widths(shown, console.width)
    if console.is_terminal:
        console.print(shown, crop=False)
    else:
        with console.capture() as captured:
            console.print(shown, crop=False)
        lines = (line.rstrip() for line in captured.get().splitlines())
        console.file.write("\n".join(lines) + "\n")
    if isinstance(shown, Table):
        console.print()
