"""The paragraph on top: what bounds the step, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.cli.console import emit, words

if TYPE_CHECKING:
    from rich.console import Console

    from gpuperf_analyzers.summary import Summary

_LONGEST = 2000


def print_summary(console: Console, found: Summary) -> None:
    """The paragraph; nothing where there is none."""
    if found.sentences:
        emit(console, words(found.text, "bold", _LONGEST))
        console.print()
