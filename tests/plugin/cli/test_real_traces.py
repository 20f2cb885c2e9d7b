"""The command on every real trace: the exact timeline, no traceback, a clear line for the rest.

`expected.json` holds values computed independently, in µs with three decimals: whole nanoseconds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuperf_analyzers.foreign import kind_of_file
from pytest_gpuperf.cli import main

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "traces"
FILES = (
    sorted(str(p.relative_to(FOLDER)) for p in FOLDER.rglob("*") if p.is_file())
    if (FOLDER / "expected.json").is_file()
    else ["expected.json"]
)
FIELDS = (
    "window_us",
    "busy_us",
    "idle_us",
    "compute_us",
    "comm_us",
    "memory_us",
    "exposed_comm_us",
    "overlapped_comm_us",
    "exposed_memory_us",
)
"""Fields of expected.json, which are the columns of the timeline's table too."""


def _ns(us: float) -> int:
    return round(us * 1000)


@pytest.mark.parametrize("file", FILES)
def test_a_real_file_is_analyzed_exactly_or_refused_in_one_line(
    file: str,
    shared_traces: Path,
    expected: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    status = main(["analyze", "--json", str(shared_traces / file)])
    captured = capsys.readouterr()
    if status == 2:
        assert file not in expected
        assert captured.out == ""
        assert len(captured.err.splitlines()) == 1
        return
    assert status == 0
    document = json.loads(captured.out)
    if "kind" in document:  # a file of another tool
        timeline = "memory_timeline" in file
        kind = "torch memory timeline" if timeline else "nvidia-smi -q -x"
        assert document["kind"] == kind
        assert file not in expected
        return
    (rank,) = document["ranks"]
    want = expected.get(file, {"error": "no strict JSON"})
    if "error" in want:
        assert {f["code"] for f in rank["findings"]} & {"truncated", "repaired", "metadata-lost"}
        return
    assert {str(d["device"]) for d in rank["devices"]} == set(want["devices"])
    assert rank["devices"] or rank["invalid"]
    for device in rank["devices"]:
        exact = want["devices"][str(device["device"])]
        window = device["tables"]["timeline"][0]
        compared = [field for field in FIELDS if field in exact]
        assert len(compared) >= 6
        assert {f: _ns(window[f]) for f in compared} == {f: _ns(exact[f]) for f in compared}
        occupancy = exact.get("occupancy_time_weighted_pct")
        if occupancy is not None:
            shown = device["values"]["est_occupancy"]["value"]
            assert shown * 100 == pytest.approx(occupancy, rel=1e-5)
        assert [s["name"] for s in device["steps"]] == want["steps"]


@pytest.mark.parametrize("file", FILES)
def test_a_real_file_is_shown_within_eighty_columns_without_control_characters(
    file: str,
    shared_traces: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path = shared_traces / file
    options = [] if kind_of_file(path) else ["--step", "all"]
    assert main(["analyze", *options, str(path)]) in (0, 2)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines()), default=0) <= 80
    assert all(c == "\n" or c.isprintable() for c in out)


def test_the_eight_ranks_are_one_set_with_the_worst_rank_named(
    shared_traces: Path, expected: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", "--json", str(shared_traces / "param-dlrm-kineto")]) == 0
    document = json.loads(capsys.readouterr().out)
    overlaps = {
        value["rank"]: next(iter(value["devices"].values()))["overlap_pct"]
        for name, value in expected.items()
        if name.startswith("param-dlrm-kineto/")
    }
    worst = min(overlaps, key=lambda rank: overlaps[rank])
    shown = document["values"]["overlap"]
    assert shown["at"] == f"rank {worst}"
    assert shown["value"] * 100 == pytest.approx(overlaps[worst], abs=1e-9)
    # Every rank has the same eight collectives, so all of them are matched.
    assert len(document["collectives"]["calls"]) == 8
    assert document["collectives"]["unmatched"] == []
    assert document["values"]["busbw"]["value"] > 0
    mean = document["spread"]["overlap"]["mean"]
    assert mean * 100 == pytest.approx(sum(overlaps.values()) / 8, abs=1e-9)


def test_the_control_trace_overlaps_more_than_forty_percent(
    shared_traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = str(shared_traces / "hta-trace-diff" / "control.json.gz")
    assert main(["check", trace, "--min-overlap", "0.4"]) == 0
    assert capsys.readouterr().out == "PASS        min_overlap=0.4: 46.2%\n"
    assert main(["check", trace, "--min-overlap", "0.5"]) == 1
