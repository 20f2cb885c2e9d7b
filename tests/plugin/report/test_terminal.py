from __future__ import annotations

from typing import Any

import pytest

from plugin.report.records import judgement, record, value
from pytest_gpuperf.report.terminal import counts, one_line, render, soft_lines

UNMEASURED = judgement(verdict="UNMEASURED", value=None, interval=None, reason="no counter here")


def test_a_row_says_verdict_time_with_interval_rate_share_overlap_and_idle() -> None:
    text = render([record()], width=120, colour=False)
    for shown in (
        "test_ddp.py::test_step[gloo]", "FAIL", "97.58 ms", "91.00–99.00", "0.930", "41.2% peak",
        "41.0%", "12.35 ms", "19.0%",
    ):  # fmt: skip
        assert shown in text
    assert "tests/perf" not in text


def test_a_column_that_nothing_has_a_value_for_is_left_out() -> None:
    text = render([record()], width=120, colour=False)
    assert "memory" not in text
    more = record(values={"peak_memory": value(2**30, "bytes")})
    assert "1.000 GiB" in render([record(), more], width=120, colour=False)


def test_exposed_communication_of_nothing_is_not_shown_as_zero() -> None:
    quiet = {"exposed_comm": value(0.0, "us"), "comm_time": value(0.0, "us")}
    assert "0 µs" not in render([record(values=quiet), record()], width=120, colour=False)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_table_fits_its_width_and_keeps_whole_names(width: int) -> None:
    long = "tests/test_model.py::TestLayer::test_forward_and_backward[bfloat16-4096-flash-compiled]"
    text = render([record(test=long), record()], width=width, colour=False)
    assert max(map(len, text.splitlines())) <= width
    assert "compiled]" in text.replace("\n", "")


def test_a_narrow_table_leaves_columns_out_and_breaks_no_number() -> None:
    full = record(
        values={
            "step_time": value(398_100.0, "us", (144_960.0, 398_100.0)),
            "throughput": {**value(864.0, "items/s"), "source": "tokens, declared"},
            "tflops": value(0.00808, "TFLOPS"), "mfu": value(0.00414, "fraction"),
            "overlap": value(0.58, "fraction"), "comm_time": value(14_150.0, "us"),
            "exposed_comm": value(14_150.0, "us"), "idle": value(0.0686, "fraction"),
            "kernel_launches": value(1088.0, "count"), "host_syncs": value(7.0, "count"),
            "peak_memory": value(25.05 * 2**20, "bytes"),
        }
    )  # fmt: skip
    kept = ("398.1 ms", "145.0–398.1", "0.414% peak", "58.0%", "14.15 ms", "6.86%", "25.05 MiB")
    narrow = render([full], width=80, colour=False)
    assert max(map(len, narrow.splitlines())) <= 80
    for shown in (*kept, "1,088", "verdict", "overlap", "no room for: throughput (the report"):
        assert shown in narrow
    narrower = render([full], width=72, colour=False)
    assert max(map(len, narrower.splitlines())) <= 72
    for shown in (*kept, "no room for: kernel launches, throughput (the report"):
        assert shown in narrower
    wide = render([full], width=120, colour=False)
    for shown in (*kept, "864 tokens/s", "1,088"):
        assert shown in wide
    assert "no room" not in wide


def test_where_all_columns_that_may_go_are_gone_more_go_before_a_number_breaks() -> None:
    crowded = record(
        verdict="INCOMPARABLE",
        notes=[f"note {index}" for index in range(12)],
        values={
            "step_time": value(68_690.0, "us", (60_690.0, 73_010.0)),
            "tflops": value(0.0313, "TFLOPS"), "mfu": value(0.298, "fraction"),
            "speedup": value(3.69, "x"), "overlap": value(0.75, "fraction"),
            "comm_time": value(39_500.0, "us"), "exposed_comm": value(39_500.0, "us"),
            "idle": value(0.00299, "fraction"), "kernel_launches": value(1088.0, "count"),
            "peak_memory": value(16.0 * 2**20, "bytes"),
        }
    )  # fmt: skip
    lines = render([crowded], width=80, colour=False).splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.endswith("note") for line in lines)
    for shown in ("INCOMPARABLE", "68.69 ms", "0.299%", "16.00 MiB", "3.69x", "75.0%"):
        assert any(shown in line for line in lines)
    assert "no room for: kernel launches, exposed comm (the report has them)" in "\n".join(lines)


def test_there_is_no_escape_code_where_there_is_no_terminal() -> None:
    hostile = record(test="test_[red]a\x1b[31m\r\n")
    assert "\x1b" not in render([hostile], width=80, colour=False)
    assert "[red]a" in render([hostile], width=80, colour=False)
    assert "\x1b[" in render([record()], width=80, colour=True)


def test_throughput_is_in_what_was_counted() -> None:
    rate = {**value(6464.0, "items/s"), "source": "tokens, timed with the profiler off"}
    text = render([record(values={"throughput": rate})], width=120, colour=False)
    assert "6,464 tokens/s" in text


def test_notes_are_numbered_once_and_stand_below() -> None:
    noted = record(notes=["a debugger is tracing"])
    text = render([noted, noted], width=120, colour=False)
    assert text.count("a debugger is tracing") == 1
    assert "1 a debugger is tracing" in text.splitlines()


def test_a_soft_verdict_has_a_line_that_names_the_test_and_why() -> None:
    soft = record(verdict="UNMEASURED", limits=[UNMEASURED])
    (line,) = soft_lines([record(), soft])
    assert "test_ddp.py::test_step[gloo]" in line
    assert "no counter here" in line


def test_the_counts_begin_with_the_worst() -> None:
    results = [record(verdict=v) for v in ("PASS", "AMBIGUOUS", "PASS", "FAIL")]
    assert counts(results) == "1 FAIL, 1 AMBIGUOUS, 2 PASS"


def test_one_line_holds_the_verdict_and_what_fell_short() -> None:
    assert one_line(record()).startswith("test_ddp.py::test_step[gloo]: FAIL: overlap 41.0%")


class _Reporter:
    """Keeps what the summary writes."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, text: str) -> None:
        self.written.append(text)

    def write_line(self, line: str, **_: Any) -> None:
        self.written.append(line)

    def section(self, title: str) -> None:
        self.written.append(f"== {title}")


@pytest.mark.parametrize(
    ("options", "shown"), [((), True), (("-q",), False)], ids=["normal", "quiet"]
)
def test_quiet_is_quiet(pytester: pytest.Pytester, options: tuple[str, ...], shown: bool) -> None:
    from pytest_gpuperf.report import terminal_summary

    config = pytester.parseconfigure(*options)
    reporter = _Reporter()
    terminal_summary([record()], reporter, config)  # type: ignore[arg-type]
    assert any("97.58 ms" in text for text in reporter.written) == shown
    assert any("1 FAIL" in text for text in reporter.written)
    passed = _Reporter()
    terminal_summary([record(verdict="PASS")], passed, config)  # type: ignore[arg-type]
    assert bool(passed.written) == shown
