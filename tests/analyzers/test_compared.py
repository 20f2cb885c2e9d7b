"""docs/compared.md says what running the tools says."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest

from compared import FILES, MADE, OURS, THEIRS, Place, theirs

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compared.md"
HTA = "0.6.1"


def measured() -> dict[tuple[str, str], tuple[str, str, str]]:
    """Rows of the page's first table: (trace, number) to (ours, theirs, why)."""
    section = PAGE.read_text().partition("## Measured by running")[2].partition("\n## ")[0]
    rows = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 5 and not re.fullmatch(r"-+", cells[0]):
            rows[cells[0], cells[1]] = (cells[2], cells[3], cells[4])
    rows.pop(("trace", "number"))
    return rows


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory, shared_traces: Path) -> Place:
    return Place(shared_traces, tmp_path_factory.mktemp("compared"))


def installed_hta() -> str:
    try:
        return importlib.metadata.version("traceinsight")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def test_the_page_has_each_row_that_is_computed_and_no_other() -> None:
    assert set(measured()) == set(OURS) == set(THEIRS)
    assert {trace for trace, _ in OURS} == set(FILES) | set(MADE)


@pytest.mark.parametrize("row", OURS, ids=" ".join)
def test_our_column_is_what_running_gives(row: tuple[str, str], place: Place) -> None:
    assert measured()[row][0] == OURS[row](place, row[0])


@pytest.mark.filterwarnings("ignore")  # theirs: not ours to mend
@pytest.mark.skipif(
    installed_hta() != HTA, reason=f"traceinsight {HTA} is needed, here: {installed_hta()}"
)
@pytest.mark.parametrize("row", THEIRS, ids=" ".join)
def test_their_column_is_what_running_gives(row: tuple[str, str], place: Place) -> None:
    assert measured()[row][1] == theirs(place, row)


@pytest.mark.parametrize("row", OURS, ids=" ".join)
def test_every_row_differs_and_says_why(row: tuple[str, str]) -> None:
    ours, other, why = measured()[row]
    assert ours != other
    assert why
