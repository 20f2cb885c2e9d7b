"""``gpuperf exporter`` as a process: what it serves, how it ends, and what it refuses."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_gpuperf.cli import main

from .test_results import document, record

openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")
Start = Callable[..., tuple["subprocess.Popen[str]", str]]


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "pytest_gpuperf.cli", "exporter", "--port", "0"]
        process = subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        running.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().split()[-1]

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def fetched(url: str, accept: str = "") -> str:
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})  # noqa: S310
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        return str(answer.read().decode())


def test_reports_are_served_as_they_change_and_ctrl_c_ends_it(start: Start, tmp_path: Path) -> None:
    report = tmp_path / "runs" / "a" / "report.json"
    report.parent.mkdir(parents=True)
    report.write_text(json.dumps(document(record())))
    (tmp_path / "runs" / "other.json").write_text('{"results": 3}')
    process, url = start("--no-live", "--watch", str(tmp_path / "runs"))
    assert url.startswith("http://127.0.0.1:")
    text = fetched(url, "application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")
    named = {f.name: f for f in openmetrics.text_string_to_metric_families(text)}
    (sample,) = named["gpuperf_overlap_ratio"].samples
    assert sample.value == 0.41
    assert sample.labels["report"] == "a/report"
    report.write_text(json.dumps(document(record(), record(name="second"))))
    assert fetched(url).count("\ngpuperf_overlap_ratio{") == 2
    report.write_text("{")
    assert "gpuperf_overlap_ratio{" not in fetched(url), "what cannot be read any more is not kept"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert errors == ""


def test_a_named_report_that_breaks_is_told(start: Start, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps(document(record())))
    _, url = start("--no-live", str(tmp_path))
    assert f'gpuperf_report_readable{{report="{report}"}} 1.0' in fetched(url)
    report.unlink()
    assert f'gpuperf_report_readable{{report="{report}"}} 0.0' in fetched(url)


def test_what_cannot_be_served_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["exporter", "--no-live"]) == 2
    assert "nothing to export" in capsys.readouterr().err
    assert main(["exporter", str(tmp_path / "missing.json")]) == 2
    assert "missing.json: no such file" in capsys.readouterr().err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["exporter", "--no-live", "--watch", str(tmp_path), "--port", port]) == 2
    assert f"127.0.0.1:{port} cannot be listened on" in capsys.readouterr().err
    assert main(["exporter", "--no-live", "--watch", str(tmp_path), "--port", "99999999"]) == 2
    assert "cannot be listened on" in capsys.readouterr().err
