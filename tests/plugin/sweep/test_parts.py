"""Grids, journals, results and maps of sweeps, without a process of a point."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_gpuperf.ranks import RankError, RankOutcome, State
from pytest_gpuperf.sweep import failure
from pytest_gpuperf.sweep.child import loaded
from pytest_gpuperf.sweep.grid import GridError, make_grid, parse_axis, read_axes
from pytest_gpuperf.sweep.journal import JournalError, SweepJournal, header
from pytest_gpuperf.sweep.maps import heat_axes, heat_maps
from pytest_gpuperf.sweep.plot import plot_sweep
from pytest_gpuperf.sweep.points import PointResult, Settings
from pytest_gpuperf.sweep.result import Outcome, to_json, verdict
from pytest_gpuperf.sweep.target import find_target

SETTINGS = Settings("cpu", items=("batch", "2"))


def _point(index: int, values: dict, time_us: float | None, *, low=None, high=None) -> PointResult:
    if time_us is None:
        return PointResult(index, values, "hang", "still running")
    step = {"value": time_us, "unit": "us", "interval": None if low is None else [low, high]}
    return PointResult(index, values, "measured", metrics={"step_time": step})


def test_values_are_numbers_words_and_switches() -> None:
    assert parse_axis("a=1,-2,3.5,1e3,bf16,on,False") == (
        "a", (1, -2, 3.5, 1000.0, "bf16", True, False)
    )  # fmt: skip


def test_the_last_axis_runs_fastest_and_points_are_counted() -> None:
    grid = make_grid([("a", (1, 2)), ("b", ("x", "y", "z"))])
    assert len(grid) == 6
    assert grid.points()[:4] == [
        {"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 1, "b": "z"}, {"a": 2, "b": "x"}
    ]  # fmt: skip


@pytest.mark.parametrize(
    "axes",
    [
        [("a", tuple(range(101))), ("b", tuple(range(100)))],
        [("class", (1,))],
        [("a", ())],
        [("a", (None,))],
        [("a", ({"b": 1},))],
        [("a", (2**70,))],
        [("a", ("x" * 300,))],
        [("world_size", (True,))],
        [("world_size", (2.0,))],
    ],
)
def test_axes_that_cannot_be_are_refused(axes) -> None:
    with pytest.raises(GridError):
        make_grid(axes)


def test_a_number_of_many_digits_is_refused() -> None:
    with pytest.raises(GridError, match="too long"):
        parse_axis("a=" + "9" * 5000)


def test_one_and_true_are_two_values() -> None:
    grid = make_grid([("a", (1, True)), ("b", (1, 2))])
    results = tuple(_point(i, v, float(i + 1)) for i, v in enumerate(grid.points()))
    (shown,) = heat_maps(Outcome("s", grid, SETTINGS, {}, results), "step_time", ("a", "b"))
    assert [[c.value for c in row] for row in shown.cells] == [[1, 2], [3, 4]]


def test_a_grid_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "g.toml"
    path.write_text('[axes]\nmicro = [1, 2]\nprecision = ["fp32"]\ncompile = [true, false]\n')
    assert read_axes(path) == [
        ("micro", (1, 2)), ("precision", ("fp32",)), ("compile", (True, False))
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "[axes]", "axes = 3", "[axes]\na = 1", "x = 1\n[axes]\na=[1]",
                                  "\udcff", "[axes"])  # fmt: skip
def test_a_grid_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "g.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(GridError, match=r"g\.toml"):
        read_axes(path)


def _journal(path: Path, grid, sha256: str = "a", settings: Settings = SETTINGS) -> SweepJournal:
    return SweepJournal(path, header("f.py:g", sha256, grid, settings, {"torch": "9"}), grid)


def test_a_journal_of_another_sweep_is_refused(tmp_path: Path) -> None:
    path, grid = tmp_path / "j", make_grid([("a", (1, 2)), ("b", (1, 2))])
    journal = _journal(path, grid)
    journal.begin()
    journal.add(_point(0, {"a": 1, "b": 1}, 1.0))
    journal.close(finished=False)
    swapped = make_grid([("b", (1, 2)), ("a", (1, 2))])
    with pytest.raises(JournalError, match="axes was"):
        _journal(path, swapped).resume()
    with pytest.raises(JournalError, match="step_sha256 was"):
        _journal(path, grid, "b").resume()
    with pytest.raises(JournalError, match="settings was"):
        _journal(path, grid, settings=Settings("cpu", timeout_s=5)).resume()
    again = _journal(path, grid)
    again.resume()
    assert again.results[0].number("step_time") == 1.0
    again.close(finished=False)


@pytest.mark.parametrize(
    "line",
    ["7", "{}", '{"index": 9, "values": {}, "status": "x"}', "nul",
     '{"index": 0, "values": {"a": 2}, "status": "measured"}'],
)  # fmt: skip
def test_a_damaged_or_foreign_line_is_named(tmp_path: Path, line: str) -> None:
    path, grid = tmp_path / "j", make_grid([("a", (1, 2))])
    journal = _journal(path, grid)
    journal.begin()
    journal.close(finished=False)
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(JournalError, match="line 2 is damaged"):
        _journal(path, grid).resume()


def test_a_point_that_is_there_twice_is_named(tmp_path: Path) -> None:
    path, grid = tmp_path / "j", make_grid([("a", (1, 2))])
    journal = _journal(path, grid)
    journal.begin()
    journal.add(_point(0, {"a": 1}, 1.0))
    journal.add(_point(0, {"a": 1}, 1.0))
    journal.close(finished=False)
    with pytest.raises(JournalError, match="line 3 is damaged"):
        _journal(path, grid).resume()


def test_two_sweeps_cannot_write_one_journal(tmp_path: Path) -> None:
    path, grid = tmp_path / "j", make_grid([("a", (1, 2))])
    first = _journal(path, grid)
    first.begin()
    for start in ("begin", "resume"):
        with pytest.raises(JournalError, match="being written by another sweep"):
            getattr(_journal(path, grid), start)()
    first.close(finished=False)


def test_the_best_point_and_those_not_told_apart_from_it() -> None:
    grid = make_grid([("a", (1, 2, 3, 4))])
    results = (
        _point(0, {"a": 1}, 10.0, low=9, high=11),
        _point(1, {"a": 2}, 8.0, low=7, high=9.5),
        _point(2, {"a": 3}, 20.0, low=19, high=21),
        _point(3, {"a": 4}, None),
    )
    outcome = Outcome("s", grid, SETTINGS, {}, results)
    assert verdict(outcome) == ("shortest step: a=2; not told apart from a=1: their intervals meet")
    document = json.loads(json.dumps(to_json(outcome), allow_nan=False))
    assert document["best"] == {"index": 1, "values": {"a": 2}}
    assert document["not_apart_from_best"] == [0]
    assert document["counts"] == {"measured": 3, "hang": 1}
    assert "less work" in " ".join(document["notes"])
    assert list(outcome.to_frame()["step_time"])[:3] == [10.0, 8.0, 20.0]


def test_maps_take_the_two_longest_axes_and_say_why_a_cell_is_empty() -> None:
    grid = make_grid([("a", (1, 2)), ("c", ("k",)), ("b", (1, 2, 3))])
    times = [1.0, 2.0, None, 4.0, 5.0]  # and one that is not done
    results = tuple(
        _point(i, v, t) for i, (v, t) in enumerate(zip(grid.points(), times, strict=False))
    )
    outcome = Outcome("s", grid, SETTINGS, {}, results)
    axes = heat_axes(outcome)
    assert axes == ("a", "b")
    (shown,) = heat_maps(outcome, "step_time", axes)
    assert shown.fixed == "c=k"
    # Shorter is better: 1 for the shortest step, 0 for the longest.
    assert [[c.share for c in row] for row in shown.cells] == [[1, 0.75, None], [0.25, 0, None]]
    assert [c.text for c in shown.cells[0]] == ["1.000 µs", "2.000 µs", "hang"]
    assert shown.cells[1][2].text == "–"


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_maps_are_drawn(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    grid = make_grid([("a", (1, "$x_y")), ("b", (1, 2, 3)), ("c", (True, False))])
    times = [1.0, 2.0, None, 4.0, 5.0]
    results = tuple(
        _point(i, v, t) for i, (v, t) in enumerate(zip(grid.points(), times, strict=False))
    )
    path = plot_sweep(Outcome("f$.py:g", grid, SETTINGS, {}, results), tmp_path / f"p{suffix}")
    assert path.read_bytes()[:4] in {b"\x89PNG", b"<?xm"}
    assert [p.name for p in tmp_path.iterdir()] == [f"p{suffix}"]
    if suffix == ".svg":
        # The words of a cell are drawn as outlines, with the text beside them as a comment.
        assert "<!-- hang -->" in path.read_text()


def test_nothing_measured_is_no_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    grid = make_grid([("a", (1, 2)), ("b", (1, 2))])
    with pytest.raises(GridError, match="no heat map"):
        plot_sweep(Outcome("s", grid, SETTINGS, {}, ()), tmp_path / "p.svg")


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("no_such", {}, "no_such"),
        ("NUMBER", {}, "is a int, no function"),
        ("f", {"b": 1}, "called with b"),
        ("f", {"a": 1, "rank": 0}, "called with a, rank"),
    ],
)
def test_a_function_that_cannot_be_called_says_why(tmp_path, name, values, told) -> None:
    path = tmp_path / f"sweep_functions_{name}.py"
    path.write_text("NUMBER = 3\ndef f(a, c=1): return int\n")
    function, why = loaded(find_target(f"{path}:{name}").to_json(), values)
    assert function is None
    assert told in why


@pytest.mark.parametrize(
    "text", ["", "f", "no.py:f", "f.py:", ":f", "os:a b", "no_module_x:f", "sys:f"]
)
def test_a_function_that_is_nowhere_is_refused(text: str) -> None:
    with pytest.raises(GridError):
        find_target(text)


def test_items_are_a_product_of_axes_and_numbers() -> None:
    assert SETTINGS.options({"batch": 8})["items"] == 16


@pytest.mark.parametrize(
    ("kind", "message", "status"),
    [
        ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB", "out of memory"),
        ("MemoryError", "", "out of memory"),
        ("RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED", "out of memory"),
        ("RuntimeError", "shapes do not match", "crash"),
        ("", "gpuperf: no fp8 here", "not run"),
    ],
)
def test_what_was_raised_says_which_it_is(kind: str, message: str, status: str) -> None:
    outcome = RankOutcome(0, State.RAISED, error=RankError(kind, message, "trace"))
    assert failure.why_failed([outcome], 5.0, None)[0] == status


@pytest.mark.parametrize(
    ("before", "now", "status", "told"),
    [
        (3, 4, "out of memory", "kernel killed for memory meanwhile"),
        (3, 3, "crash", "did not rise"),
        (None, None, "crash", "does not say"),
    ],
)
def test_sigkill_is_memory_only_where_the_kernel_counted_it(
    before, now, status, told, monkeypatch
) -> None:
    monkeypatch.setattr(failure, "oom_kills", lambda: now)
    outcome = RankOutcome(0, State.KILLED, signal="SIGKILL")
    found, detail, _ = failure.why_failed([outcome], 5.0, before)
    assert found == status
    assert told in detail
