"""``gpuperf analyze`` and ``gpuperf compare`` of allocator snapshots, as a user sees them."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

from pytest_gpuperf.cli import main
from snapshots import BACKWARD, MIB, example, written


def test_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "named.json", example())
    assert main(["analyze", str(path)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "device 0: 20.00 MiB reserved in 1 segment (1.43 for each allocated byte)" in told
    assert "6.000 MiB (30.0%) trapped in segments that are in use" in told
    assert "net/model.py:41 forward forward 10.00 MiB 1" in told
    assert "peak 18.00 MiB" in told
    assert (
        "for 6.000 MiB more on device 0: 4.000 MiB side by side would have had to go: "
        "4.000 MiB of net/train.py:77 step (optimizer)" in told
    )


def test_the_report_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "s.pickle", example())
    assert main(["analyze", str(path), "--json", "--fit", "8MiB"]) == 0
    (device,) = json.loads(capsys.readouterr().out)["devices"]
    assert device["trapped"] == 6 * MIB
    assert device["history"]["peak_bytes"] == 18 * MIB
    # 8 MiB: the free 4, the live 4 between, the free 2.
    assert device["fits"][0]["evicted_bytes"] == 4 * MIB


def test_what_grew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = example()
    content["segments"][0]["blocks"][3].update(state="active_allocated", frames=BACKWARD)
    before = written(tmp_path / "a.pickle", example())
    after = written(tmp_path / "b.pickle", content, 2)
    assert main(["compare", str(before), str(after)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "live memory: 14.00 MiB → 16.00 MiB (+2.000 MiB)" in told
    assert "net/train.py:76 step backward 0 B 2.000 MiB +2.000 MiB 0 → 1" in told
    assert main(["compare", str(before), str(after), "--json"]) == 0
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert (change["delta"], change["made_in"]) == (2 * MIB, "backward")


class Evil:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> object:
        return (os.system, (f"touch {self.mark}",))


@pytest.mark.parametrize("command", ["analyze", "compare"])
def test_a_crafted_pickle_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    mark, path = tmp_path / "ran", tmp_path / "evil.pickle"
    path.write_bytes(pickle.dumps({"segments": Evil(mark)}))
    assert main([command, str(path), *([str(path)] if command == "compare" else [])]) == 2
    assert not mark.exists()
    told = capsys.readouterr()
    assert told.out == ""
    line = told.err.splitlines()[0]
    assert line.startswith(f"gpuperf: {path}: not read as a snapshot: refused: its instruction")


def test_a_name_cannot_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = example()
    hostile = [{"filename": "\x1b[31m/x.py", "line": 1, "name": "[bold]f\n"}]
    content["segments"][0]["blocks"][0]["frames"] = hostile
    content["allocator_settings"] = {"a\x1b]0;x\x07": "\x1b"}
    assert main(["analyze", str(written(tmp_path / "s.pickle", content))]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "more", [["--csv"], ["--span", "x", "--json"], ["--step", "1"], ["--rank", "0"], ["other.json"]]
)
def test_what_is_asked_of_traces_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    path = written(tmp_path / "s.pickle", example())
    with pytest.raises(SystemExit) as ended:
        main(["analyze", str(path), *more])
    assert ended.value.code == 2
    assert "snapshot" in capsys.readouterr().err


def test_a_snapshot_and_a_trace_do_not_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "s.pickle", example())
    with pytest.raises(SystemExit):
        main(["compare", str(path), str(tmp_path / "trace.json")])
    assert "compares with another one only" in capsys.readouterr().err
