"""``gpuperf baseline``: what it shows, what it changes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from observations import CPU, observation
from pytest_gpuperf.baselines.last_run import write
from pytest_gpuperf.baselines.store import Store
from pytest_gpuperf.cli import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def _saved(*names: str, runs: int = 1, name: str = "default") -> Store:
    store = Store(Path("gpuperf-baselines"))
    for i in range(runs):
        store.save([observation(n, step_us=1000.0 + 10 * i) for n in names], name=name)
    return store


def _tests(name: str = "default") -> list[str]:
    found = Store(Path("gpuperf-baselines")).of(CPU)
    if found is None or name not in found.baselines:
        return []
    return sorted(test for test, _ in found.baselines[name].entries)


def test_list_has_a_row_a_baseline(capsys: Capture) -> None:
    _saved("a.py::one", "a.py::two", runs=3)
    _saved("a.py::one", name="nightly")
    assert main(["baseline", "list"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["default", "2", "3"] in [row[1:4] for row in rows if len(row) > 3]
    assert ["nightly", "1", "1"] in [row[1:4] for row in rows if len(row) > 3]


def test_show_has_medians_the_spread_between_runs_and_exact_counts(capsys: Capture) -> None:
    _saved("a.py::one", runs=3)
    assert main(["baseline", "show", "a.py::*"]) == 0
    out = capsys.readouterr().out
    (time,) = [line for line in out.splitlines() if line.startswith("step_time")]
    assert time.split() == "step_time 1.010 ms 1.000 ms to 1.020 ms 3".split()  # noqa: SIM905 - as read
    (count,) = [line for line in out.splitlines() if line.startswith("kernel_launches")]
    assert "120 exactly" in count
    assert main(["baseline", "show", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["baselines"]
    assert [s["value"] for s in shown["measurements"][0]["sampled"]["step_time"]] == [
        1000.0, 1010.0, 1020.0,
    ]  # fmt: skip


def test_prune_keeps_the_last_runs_or_drops_tests_or_a_whole_baseline(capsys: Capture) -> None:
    _saved("a.py::one", "b.py::two", runs=4)
    assert main(["baseline", "prune", "--keep", "2", "--dry-run"]) == 0
    assert "8 → 4 of their runs" in capsys.readouterr().out
    assert main(["baseline", "prune", "--keep", "2"]) == 0
    found = Store(Path("gpuperf-baselines")).of(CPU)
    assert found is not None
    assert found.baselines["default"].entries[("a.py::one", "")].runs == (3, 4)
    assert main(["baseline", "prune", "--test", "b.py"]) == 0
    assert _tests() == ["a.py::one"]
    _saved("a.py::one", name="nightly")
    assert main(["baseline", "prune", "--name", "default"]) == 0
    assert (_tests(), _tests("nightly")) == ([], ["a.py::one"])
    assert main(["baseline", "prune", "--name", "nightly"]) == 0
    assert not list(Path("gpuperf-baselines").glob("*.json"))
    assert main(["baseline", "prune"]) == 2


def test_rename_keeps_what_is_stored(capsys: Capture) -> None:
    _saved("a.py::old", "a.py::other", runs=2)
    assert main(["baseline", "rename", "a.py::old", "a.py::new"]) == 0
    assert _tests() == ["a.py::new", "a.py::other"]
    assert main(["baseline", "rename", "a.py::old", "a.py::x"]) == 2
    assert main(["baseline", "rename", "a.py::new", "a.py::other"]) == 2
    assert "prune it first" in capsys.readouterr().err


def test_update_accepts_the_last_run_and_drops_the_runs_before(capsys: Capture) -> None:
    _saved("a.py::one", "a.py::two", runs=3)
    passed, failed = observation("a.py::one", launches=121), observation("a.py::two", launches=9)
    write(Path(".gpuperf"), [passed.to_json()], [failed.to_json()])
    assert main(["baseline", "update", "a.py::two"]) == 0
    found = Store(Path("gpuperf-baselines")).of(CPU)
    assert found is not None
    entries = found.baselines["default"].entries
    assert entries[("a.py::two", "")].runs == (4,)
    assert entries[("a.py::one", "")].runs == (1, 2, 3)
    assert main(["baseline", "update", "--add"]) == 0
    found = Store(Path("gpuperf-baselines")).of(CPU)
    assert found is not None
    assert found.baselines["default"].entries[("a.py::one", "")].runs == (1, 2, 3, 5)


def test_it_works_from_a_folder_below(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    _saved("a.py::one")
    Path("deep/er").mkdir(parents=True)
    monkeypatch.chdir("deep/er")
    assert main(["baseline", "list"]) == 0


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["list"], "no baselines are kept here"),
        (["update"], "there is no last run: run pytest first"),
        (["show", "--dir", "elsewhere"], "elsewhere: no baselines are kept here"),
    ],
)
def test_nothing_there_is_one_line_and_status_2(
    capsys: Capture, argv: list[str], said: str
) -> None:
    assert main(["baseline", *argv]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b garbage", b"{}"])
def test_a_damaged_last_run_is_one_line(capsys: Capture, content: bytes) -> None:
    Path(".gpuperf").mkdir()
    Path(".gpuperf/last-run.json.gz").write_bytes(content)
    assert main(["baseline", "update"]) == 2
    assert "run pytest anew" in capsys.readouterr().err


def test_a_damaged_file_is_one_line(capsys: Capture) -> None:
    Path("gpuperf-baselines").mkdir()
    Path("gpuperf-baselines/x.json").write_text("{")
    assert main(["baseline", "list"]) == 2
    assert "cut short" in capsys.readouterr().err


def test_an_id_with_brackets_is_an_id_and_no_set_of_characters(capsys: Capture) -> None:
    _saved("a.py::test[x-1]", "a.py::testx")
    assert main(["baseline", "prune", "--test", "a.py::test[x-1]"]) == 0
    assert _tests() == ["a.py::testx"]
