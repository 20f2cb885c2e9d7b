"""What pytest said of a live run is what the command says of the trace it left."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch", reason="a live run needs torch")

from pytest_gpuperf.cli import main
from pytest_gpuperf.recording import cpu_peak

TEST = """
import pytest
import torch

@pytest.mark.gpuperf(
    min_tflops={"cpu": 1e-9}, max_step_time="1us", max_idle="100%", max_peak_memory="1GiB",
    max_host_syncs=0, min_throughput="1/s", min_mfu=0.9999, items=64, steps=6,
    warmup="50ms", max_time="200ms", device="cpu",
)
def test_step(gpuperf):
    a = torch.randn(64, 64)
    gpuperf(torch.mm, a, a)
"""
OPTIONS = {
    "min_tflops": "cpu=1e-9", "max_step_time": "1us", "max_idle": "100%",
    "max_peak_memory": "1GiB", "max_host_syncs": "0", "min_throughput": "1/s", "min_mfu": "0.9999",
}  # fmt: skip


def test_the_command_judges_our_trace_as_pytest_did(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytester.makepyfile(TEST)
    # The search for the peak takes twenty seconds, and has tests of its own.
    peaks = {cpu_peak.machine_key(1): {"fp32": 0.125}}
    (pytester.path / "cpu-peaks.json").write_text(json.dumps(peaks))
    monkeypatch.setenv(cpu_peak.CACHE_VARIABLE, str(pytester.path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    pytester.runpytest_subprocess("--gpuperf-report", "-p", "no:randomly")
    report = json.loads((pytester.path / ".gpuperf" / "report.json").read_text())
    (result,) = report["results"]
    arguments = [
        part
        for keyword, written in OPTIONS.items()
        for part in (f"--{keyword.replace('_', '-')}", written)
    ]
    capsys.readouterr()
    status = main(["check", "--json", *result["traces"], *arguments])
    offline = json.loads(capsys.readouterr().out)
    keys = ("metric", "verdict", "value", "interval", "limit", "reason")
    assert len(result["limits"]) == len(OPTIONS)
    assert [[j[k] for k in keys] for j in offline["limits"]] == [
        [j[k] for k in keys] for j in result["limits"]
    ]
    assert (status, offline["verdict"]) == (1, result["verdict"])
    by_metric = {j["metric"]: j["verdict"] for j in offline["limits"]}
    assert by_metric["step_time"] == "FAIL"  # a matmul of 64 takes longer than a microsecond
    assert by_metric["peak_memory"] == "PASS"
    assert by_metric["throughput"] == "PASS"
    assert by_metric["mfu"] != "UNMEASURED"
