"""Many ranks: which files, whose rank, results of those that succeed, names of those that fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuperf_analyzers.trace.model import TraceError
from gpuperf_analyzers.trace.ranks import assign_ranks, rank_in_name
from gpuperf_analyzers.trace.sets import find_traces, map_ranks, read_traces
from kineto import KinetoTrace
from rank_work import count, die_on_two, die_once, fail_on_two, peak_memory, where


def _rank(rank: int | None, world: int | None = None, events: int = 3) -> KinetoTrace:
    t = KinetoTrace(rank=rank, world_size=world)
    for i in range(events):
        t.op("aten::add", at=i, dur=1)
    return t


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four ranks, named so that alphabetical order is not theirs; rank r has 3 + r events."""
    for rank in range(4):
        _rank(rank, 4, 3 + rank).write(tmp_path / f"trace_{10 - rank}.json.gz")
    (tmp_path / "notes.txt").write_text("not a trace")
    return tmp_path


def test_a_folder_a_glob_a_list_and_a_file_name_traces(folder: Path) -> None:
    names = [f"trace_{n}.json.gz" for n in (7, 8, 9, 10)]
    assert [Path(p).name for p in find_traces(folder)] == names
    assert [Path(p).name for p in find_traces(str(folder / "*_[78].json.gz"))] == names[:2]
    listed = [folder / names[2], folder / names[0]]
    assert [Path(p).name for p in find_traces(listed)] == [names[2], names[0]]
    assert find_traces(folder / names[0]) == (str(folder / names[0]),)


def test_nothing_to_read_is_one_clear_line(tmp_path: Path) -> None:
    for nothing, reason in (
        (tmp_path, "a folder without traces"),
        (str(tmp_path / "*.json"), "no file matches"),
        ([], "the list of files is empty"),
    ):
        with pytest.raises(TraceError, match=reason):
            read_traces(nothing)


def test_ranks_come_from_distributed_info(folder: Path) -> None:
    found = read_traces(folder)
    assert [t.rank for t in found.traces] == [0, 1, 2, 3]
    assert [len(t.events) for t in found.traces] == [3, 4, 5, 6]
    assert found.rank_source == "distributedInfo"
    assert found.failed == {}
    assert found.findings == ()


def test_ranks_come_from_names_where_the_files_do_not_say(tmp_path: Path) -> None:
    for rank in (11, 2):
        _rank(None).write(tmp_path / f"job_rank-{rank}.pt.trace.json")
    found = read_traces(tmp_path)
    assert [t.rank for t in found.traces] == [2, 11]
    assert found.rank_source == "file name"


def test_ranks_come_from_names_where_all_files_say_the_same(tmp_path: Path) -> None:
    for rank in range(2):
        _rank(0, 1).write(tmp_path / f"worker{rank}.json")
    found = read_traces(tmp_path)
    assert [t.rank for t in found.traces] == [0, 1]
    assert found.rank_source == "file name"


def test_ranks_are_the_order_where_nothing_says_them(tmp_path: Path) -> None:
    for name in ("b.json", "a.json"):
        _rank(None).write(tmp_path / name)
    found = read_traces(tmp_path)
    assert [(Path(t.path).name, t.rank) for t in found.traces] == [("a.json", 0), ("b.json", 1)]
    assert found.rank_source == "order"


def test_one_file_that_does_not_say_its_rank_has_none(tmp_path: Path) -> None:
    found = read_traces(_rank(None).write(tmp_path / "a.json"))
    assert found.traces[0].rank is None


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank3.json", 3),
        ("rank-34.Jul_15.1074.pt.trace.json.gz", 34),
        ("sampled_rank-1.json.gz", 1),
        ("worker0_step_12.1694128201545.pt.trace.json", 0),
        ("B300.1782843274-TP-0-DECODE.trace.json.gz", None),
        ("frank3.json", None),
        ("/data/rank7/trace.json", None),
        ("s3://bucket/rank_5.json.gz", 5),
    ],
)
def test_the_rank_that_a_name_gives(name: str, rank: int | None) -> None:
    assert rank_in_name(name) == rank


def test_what_the_files_say_stands_where_names_say_nothing_better() -> None:
    assert assign_ranks([3, 3], ["a", "b"]) == ([3, 3], "distributedInfo")
    assert assign_ranks([3, None], ["a", "b"]) == ([3, None], "distributedInfo")


