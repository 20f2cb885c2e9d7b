from __future__ import annotations

from gpuperf_analyzers.combining import spread_of, value_json, worst_of
from gpuperf_analyzers.metrics import BUILTIN, Value, absent

METRIC = {m.name: m for m in BUILTIN}


def _ranks(name: str, *values: float | None) -> list[tuple[str, Value]]:
    return [
        (f"rank {i}", absent(name, "not here") if v is None else Value(name, v))
        for i, v in enumerate(values)
    ]


def test_the_worst_of_a_metric_where_higher_is_better_is_the_lowest() -> None:
    worst = worst_of(METRIC["overlap"], _ranks("overlap", 0.5, 0.2, 0.9))
    assert (worst.value, worst.at) == (0.2, "rank 1")


def test_the_worst_of_a_metric_where_lower_is_better_is_the_highest() -> None:
    worst = worst_of(METRIC["exposed_comm"], _ranks("exposed_comm", 5.0, 2.0, 9.0))
    assert (worst.value, worst.at) == (9.0, "rank 2")


def test_the_place_within_a_rank_is_kept_behind_the_rank() -> None:
    parts = [("rank 0", Value("host_syncs", 3.0, at="step 7")), ("rank 1", Value("host_syncs", 1))]
    assert worst_of(METRIC["host_syncs"], parts).at == "rank 0, step 7"


def test_a_rank_without_a_value_does_not_hide_the_others() -> None:
    assert worst_of(METRIC["overlap"], _ranks("overlap", None, 0.4)).at == "rank 1"


def test_where_no_rank_has_a_value_the_reason_is_said_once() -> None:
    worst = worst_of(METRIC["overlap"], _ranks("overlap", None, None))
    assert (worst.value, worst.absent_reason) == (None, "not here")


def test_the_spread_is_over_the_ranks_that_have_a_value() -> None:
    spread = spread_of(METRIC["overlap"], _ranks("overlap", 0.2, None, 0.6))
    assert spread is not None
    assert (spread.lowest, spread.highest, spread.n, spread.worst_at) == (0.2, 0.6, 2, "rank 0")
    assert abs(spread.mean - 0.4) < 1e-12
    assert spread_of(METRIC["overlap"], _ranks("overlap", None)) is None


def test_a_value_as_json_names_its_unit_and_its_absence() -> None:
    row = value_json(absent("overlap", "no communication"), "fraction")
    assert (row["value"], row["unit"], row["absent_reason"]) == (
        None, "fraction", "no communication",
    )  # fmt: skip
