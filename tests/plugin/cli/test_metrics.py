from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuperf_analyzers.metrics import BUILTIN
from pytest_gpuperf.cli import main

PAGE = Path(__file__).resolve().parents[3] / "docs" / "definitions.md"
BEGIN, END = "<!-- gpuperf metrics --markdown -->\n", "<!-- end -->\n"


def test_the_definitions_page_holds_the_table_as_it_is_declared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """To mend the page: put the output of `gpuperf metrics --markdown` between the two marks."""
    assert main(["metrics", "--markdown"]) == 0
    table = capsys.readouterr().out
    assert table in PAGE.read_text(encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0] == table


def test_every_metric_has_a_row_with_its_unit(capsys: pytest.CaptureFixture[str]) -> None:
    main(["metrics", "--markdown"])
    rows = {
        line.split("`")[1]: line for line in capsys.readouterr().out.splitlines() if "`" in line
    }
    assert set(rows) == {m.name for m in BUILTIN}
    assert "| TFLOPS |" in rows["tflops"]


def test_a_formula_with_a_bar_does_not_break_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    main(["metrics", "--markdown"])
    lines = capsys.readouterr().out.splitlines()
    columns = {line.replace("\\|", "").count("|") for line in lines}
    assert columns == {9}


def test_metrics_as_json_are_the_declaration(capsys: pytest.CaptureFixture[str]) -> None:
    main(["metrics", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["overlap"]["formula"] == "|comm ∩ compute| / |comm|"
    assert list(document) == [m.name for m in BUILTIN]


def test_the_table_for_people_fits_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    main(["metrics"])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert all(m.name in out for m in BUILTIN)
