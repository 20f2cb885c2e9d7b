"""Mutated baselines, histories and reports: each is read, or refused in one line."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuperf_analyzers.loading import load_report
from mutations import mutated
from observations import observation
from plugin.report.records import record
from pytest_gpuperf.baselines import history
from pytest_gpuperf.baselines.document import BaselineError
from pytest_gpuperf.baselines.store import Store, read_file

SEEDS = 250


def _damaged(whole: bytes, path: Path, salt: int) -> Iterator[None]:
    """`path` with what each seed makes of `whole`, one after the other."""
    for seed in range(SEEDS):
        path.write_bytes(mutated(whole, random.Random(salt * 100_003 + seed)))
        yield


def test_baselines(tmp_path: Path) -> None:
    observed = [observation(samples=(1000.0, 1001.0)), observation("t.py::b", name="x")]
    [(path, _, _)] = Store(tmp_path / "made").save(observed, name="default")
    whole, target = path.read_bytes(), tmp_path / "baseline.json"
    read, told = 0, []
    for _ in _damaged(whole, target, 1):
        try:
            found = read_file(target)
        except BaselineError as error:
            told.append(str(error))
        else:
            read += found is not None
    assert all(t.startswith(f"gpuperf: {target}: ") and "\n" not in t for t in told)
    assert 0 < read < SEEDS


def test_histories(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    history.append(path, history.lines_of([observation(), observation("t.py::b")], at="2026"))
    whole = path.read_bytes()
    lines = 0
    for _ in _damaged(whole, path, 2):
        found = history.read(path)
        lines += len(found.lines)
        list(history.series(found))
    assert lines > 0


def test_reports(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    from prometheus_client import CollectorRegistry, generate_latest

    from pytest_gpuperf.exporter.files import ReportFiles

    path = tmp_path / "report.json"
    document = {
        "schema": 1, "tool": {"name": "pytest-gpuperf", "version": "1"},
        "created": "2026-01-01T00:00:00+00:00", "environment": {}, "commit": {},
        "results": [record(), record(name="b")],
    }  # fmt: skip
    whole = json.dumps(document).encode()
    read, told = 0, []
    for _ in _damaged(whole, path, 3):
        registry = CollectorRegistry(auto_describe=False)
        registry.register(ReportFiles([str(path)]))
        generate_latest(registry)
        try:
            load_report(path)
        except ValueError as error:
            told.append(str(error))
        else:
            read += 1
    assert all(t.startswith(f"{path}: ") and "\n" not in t for t in told)
    assert 0 < read < SEEDS


@pytest.mark.parametrize("depth", [500, 200_000])
def test_depth_is_no_crash(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "report.json"
    path.write_text("[" * depth + "]" * depth)
    with pytest.raises(ValueError, match="report"):
        load_report(path)
    with pytest.raises(BaselineError):
        read_file(path)
    history.read(path)


def test_what_is_larger_than_its_bound_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "big.json"
    path.write_text("[" + "1," * 50_000 + "1]")
    for module in ("baselines.store", "baselines.history"):
        monkeypatch.setattr(f"pytest_gpuperf.{module}.LARGEST", 4096)
    monkeypatch.setattr("gpuperf_analyzers.loading.LARGEST", 4096)
    with pytest.raises(BaselineError, match="is larger than"):
        read_file(path)
    with pytest.raises(OSError, match="larger than"):
        history.read(path)
    with pytest.raises(ValueError, match="is no JSON report"):
        load_report(path)
