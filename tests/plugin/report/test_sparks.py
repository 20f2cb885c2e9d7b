from __future__ import annotations

import pytest

from plugin.report.records import record
from pytest_gpuperf.report import section_text
from pytest_gpuperf.report.sparks import LEGEND, pictures, sparkline, split_bar
from pytest_gpuperf.report.terminal import render


def test_a_sparkline_rises_with_the_samples() -> None:
    assert sparkline([1, 2, 3, 4, 5, 6, 7, 8], 8) == "▁▂▃▄▅▆▇█"


def test_many_samples_are_means_in_their_order() -> None:
    # Means of four: 1, 1, 8; the slow end is the highest letter.
    assert sparkline([1] * 8 + [8] * 4, 3) == "▁▁█"


def test_equal_samples_are_a_line_and_one_sample_is_none() -> None:
    assert sparkline([5, 5, 5]) == "▄▄▄"
    assert sparkline([5]) == ""


def test_a_bar_shares_its_letters_by_the_largest_remainders() -> None:
    # 0.61, 0.2 and 0.19 of 10: 6.1, 2.0, 1.9.
    bar = split_bar({"compute": 0.61, "exposed_comm": 0.2, "idle": 0.19}, 10)
    assert bar == "██████▒▒░░"


def test_what_is_none_of_the_parts_stays_blank() -> None:
    assert split_bar({"compute": 0.5, "exposed_comm": None, "idle": 0.25}, 8) == "████░░  "


def test_a_bar_of_nothing_known_is_none() -> None:
    assert split_bar({}) == ""
    assert split_bar({"compute": None}) == ""


@pytest.mark.parametrize("share", [-1.0, 2.0, 1e300])
def test_a_bar_never_outgrows_its_width(share: float) -> None:
    assert len(split_bar({"compute": share, "idle": share}, 12)) <= 12


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_draws_each_result_and_still_fits(width: int) -> None:
    samples = [float(90 + i % 7) for i in range(50)]
    drawn = record(samples_us=samples)
    text = render([drawn], width=width, colour=False, drawn=True)
    assert pictures(drawn) in text
    assert LEGEND[:40] in text
    assert max(map(len, text.splitlines())) <= width
    assert "█" not in render([drawn], width=width, colour=False, drawn=False)


def test_the_section_of_a_test_draws_them_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gpuperf.report.section.can_be_shown", lambda: True)
    text = section_text(record(samples_us=[1.0, 2.0]))
    assert "  samples  ▁█" in text.splitlines()
    monkeypatch.setattr("pytest_gpuperf.report.section.can_be_shown", lambda: False)
    assert "█" not in section_text(record(samples_us=[1.0, 2.0]))
