"""The search on tables whose best shape is known exactly (the formula: tests/gemm_model.py)."""

from __future__ import annotations

from collections import Counter
from math import ceil

import pytest

from gemm_model import GPUS, OTHER_TILES, Table
from pytest_gpuperf.mamf.ranges import Shape, make_grid
from pytest_gpuperf.mamf.search import Effort, Search, budget
from pytest_gpuperf.mamf.surrogate import Surrogate, fill_shares, learnt_tiles

WIDE = range(256, 5889, 256)  # 23 values: 12,167 shapes
ODD = range(192, 4801, 192)  # 25 values that no power of two divides evenly: 15,625 shapes


def test_the_table_follows_its_formula() -> None:
    """An A100, M=N=K=4096, tile 256x128: 16·32 = 512 tiles on 108 multiprocessors, 5 waves.

    Each wave 2·256·128·4096 FLOP at 312/108 TFLOPS = 92.92 µs, and 1.5 µs: in all 472.1 + 3 µs,
    and 1.5% more for the clock at 1.37e11 FLOP. No other tile is faster by the same sum. The
    shape's own factor is within four standard deviations of 0.4%.
    """
    axis = range(4096, 4097)
    wave = 2 * 256 * 128 * 4096 / (312e12 / 108) + 1.5e-6
    slowed = 1 + 0.06 / (1 + 4e11 / (2 * 4096**3))
    expected = (ceil(512 / 108) * wave + 3e-6) * slowed
    assert expected == pytest.approx(475.1e-6 * 1.0153, rel=1e-3)
    found = [float(Table(GPUS["A100"], (axis,) * 3, seed).seconds[0, 0, 0]) for seed in range(8)]
    assert min(found) == pytest.approx(expected, rel=0.016)


# Ten seeds of both grids on every GPU are in benchmarks/mamf.py.
CASES = [(gpu, WIDE, 11) for gpu in GPUS]
CASES += [("H100", ODD, 11), ("MI300X", ODD, 12)]


@pytest.mark.parametrize(("gpu", "axis", "seed"), CASES, ids=str)
def test_the_search_finds_99_percent_of_the_best_timing_2_percent(
    gpu: str, axis: range, seed: int
) -> None:
    table = Table(GPUS[gpu], (axis,) * 3, seed)
    best = Search(table.time, make_grid(axis, axis, axis), units=GPUS[gpu].units, seed=seed).run()
    assert best is not None
    assert table.tflops.size >= 10_000
    assert len(table.timed) <= 0.02 * table.tflops.size
    assert table.share(best.shape) >= 0.99


def test_random_shapes_as_many_do_not_find_it() -> None:
    """That the tables are hard: of 2% drawn at random the true best misses 99% mostly."""
    import numpy as np

    misses = 0
    for seed in range(10):
        table = Table(GPUS["MI300X"], (WIDE,) * 3, seed)
        drawn = np.random.default_rng(seed).choice(table.tflops.size, 243, replace=False)
        misses += float(table.tflops.ravel()[drawn].max()) < 0.99 * float(table.tflops.max())
    assert misses >= 6


def test_the_winner_was_called_as_often_as_said_and_counts_agree() -> None:
    table = Table(GPUS["L4"], (range(256, 2817, 256),) * 3, 0)
    asked: Counter[Shape] = Counter()

    def time(shape: Shape, calls: int) -> tuple[float, ...]:
        asked[shape] += 1
        return table.time(shape, calls)

    grid = make_grid(*table.axes)
    search = Search(time, grid, units=58, effort=Effort(10, 100))
    best = search.run()
    assert best is not None
    assert len(best.latest) == 100
    assert len(search.tried) == len(asked) == budget(len(grid)) == int(0.02 * 11**3)
    assert search.timings == search.planned == sum(asked.values())
    assert search.calls == sum(table.timed.values())
    assert best.rate == max(t.rate for t in search.finalists)


def test_exhaustive_times_every_shape() -> None:
    table = Table(GPUS["L4"], (range(256, 1537, 256),) * 3, 0)
    search = Search(table.time, make_grid(*table.axes), units=58, exhaustive=True)
    best = search.run()
    assert len(table.timed) == 216
    assert best is not None
    assert table.share(best.shape) >= 0.995


def test_budgets_are_2_percent_between_bounds() -> None:
    assert [budget(n) for n in (1, 79, 128, 129, 999, 8000, 30_000, 493_039)] == [
        1, 79, 128, 20, 20, 160, 600, 768,
    ]  # fmt: skip
    assert budget(493_039, exhaustive=True) == 493_039
    assert all(budget(n) <= 0.02 * n for n in range(1000, 60_000, 7))


