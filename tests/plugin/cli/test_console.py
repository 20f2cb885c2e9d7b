"""Where the command prints: what does not fit is wider than the console, never a cut number."""

from __future__ import annotations

import pytest

from pytest_gpuperf.cli.console import emit, make_console, table, words
from pytest_gpuperf.cli.ranks import failed


@pytest.mark.parametrize("columns", ["5", "20", "30", "80"])
def test_no_number_is_cropped(capsys, monkeypatch, columns):
    """rich leaves out the end of a cell that must not wrap: 1048576 B would read 10485."""
    monkeypatch.setenv("COLUMNS", columns)
    shown = table("kernel", "kind", "size", "busbw (GB/s)", numbers=2)
    shown.add_row(words("void gemm<" + "x" * 90 + ">"), words("selective"), words("1048576 B"),
                  words("17.25"))  # fmt: skip
    emit(make_console(), shown)
    out = capsys.readouterr().out
    assert all(text in out for text in ("1048576 B", "17.25", "busbw (GB/s)"))
    assert out.count("x") == 90  # text breaks, and all of it is there


def test_a_name_as_long_as_the_table_still_breaks(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    shown = table("kernel", "time", numbers=1)
    shown.add_row(words("x" * 90), words("3.2 ms"))
    emit(make_console(), shown)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 40


def test_what_a_rank_raised_moves_no_cursor(capsys):
    assert failed("buckets", "rank 1 raised\nValueError: \x1b[2Jno", 1) == 1
    assert capsys.readouterr().err == ("gpuperf buckets: rank 1 raised\nValueError: \\x1b[2Jno\n")