def test_a_rank_twice_a_rank_missing_and_two_jobs_are_told(tmp_path: Path) -> None:
    _rank(1, 4).write(tmp_path / "a.json")
    _rank(1, 4).write(tmp_path / "b.json")
    found = {f.code: f for f in read_traces(tmp_path).findings}
    assert found["duplicate-rank"].count == 1
    assert found["duplicate-rank"].example == "rank 1"
    assert "a.json, b.json" in found["duplicate-rank"].message
    assert found["missing-ranks"].count == 3
    assert found["missing-ranks"].example == "rank 0"
    assert "busbw" in found["missing-ranks"].invalidates
    _rank(2, 8).write(tmp_path / "c.json")
    codes = {f.code for f in read_traces(tmp_path).findings}
    assert codes == {"duplicate-rank", "world-size-differs"}


def test_the_real_sets_of_ranks(shared_traces: Path) -> None:
    whole = read_traces(shared_traces / "param-dlrm-kineto")
    assert [t.rank for t in whole.traces] == list(range(8))
    assert whole.findings == ()
    jobs = read_traces(shared_traces / "hta-trace-diff")
    assert "world-size-differs" in {f.code for f in jobs.findings}


def test_one_rank_that_cannot_be_read_costs_itself(folder: Path) -> None:
    broken = folder / "trace_9.json.gz"
    broken.write_bytes(b"<html>")
    found = read_traces(folder)
    assert [t.rank for t in found.traces] == [0, 2, 3]
    assert list(found.failed) == [str(broken)]
    assert "HTML" in found.failed[str(broken)]
    assert {f.code for f in found.findings} == {"missing-ranks"}


def test_no_rank_that_can_be_read_is_an_error(folder: Path) -> None:
    for path in folder.glob("*.gz"):
        path.write_bytes(b"")
    with pytest.raises(TraceError, match=r"empty.*\(and 3 more files\)"):
        read_traces(folder)


def test_work_that_fails_on_one_rank_costs_that_rank(folder: Path) -> None:
    found = map_ranks(folder, fail_on_two)
    assert [(r.rank, r.result) for r in found.ranks] == [(0, 3), (1, 4), (3, 6)]
    (line,) = found.failed.values()
    assert "KeyError" in line
    assert "\n" not in line


def test_processes_give_what_one_gives(folder: Path) -> None:
    alone = map_ranks(folder, count)
    several = map_ranks(folder, count, processes=2)
    assert several == alone
    assert [r.result for r in several.ranks] == [3, 4, 5, 6]


def test_ranks_are_worked_on_in_other_processes(folder: Path) -> None:
    found = map_ranks(folder, where, processes=2)
    pids = {r.result[1] for r in found.ranks}
    assert os.getpid() not in pids
    assert len(pids) == 2


def test_memory_follows_what_works_at_once_and_not_the_number_of_ranks(tmp_path: Path) -> None:
    source = _rank(None, events=40_000).write(tmp_path / "source.json")
    peaks = {}
    for ranks in (2, 20):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        for rank in range(ranks):
            (folder / f"rank{rank}.json").symlink_to(source)
        found = map_ranks(folder, peak_memory, processes=2)
        peaks[ranks] = max(r.result for r in found.ranks)
    # 40,000 events are 4 MB of columns; nine more ranks a process would be 33 MB if kept.
    assert peaks[20] - peaks[2] < 15e6


def test_a_process_that_is_killed_once_costs_no_rank(folder: Path) -> None:
    found = map_ranks(folder, die_once, processes=2)
    assert [r.result for r in found.ranks] == [3, 4, 5, 6]
    assert found.failed == {}


def test_a_rank_that_kills_its_process_is_named_and_the_others_stand(folder: Path) -> None:
    found = map_ranks(folder, die_on_two, processes=2)
    assert [(r.rank, r.result) for r in found.ranks] == [(0, 3), (1, 4), (3, 6)]
    assert [Path(p).name for p in found.failed] == ["trace_8.json.gz"]
    assert "died" in next(iter(found.failed.values()))


def test_a_result_that_cannot_be_handed_back_is_told(folder: Path) -> None:
    with pytest.raises(TraceError, match="cannot be handed back"):
        map_ranks(folder, lambda trace: len(trace.events), processes=2)
