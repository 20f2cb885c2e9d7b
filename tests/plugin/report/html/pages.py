"""Pages for the browser's tests: records with odd names, samples and limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plugin.report.records import judgement, record, value
from pytest_gpuperf.report.html.model import results_page
from pytest_gpuperf.report.html.page import write_page

HOSTILE = (
    "t.py::<script>window.hacked=1</script>",
    "t.py::</script><script>window.hacked=2</script>",
    'x.py::"><img src=x onerror="window.hacked=3">',
    "x.py::' onfocus='window.hacked=4' autofocus='",
    "x.py::{{ 7*7 }}{% raw %}",
    "x.py::\u202egnp.exe\u2066 isolated\u2069 \u2028 line",
    "x.py::=cmd|' /C calc'!A0",
    "x.py::" + "n" * 100_000,
    "javascript:window.hacked=5",
)


def document(*records: dict[str, Any]) -> dict[str, Any]:
    """What ``report.json`` holds."""
    return {
        "schema": 1, "tool": {"name": "pytest-gpuperf", "version": "0"},
        "created": "2026-01-01T00:00:00+00:00", "environment": {"device": "cpu", "torch": "2.13.0"},
        "commit": None, "summary": {}, "results": list(records),
    }  # fmt: skip


def records() -> list[dict[str, Any]]:
    """A red test, a green one with a limit on its time, and one that was not judged."""
    samples = [1000.0 + (i * 37) % 90 for i in range(60)]
    timed = judgement(text="max_step_time='2ms'", metric="step_time", direction="max",
                      limit=2000.0, verdict="PASS", value=1044.0, interval=[1030.0, 1060.0],
                      unit="us", at="")  # fmt: skip
    before = {"runs": 3, "values": {"step_time": 1020.0}, "diff": None}
    values = {"step_time": value(1044.0, "us", [1030.0, 1060.0]), "tflops": value(None, "TFLOPS")}
    return [
        record(traces=[], samples_us=samples),
        record(test="tests/test_b.py::test_green", verdict="PASS", limits=[timed], values=values,
               traces=[], samples_us=samples, baseline=before),
        record(test="tests/test_b.py::test_free", verdict=None, limits=[], values=values,
               traces=[], samples_us=[]),
    ]  # fmt: skip


def write(path: Path, *given: dict[str, Any]) -> Path:
    """The page of these records."""
    return write_page(results_page(document(*given), lambda _: ()), path)
