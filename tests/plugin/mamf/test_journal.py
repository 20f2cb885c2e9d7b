from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_gpuperf.mamf.journal import Journal, JournalError
from pytest_gpuperf.mamf.ranges import Shape

HEADER = {"machine": "Acme X1 | torch 9", "dtype": "bf16", "m": (1, 2), "seed": 0}


class Timer:
    """Answers by formula, and counts."""

    def __init__(self) -> None:
        self.failures: dict[Shape, str] = {}
        self.disturbed: set[Shape] = set()
        self.asked: list[Shape] = []

    def time(self, shape: Shape, calls: int) -> tuple[float, ...]:
        self.asked.append(shape)
        if shape[0] == 13:
            self.failures[shape] = "out of memory"
            return ()
        if shape[0] == 7:
            self.disturbed.add(shape)
        return tuple(shape[0] * 1e-3 + i * 1e-6 for i in range(calls))


def begun(path: Path) -> tuple[Journal, Timer]:
    timer = Timer()
    journal = Journal(path, HEADER, timer)
    assert journal.begin() is None
    return journal, timer


def test_what_was_timed_is_read_and_the_rest_timed(tmp_path: Path) -> None:
    path = tmp_path / "a" / "j.jsonl"
    journal, _ = begun(path)
    shapes = [(1, 1, 1), (13, 1, 1), (7, 1, 1), (1, 1, 1)]
    told = [journal.time(s, 2) for s in shapes]
    spent = journal.spent_s
    journal.close(finished=False)

    timer = Timer()
    resumed = Journal(path, HEADER, timer)
    resumed.resume()
    assert [resumed.time(s, 2) for s in shapes] == told
    assert timer.asked == []
    assert (resumed.replayed, timer.failures) == (4, {(13, 1, 1): "out of memory"})
    assert timer.disturbed == {(7, 1, 1)}
    assert resumed.spent_s == pytest.approx(spent)
    resumed.time((1, 1, 1), 2)
    resumed.time((2, 1, 1), 3)
    assert timer.asked == [(1, 1, 1), (2, 1, 1)]  # the third of the same question is a new one
    resumed.close(finished=True)
    assert not path.exists()


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_line_cut_by_a_kill_costs_its_shape_alone(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "j.jsonl"
    journal, _ = begun(path)
    for side in (1, 2, 3):
        journal.time((side, 1, 1), 2)
    journal.close(finished=False)
    path.write_bytes(path.read_bytes()[:-cut])
    timer = Timer()
    resumed = Journal(path, HEADER, timer)
    resumed.resume()
    for side in (1, 2, 3):
        resumed.time((side, 1, 1), 2)
    assert timer.asked == [(3, 1, 1)]
    resumed.close(finished=False)
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 4


@pytest.mark.parametrize(
    ("change", "told"),
    [({"dtype": "fp32"}, 'dtype was "bf16", now "fp32"'),
     ({"machine": "Acme X2"}, 'machine was "Acme X1 | torch 9", now "Acme X2"'),
     ({"m": (1, 3)}, r"m was [1, 2], now [1, 3]")],
)  # fmt: skip
def test_another_search_or_device_is_refused_with_what_differs(
    tmp_path: Path, change: dict[str, object], told: str
) -> None:
    path = tmp_path / "j.jsonl"
    begun(path)[0].close(finished=False)
    before = path.read_bytes()
    with pytest.raises(JournalError) as caught:
        Journal(path, {**HEADER, **change}, Timer()).resume()
    assert told in str(caught.value)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "text", ["", "\n", "no json\n", "[]\n", "null\n", "{}\n", "\x00\x01\n", "[" * 100_000 + "\n"]
)
def test_what_is_no_journal_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text(text)
    with pytest.raises(JournalError, match="is no journal"):
        Journal(path, HEADER, Timer()).resume()


@pytest.mark.parametrize(
    "change",
    [{"shape": [1, 1]}, {"seconds": [float("nan")]}, {"seconds": [-1.0]}, {"seconds": []},
     {"took_s": "soon"}, {"calls": None}],
)  # fmt: skip
def test_a_damaged_line_is_named(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "j.jsonl"
    journal, _ = begun(path)
    journal.time((1, 1, 1), 2)
    journal.close(finished=False)
    good = json.loads(path.read_text().splitlines()[1])
    with path.open("a") as file:
        file.write(json.dumps(good | change) + "\n")
    with pytest.raises(JournalError, match="line 3 is damaged"):
        Journal(path, HEADER, Timer()).resume()


def test_nothing_to_resume_is_told(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="nothing to resume"):
        Journal(tmp_path / "j.jsonl", HEADER, Timer()).resume()


def test_an_unfinished_search_is_moved_aside_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    journal, _ = begun(path)
    journal.time((1, 1, 1), 2)
    journal.close(finished=False)
    before = path.read_bytes()
    anew = Journal(path, HEADER, Timer())
    aside = anew.begin()
    anew.close(finished=True)
    assert aside is not None
    assert aside.read_bytes() == before
