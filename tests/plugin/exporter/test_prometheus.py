"""A real Prometheus, and node_exporter, scrape what we write; promtool lints it."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers.metrics import BUILTIN
from plugin.report.records import judgement, value

from .test_results import HOSTILE, document, record

pytest.importorskip("prometheus_client")

from pytest_gpuperf.exporter.textfile import write_textfile

NEEDED = ("prometheus", "promtool", "prometheus-node-exporter")
pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, NEEDED)),
    reason="needs Debian's packages prometheus and prometheus-node-exporter",
)


def everything() -> dict[str, Any]:
    """A report in which every metric has a value and a limit."""
    values = {m.name: value(0.5, m.unit, [0.4, 0.6]) for m in BUILTIN}
    limits = [judgement(metric=m.name, unit=m.unit, direction="max", limit=1.0) for m in BUILTIN]
    return document(record(values=values, limits=limits), record(test=HOSTILE))


def test_promtool_finds_nothing_to_say(tmp_path: Path) -> None:
    path = write_textfile(everything(), tmp_path / "all.prom")
    with path.open("rb") as text:
        done = subprocess.run(
            ["promtool", "check", "metrics"], stdin=text, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_would_say_it(tmp_path: Path) -> None:
    """The check above can fail: a counter's ending on a gauge is told."""
    wrong = "# HELP a_total a\n# TYPE a_total gauge\na_total 1\n"
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=wrong,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "_total" in done.stderr


@pytest.fixture
def running() -> Iterator[Callable[[list[str]], subprocess.Popen[str]]]:
    begun: list[subprocess.Popen[str]] = []

    def begin(command: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        begun.append(process)
        return process

    yield begin
    for process in reversed(begun):
        process.kill()
        process.communicate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _asked(port: int, query: str) -> list[dict[str, Any]]:
    address = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return list(json.loads(answer.read())["data"]["result"])
    except (urllib.error.URLError, ConnectionError):
        return []


def _until(port: int, query: str, most_s: float = 40.0) -> list[dict[str, Any]]:
    end = time.monotonic() + most_s
    while time.monotonic() < end:
        found = _asked(port, query)
        if found:
            return found
        time.sleep(0.3)
    raise AssertionError(f"{query}: no answer within {most_s:g} s")


def test_a_real_prometheus_scrapes_the_exporter_and_the_textfile(
    running: Callable[[list[str]], subprocess.Popen[str]], tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps(everything()))
    exporter = running(
        [sys.executable, "-m", "pytest_gpuperf.cli", "exporter", "--no-live", "--port", "0",
         str(report)]
    )  # fmt: skip
    assert exporter.stdout is not None
    ours = urllib.parse.urlsplit(exporter.stdout.readline().split()[-1]).netloc
    folder = tmp_path / "textfile"
    folder.mkdir()
    write_textfile(everything(), folder / "perf.prom")
    node_port, port = _free_port(), _free_port()
    running(
        ["prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile",
         f"--collector.textfile.directory={folder}", f"--web.listen-address=127.0.0.1:{node_port}"]
    )  # fmt: skip
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        f"- {{job_name: gpuperf, static_configs: [{{targets: ['{ours}']}}]}}\n"
        f"- {{job_name: node, static_configs: [{{targets: ['127.0.0.1:{node_port}']}}]}}\n"
    )
    running(
        ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}",
         f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    )  # fmt: skip
    for job, name in (("gpuperf", str(report)), ("node", "perf")):
        _until(port, f'up{{job="{job}"}} == 1')
        named = f'job="{job}",report={json.dumps(name)}'
        found = _until(port, f'gpuperf_step_time_seconds{{{named},test=~"tests/perf.*"}}')
        assert float(found[0]["value"][1]) == pytest.approx(0.5e-6)  # 0.5 µs
        # Two results, each with one verdict of seven.
        total = _until(port, f"count(gpuperf_verdict{{{named}}} == 1)")
        assert total[0]["value"][1] == "2"
        hostile = _asked(port, f'gpuperf_verdict{{{named},test=~"a.b.*",verdict="FAIL"}}')
        assert hostile[0]["metric"]["test"].startswith('a"b\\c d')
    assert _asked(port, "node_textfile_scrape_error")[0]["value"][1] == "0"
