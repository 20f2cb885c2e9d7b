"""The published schema holds for what is written, and refuses what is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, get_args

import pytest

from gpuperf_analyzers.metrics import Unit, Value, absent
from plugin.report.records import record
from pytest_gpuperf.cli import main
from pytest_gpuperf.report.json_report import report_document
from pytest_gpuperf.report.schema import schema_text
from pytest_gpuperf.session.measurement import Measurement, result_record

jsonschema = pytest.importorskip("jsonschema")


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads(schema_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def document() -> dict[str, Any]:
    values = {"step_time": Value("step_time", 1.5, (1.0, 2.0), 7), "mfu": absent("mfu", "no peak")}
    made = result_record(Measurement(values=values), test="t.py::a",
                         units={"step_time": "us", "mfu": "fraction"}, extra_info={})  # fmt: skip
    return json.loads(json.dumps(report_document([made], {"torch": "2"})))


def test_a_report_of_a_measurement_is_valid(validator: Any) -> None:
    assert [e.message for e in validator.iter_errors(document())] == []


def test_the_renderers_test_record_is_valid_but_for_its_environment(validator: Any) -> None:
    made = report_document([{**record(), "environment": {}}], {})
    assert [e.message for e in validator.iter_errors(made)] == []


def _without(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda d: d["results"][0].pop(key)


@pytest.mark.parametrize(
    "spoil",
    [
        _without("verdict"),
        lambda d: d.update(schema=2),
        lambda d: d["results"][0].update(verdict="GREAT"),
        lambda d: d["results"][0]["values"]["step_time"].update(value="1.5"),
        lambda d: d["results"][0]["values"]["mfu"].update(value=0.5),
        lambda d: d["results"][0]["values"]["step_time"].update(interval=[1.0]),
        lambda d: d["results"][0]["values"]["step_time"].update(unit="furlong"),
        lambda d: d["summary"].update(PASS=0),
    ],
)
def test_what_is_wrong_is_refused(validator: Any, spoil: Callable[[dict[str, Any]], None]) -> None:
    spoiled = document()
    spoil(spoiled)
    assert list(validator.iter_errors(spoiled))


def test_the_command_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"].startswith("report.json")


def test_the_units_are_those_of_the_metric_table(validator: Any) -> None:
    unit = validator.schema["$defs"]["value"]["properties"]["unit"]
    assert set(unit["enum"]) == {*get_args(Unit), ""}
