"""The monitoring stack: rules, queries and names hold together, and the alerts go off."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers.foreign.dcgm import FIELDS, REASON_FIELDS
from gpuperf_analyzers.metrics import BUILTIN

yaml = pytest.importorskip("yaml")
pytest.importorskip("prometheus_client")

from pytest_gpuperf.exporter.live import COUNTERS, GAUGES, REASON, THROTTLED, UP  # noqa: E402
from pytest_gpuperf.exporter.naming import gauge_name  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
STACK = ROOT / "deploy" / "monitoring"
DASHBOARD = json.loads((STACK / "grafana/dashboards/gpuperf.json").read_text())
ALERTS = yaml.safe_load((STACK / "alerts.yml").read_text())
COMPOSE = {
    name: yaml.safe_load((ROOT / "deploy" / name).read_text())
    for name in ("compose.yaml", "monitoring/compose.yaml")
}
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool, of Debian's package prometheus"
)


def dashboard_queries() -> list[str]:
    return [t["expr"] for p in DASHBOARD["panels"] for t in p.get("targets", ())]


def queries() -> Iterator[str]:
    """Every expression of the dashboard and of the rules."""
    yield from dashboard_queries()
    yield from (rule["expr"] for group in ALERTS["groups"] for rule in group["rules"])


def asked_fields() -> set[str]:
    """What our list of fields has dcgm-exporter ask for."""
    lines = (STACK / "dcgm-counters.csv").read_text().splitlines()
    rows = [line.split(",", 2) for line in lines if not line.startswith("#")]
    assert all(len(row) == 3 and row[1].strip() in ("gauge", "counter") for row in rows)
    return {row[0].strip() for row in rows}


def exported() -> set[str]:
    """Every name that our exporter can serve."""
    of_results = {
        gauge_name(m.name, m.unit, part)[0] for m in BUILTIN for part in ("", "limit", "interval")
    }
    of_runs = {"verdict", "results", "results_left_out", "run_timestamp_seconds", "run_info",
               "report_readable"}  # fmt: skip
    live = {name for name, *_ in GAUGES.values()} | {f"{n}_total" for n, _ in COUNTERS.values()}
    return of_results | {f"gpuperf_{name}" for name in of_runs} | live | {UP, REASON, THROTTLED}


def test_every_name_that_is_asked_for_exists() -> None:
    known = asked_fields() | exported()
    variables = [v["definition"] for v in DASHBOARD["templating"]["list"]]
    used = set(re.findall(r"\b(?:DCGM_FI|gpuperf)_\w+", " ".join([*queries(), *variables])))
    assert len(used) > 25
    assert used - known == set()


def test_the_fields_are_dcgms_and_those_that_gate_are_asked_for(shared_traces: Path) -> None:
    folder = shared_traces / "dcgm-exporter"
    if not folder.is_dir():
        pytest.skip("needs dcgm-exporter's own lists of fields")
    text = "".join(path.read_text() for path in folder.glob("*.csv"))
    theirs = set(re.findall(r"^#?\s*(DCGM_\w+)\s*,", text, re.MULTILINE))
    # These three are in DCGM's list of fields, and not in the exporter's default lists.
    others = {"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_PROF_NVLINK_TX_BYTES",
              "DCGM_FI_PROF_NVLINK_RX_BYTES"}  # fmt: skip
    assert asked_fields() - theirs - others == set()


def test_the_stack_asks_for_all_that_limits_can_use() -> None:
    assert {name for name in FIELDS if "_PROF_" in name} <= asked_fields()
    assert REASON_FIELDS[0] in asked_fields()


@needs_promtool
def test_promtool_takes_rules_and_configuration() -> None:
    for command in (["rules", "alerts.yml"], ["config", "prometheus.yml"]):
        done = subprocess.run(
            ["promtool", "check", *command], cwd=STACK, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_every_panels_query_is_promql(tmp_path: Path) -> None:
    def rules(found: list[str]) -> Path:
        listed = [{"record": f"q:{i}", "expr": _filled(q)} for i, q in enumerate(found)]
        path = tmp_path / "queries.yml"
        path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": listed}]}))
        return path

    def checked(path: Path) -> int:
        command = ["promtool", "check", "rules", "--lint=none", str(path)]
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode

    assert len(dashboard_queries()) > 25
    assert checked(rules(dashboard_queries())) == 0
    assert checked(rules([*dashboard_queries(), "sum(rate(a[5m])"])) != 0, "it can fail"


def _filled(query: str) -> str:
    """With what Grafana puts in place of its variables."""
    return query.replace("$__rate_interval", "1m").replace("$gpu", ".*").replace("$test", ".*")


def _series(name: str, values: str, **labels: str) -> dict[str, str]:
    written = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return {"series": f"{name}{{{written}}}", "values": values}


@needs_promtool
def test_the_alerts_go_off_and_only_then(tmp_path: Path) -> None:
    """GPU 0 is busy and half empty, loses its work after hours, and is hot; GPU 1 is well."""
    gpu = [{"gpu": str(i), "UUID": f"GPU-{i}", "Hostname": "h"} for i in range(2)]
    test = {"report": "r", "test": "t.py::a", "measurement": "", "device": "H100"}
    series = [
        _series("DCGM_FI_DEV_GPU_UTIL", "99x480", **gpu[0]),
        _series("DCGM_FI_PROF_SM_ACTIVE", "0.9x420 0.3x60", **gpu[0]),
        _series("DCGM_FI_DEV_THERMAL_VIOLATION", "0+6000000000x480", **gpu[0]),  # 6 s a minute
        _series("DCGM_FI_DEV_XID_ERRORS", "9223372036854775794x480", **gpu[0]),  # a blank
        _series("DCGM_FI_DEV_GPU_UTIL", "99x480", **gpu[1]),
        _series("DCGM_FI_PROF_SM_ACTIVE", "0.9x480", **gpu[1]),
        _series("DCGM_FI_DEV_THERMAL_VIOLATION", "0x480", **gpu[1]),
        _series("gpuperf_verdict", "0x480", verdict="FAIL", **test),
        _series("gpuperf_verdict", "1x480", verdict="PASS", **test),
    ]
    severities = {"GpuBusyButNotSaturated": "warning", "GpuSaturationLost": "warning",
                  "GpuThrottledByHeat": "critical"}  # fmt: skip
    cases = [
        {"eval_time": when, "alertname": name, "exp_alerts": [
            {"exp_labels": {"severity": severity, **gpu[0]}, "exp_annotations": _said(name)}
        ] if at else []}
        for name, severity in severities.items()
        for when, at in (("3h", name == "GpuThrottledByHeat"), ("7h55m", True))
    ]  # fmt: skip
    # fmt: off
    quiet = [{"eval_time": "7h55m", "alertname": name, "exp_alerts": []}
             for name in ("GpuError", "PerformanceTestFails", "PerformanceReportStale")]
    # fmt: on
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump({
        "rule_files": [str(STACK / "alerts.yml")], "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": cases + quiet}],
    }))  # fmt: skip
    done = subprocess.run(
        ["promtool", "test", "rules", str(path)], capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def _said(name: str) -> dict[str, str]:
    (rule,) = [r for g in ALERTS["groups"] for r in g["rules"] if r["alert"] == name]
    filled = {"{{ $labels.gpu }}": "0", "{{ $labels.Hostname }}": "h"}
    found = dict(rule["annotations"])
    for key, text in found.items():
        for hole, value in filled.items():
            text = text.replace(hole, value)  # noqa: PLW2901
        found[key] = text
    return found


def test_the_dashboard_is_whole() -> None:
    panels = DASHBOARD["panels"]
    assert len({p["id"] for p in panels}) == len(panels)
    source = yaml.safe_load((STACK / "grafana/provisioning/datasources/prometheus.yml").read_text())
    (declared,) = source["datasources"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}  # fmt: skip
        assert not cells & taken, f"{panel['title']} lies over another panel"
        assert place["x"] + place["w"] <= 24
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["datasource"]["uid"] == declared["uid"]
        assert panel["description"]
        assert len({t["refId"] for t in panel["targets"]}) == len(panel["targets"])
    text = " ".join(p["title"] for p in panels)
    for subject in ("saturation", "clock", "held down", "Power", "Verdicts", "Step time"):
        assert subject in text


def _services() -> Iterator[tuple[Path, str, dict[str, Any]]]:
    for name, document in COMPOSE.items():
        for service, settings in document["services"].items():
            yield (ROOT / "deploy" / name).parent, service, settings


def test_compose_files_name_what_is_there() -> None:
    for folder, service, settings in _services():
        build = settings.get("build")
        if build:
            assert (folder / build["context"] / build["dockerfile"]).is_file(), service
        else:
            assert re.fullmatch(r"[\w./-]+:v?\d[\w.-]+", settings["image"]), service
        for volume in settings.get("volumes", ()):
            if isinstance(volume, str) and volume.startswith("./"):
                assert (folder / volume.split(":")[0]).exists(), volume
        for port in settings.get("ports", ()):
            assert port.startswith("127.0.0.1:"), "nothing is open to other machines"
    monitoring = COMPOSE["monitoring/compose.yaml"]
    used = {v.split(":")[0] for s in monitoring["services"].values() for v in s.get("volumes", ())
            if re.match(r"\w", v)}  # fmt: skip
    assert used == set(monitoring["volumes"])
    assert COMPOSE["compose.yaml"]["services"]["gpu"]["gpus"] == "all"


def test_prometheus_scrapes_the_services_of_the_stack() -> None:
    config = yaml.safe_load((STACK / "prometheus.yml").read_text())
    targets = [
        t for job in config["scrape_configs"] for s in job["static_configs"] for t in s["targets"]
    ]
    assert {t.split(":")[0] for t in targets} <= set(COMPOSE["monitoring/compose.yaml"]["services"])


@pytest.mark.parametrize("name", COMPOSE)
def test_compose_takes_the_file(name: str) -> None:
    if (
        not shutil.which("docker")
        or subprocess.run(
            ["docker", "compose", "version"], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("needs docker compose (the client; no engine)")
    done = subprocess.run(
        ["docker", "compose", "-f", str(ROOT / "deploy" / name), "config", "--quiet"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