def test_the_same_answers_lead_to_the_same_questions() -> None:
    table = Table(GPUS["L4"], (range(256, 2817, 256),) * 3, 0)
    grid = make_grid(*table.axes)
    answers: dict[tuple[Shape, int], list[tuple[float, ...]]] = {}
    first: list[tuple[Shape, int]] = []

    def time(shape: Shape, calls: int) -> tuple[float, ...]:
        first.append((shape, calls))
        answers.setdefault((shape, calls), []).append(table.time(shape, calls))
        return answers[shape, calls][-1]

    second: list[tuple[Shape, int]] = []

    def again(shape: Shape, calls: int) -> tuple[float, ...]:
        second.append((shape, calls))
        return answers[shape, calls].pop(0)

    best = Search(time, grid, units=58).run()
    repeated = Search(again, grid, units=58).run()
    assert first == second
    assert best is not None
    assert repeated is not None
    assert (best.shape, best.latest) == (repeated.shape, repeated.latest)


def test_shapes_that_cannot_be_run_are_passed_over() -> None:
    """Everything above 2,000 fails: the best of the rest is found, and no failure wins."""
    table = Table(GPUS["L4"], (range(256, 2817, 256),) * 3, 0)

    def time(shape: Shape, calls: int) -> tuple[float, ...]:
        return () if max(shape) > 2000 else table.time(shape, calls)

    best = Search(time, make_grid(*table.axes), units=58).run()
    assert best is not None
    assert max(best.shape) <= 2000
    assert Search(lambda *_: (), make_grid((1, 2), (3,), (4,))).run() is None


def test_an_interrupted_search_has_its_best_so_far_and_counts_what_was_timed() -> None:
    table = Table(GPUS["L4"], (range(256, 2817, 256),) * 3, 0)

    def time(shape: Shape, calls: int) -> tuple[float, ...]:
        if len(table.timed) == 9:
            raise KeyboardInterrupt
        return table.time(shape, calls)

    search = Search(time, make_grid(*table.axes))
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert len(search.tried) == search.timings == 9
    assert search.best is not None
    assert search.best.rate == max(t.rate for t in search.tried.values())


def test_shares_of_waves_by_hand() -> None:
    """2048x2048 in 128x128 tiles: 256 tiles on 108 units take 3 waves, 256/324 of them useful.

    In 256x128 tiles: 128 tiles, 2 waves, 128/216. In 256x256: 64 of 108.
    """
    tiles = ((128, 128), (128, 256), (256, 256))
    shares = fill_shares([(2048, 2048, 64)], 108, tiles)
    assert shares[0].tolist() == pytest.approx([256 / 324, 128 / 216, 64 / 108])


def test_of_a_tile_and_its_transpose_the_better_counts() -> None:
    """256x4096 on 20 units: 256x128 makes 32 tiles, 2 waves of 20: 32/40; 128x256 the same.

    96x4096: 96x128 makes 32 tiles, 32/40; 128x96 makes 43 of 128·96 for 32 full ones: 32/60.
    """
    assert fill_shares([(256, 4096, 8)], 20, ((128, 256),))[0, 0] == pytest.approx(32 / 40)
    assert fill_shares([(96, 4096, 8)], 20, ((96, 128),))[0, 0] == pytest.approx(32 / 40)


def test_the_tile_that_a_library_uses_is_learnt_from_few_times() -> None:
    """Rates that are smooth in M, N and K but for the waves of 160x320 on 108 multiprocessors."""
    import numpy as np

    shapes = np.random.default_rng(5).integers(1, 23, (60, 3)) * 256
    smooth = 0.2 * np.log(shapes).sum(axis=1)
    rates = smooth + np.log(fill_shares(shapes, 108, ((160, 320),))[:, 0])
    assert learnt_tiles(shapes, rates, 108)[0] == (160, 320)


@pytest.mark.parametrize(("gpu", "seed"), [("A100", 1), ("L4", 3)])
def test_tiles_that_are_not_ordinary_are_no_obstacle(gpu: str, seed: int) -> None:
    table = Table(GPUS[gpu], (WIDE,) * 3, seed, OTHER_TILES)
    search = Search(table.time, make_grid(WIDE, WIDE, WIDE), units=GPUS[gpu].units, seed=seed)
    best = search.run()
    assert best is not None
    assert len(table.timed) <= 0.02 * table.tflops.size
    assert table.share(best.shape) >= 0.99


def test_guesses_pass_near_what_was_measured_and_are_sure_of_it() -> None:
    shapes = [(2**i, 2**j, 512) for i in range(6, 11) for j in range(6, 11)]
    rates = [1e12 * min(m, 700) * n / (n + 200) for m, n, _ in shapes]
    surrogate = Surrogate(shapes, rates, None)
    means, deviations = surrogate.guess([*shapes, (1 << 16, 1 << 16, 1 << 14)])
    import numpy as np

    # What is slower than an eighth of the best (e^-2.1) is not told apart.
    meant = np.maximum(np.log(rates), np.log(max(rates)) - 2.1)
    assert np.ptp(meant) == pytest.approx(2.1)
    assert np.abs(means[:-1] - meant).max() < 0.1
    assert deviations[-1] > 2 * deviations[:-1].max()


@pytest.mark.parametrize("rate", [1e9, 1.0])
def test_equal_rates_are_no_trouble(rate: float) -> None:
    means, _ = Surrogate([(8, 8, 8), (16, 8, 8), (8, 16, 8)], [rate] * 3, 108).guess([(9, 9, 9)])
    import math

    assert means[0] == pytest.approx(math.log(rate), abs=1e-6)
