"""The page on containers has every known error, in the words of the command that explains it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_gpuperf.cli import main
from pytest_gpuperf.doctor.known_errors import KNOWN, explain

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "containers.md"
_ROW = re.compile(r"^\| `(.*)` \| (.*) \| (.*) \|$", re.MULTILINE)


def test_each_row_is_what_the_command_says(capsys: pytest.CaptureFixture[str]) -> None:
    rows = _ROW.findall(PAGE.read_text())
    assert [(cause, mend) for _, cause, mend in rows] == [(k.cause, k.mend) for k in KNOWN]
    for (message, cause, mend), known in zip(rows, KNOWN, strict=True):
        assert known in explain(f"docker: Error response from daemon: {message}.")
        main(["doctor", "--explain", message])
        told = capsys.readouterr().out
        assert cause in told
        assert mend in told
