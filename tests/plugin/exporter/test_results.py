"""Results as Prometheus' families: names, base units, labels, and what no report may do."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers.metrics import BUILTIN
from plugin.report.records import record, value

parser = pytest.importorskip("prometheus_client.parser")

from pytest_gpuperf.exporter.naming import LONGEST_LABEL, gauge_name, label  # noqa: E402
from pytest_gpuperf.exporter.results import MOST_RESULTS, families  # noqa: E402
from pytest_gpuperf.exporter.textfile import write_textfile  # noqa: E402


def document(*records: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema": 1, "tool": {"name": "pytest-gpuperf", "version": "1"},
        "created": "2026-01-01T00:00:00+00:00", "environment": {"torch": "2.13.0"},
        "commit": {"sha": "abc", "branch": "main", "dirty": False}, "results": list(records),
    }  # fmt: skip


def samples(path: Path) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every series of a file, as Prometheus' own Python parser reads it."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in parser.text_string_to_metric_families(path.read_text()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, "a series stands once"
            found[key] = sample.value
    return found


@pytest.mark.parametrize(
    ("metric", "unit", "name", "factor"),
    [
        ("step_time", "us", "gpuperf_step_time_seconds", 1e-6),
        ("overlap", "fraction", "gpuperf_overlap_ratio", 1.0),
        ("reserved_over_allocated", "x", "gpuperf_reserved_over_allocated_ratio", 1.0),
        ("peak_memory", "bytes", "gpuperf_peak_memory_bytes", 1.0),
        ("tflops", "TFLOPS", "gpuperf_flop_per_second", 1e12),
        ("flops", "FLOP", "gpuperf_flop", 1.0),
        ("busbw", "GB/s", "gpuperf_busbw_bytes_per_second", 1e9),
        ("sm_clock", "MHz", "gpuperf_sm_clock_hertz", 1e6),
        ("kernel_launches", "count", "gpuperf_kernel_launches", 1.0),
        ("lib.my-errors_total", "count", "gpuperf_lib_my_errors_total_value", 1.0),
    ],
)
def test_names_are_in_base_units(metric: str, unit: str, name: str, factor: float) -> None:
    assert gauge_name(metric, unit) == (name, factor)


def test_no_two_metrics_have_one_name() -> None:
    names = [gauge_name(m.name, m.unit, part)[0] for m in BUILTIN for part in ("", "limit")]
    assert len(set(names)) == len(names)


def test_values_verdicts_and_limits(tmp_path: Path) -> None:
    path = write_textfile(document(record()), tmp_path / "perf.prom")
    found = samples(path)
    of = {
        "report": "perf", "test": "tests/perf/test_ddp.py::test_step[gloo]", "measurement": "",
        "device": "cpu",
    }  # fmt: skip

    def series(name: str, **more: str) -> float:
        return found[name, frozenset({**of, **more}.items())]

    assert series("gpuperf_step_time_seconds") == pytest.approx(97577e-6)
    assert series("gpuperf_interval_step_time_seconds", bound="upper") == pytest.approx(99000e-6)
    assert series("gpuperf_flop_per_second") == pytest.approx(0.93e12)
    assert series("gpuperf_limit_overlap_ratio", direction="min") == 0.6
    assert series("gpuperf_verdict", verdict="FAIL") == 1
    assert series("gpuperf_verdict", verdict="PASS") == 0
    assert sum(v for (name, _), v in found.items() if name == "gpuperf_verdict") == 1
    # What was not measured is not 0: it is not there.
    assert not [name for name, _ in found if name.startswith("gpuperf_peak_memory")]
    run = next(dict(labels) for name, labels in found if name == "gpuperf_run_info")
    assert (run["torch"], run["commit"], run["version"]) == ("2.13.0", "abc", "1")
    created = found["gpuperf_run_timestamp_seconds", frozenset({("report", "perf")})]
    assert created == 1767225600  # date -d 2026-01-01T00:00Z +%s


HOSTILE = 'a"b\\c\nd\re\x00f{g="h"} 1\n# TYPE x counter\ud800\u2028é'


def test_a_hostile_name_is_one_label_and_no_line_of_its_own(tmp_path: Path) -> None:
    hostile = record(test=HOSTILE, name="x" * 5000, device=HOSTILE)
    hostile["values"][HOSTILE] = value(1.0, HOSTILE)
    path = write_textfile(document(hostile), tmp_path / "a.prom")
    found = samples(path)
    for (name, labels), _ in found.items():
        assert name.startswith("gpuperf_")
        for _, text in labels:
            assert len(text) <= LONGEST_LABEL
            assert text.isprintable()
    tests = {dict(labels).get("test") for _, labels in found} - {None}
    assert tests == {'a"b\\c d e f{g="h"} 1 # TYPE x counter\\ud800 é'}


def test_long_names_stay_apart() -> None:
    assert label("x" * 5000 + "a") != label("x" * 5000 + "b")


@pytest.mark.parametrize(
    "spoilt",
    [
        {"values": {"step_time": value(math.nan, "us"), "tflops": value(math.inf, "TFLOPS")}},
        {"values": {"step_time": {"value": "12", "unit": []}, "mfu": 3}},
        {"values": [], "limits": {"a": 1}, "verdict": ["PASS"], "device": {"a": 1}},
        {"limits": [None, {"direction": "min"}, {"direction": "max", "limit": "x"}]},
        {"test": None, "name": 3, "values": None, "limits": None},
    ],
)
def test_what_is_no_number_makes_no_series(tmp_path: Path, spoilt: dict[str, Any]) -> None:
    path = write_textfile(document(record(**spoilt)), tmp_path / "a.prom")
    assert all(math.isfinite(number) for number in samples(path).values())
    assert "12" not in {str(int(n)) for (s, _), n in samples(path).items() if "step" in s}


def test_equal_results_stay_apart_and_their_number_is_bounded(tmp_path: Path) -> None:
    many = [{"test": "t", "verdict": "PASS"}] * (MOST_RESULTS + 5)
    found = samples(write_textfile(document(*many), tmp_path / "a.prom"))
    passed = [
        dict(labels) for (name, labels), v in found.items() if name == "gpuperf_verdict" and v
    ]
    assert len({labels["measurement"] for labels in passed}) == MOST_RESULTS
    report = frozenset({("report", "a")})
    assert found["gpuperf_results_left_out", report] == 5
    assert found["gpuperf_results", report | {("verdict", "PASS")}] == MOST_RESULTS + 5


def test_two_reports_of_one_test_are_two_series() -> None:
    found = families([("a", document(record())), ("b", document(record()))])
    verdicts = next(f for f in found if f.name == "gpuperf_verdict")
    assert {s.labels["report"] for s in verdicts.samples} == {"a", "b"}


def test_the_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_textfile(document(), tmp_path / "a.prom")
    before = path.read_text()
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_textfile(document(record()), path)
    assert path.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.prom"]


def test_pytest_writes_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.gpuperf(max_step_time="60s")
        def test_a(gpuperf):
            gpuperf(lambda: None)
        """
    )
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "-o", "gpuperf_warmup=1ms", "-o", "gpuperf_max_time=5ms",
        "--gpuperf-device=cpu", "--gpuperf-prometheus=out/gpu.prom",
    )  # fmt: skip
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*report in *gpu.prom"])
    found = samples(pytester.path / "out" / "gpu.prom")
    verdicts = {dict(k[1])["verdict"]: v for k, v in found.items() if k[0] == "gpuperf_verdict"}
    assert verdicts["PASS"] == 1
    assert any(name == "gpuperf_step_time_seconds" for name, _ in found)


def test_without_the_library_it_is_said_before_anything_runs(pytester: pytest.Pytester) -> None:
    done = pytester.runpython_c(
        "import sys; sys.modules['prometheus_client'] = None\n"
        "import pytest; raise SystemExit(pytest.main(['--gpuperf-prometheus=a.prom']))"
    )
    assert done.ret == 4
    done.stderr.fnmatch_lines(["*needs prometheus-client: pip install *"])
