"""What nobody should do and somebody will: each is refused in one line, or does no harm."""

from __future__ import annotations

import json

import pytest

HEAD = """
    import pytest
    import torch

    ONE = torch.ones(4)
    within = pytest.mark.gpuperf(max_step_time="60s")
"""


def test_a_workload_that_measures_another_is_refused(project) -> None:
    result = project(
        HEAD
        + """
    @within
    def test_nested(gpuperf):
        gpuperf(lambda: gpuperf(torch.add, ONE, 1))

    def make_step(rank, world_size):
        return lambda: None

    @within
    def test_ranks_within(gpuperf):
        gpuperf(lambda: gpuperf.ddp(make_step, world_size=1))

    @within
    def test_another_thread(gpuperf):
        import threading
        said = []
        def inner():
            try:
                gpuperf(torch.add, ONE, 1)
            except pytest.fail.Exception as error:
                said.append(str(error))
        def workload():
            thread = threading.Thread(target=inner)
            thread.start()
            thread.join()
        gpuperf(workload)
        assert "a measurement is under way in this process" in said[0]

    @within
    def test_afterwards(gpuperf):
        gpuperf(torch.add, ONE, 1)
    """
    )
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(["INVALID gpuperf: a measurement is under way in this process*"])
    result.stdout.no_fnmatch_line("*Deadlock*")


def test_a_body_that_asks_for_the_fixture_while_it_is_measured_is_told_how(project) -> None:
    result = project(
        HEAD
        + """
    @within
    def test_asks_within(request):
        request.getfixturevalue("gpuperf")(torch.add, ONE, 1)
    """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["INVALID the body of this test is its workload*name gpuperf*"])


def test_a_fixture_asked_for_by_value_is_judged_and_reported_like_any_other(
    project, pytester: pytest.Pytester
) -> None:
    result = project(
        HEAD
        + """
    @pytest.fixture
    def measure(request):
        return request.getfixturevalue("gpuperf")

    @pytest.mark.gpuperf(max_step_time="0.001us")
    def test_from_set_up(measure):
        measure(torch.add, ONE, 1)

    def test_without_a_marker(request):
        request.getfixturevalue("gpuperf")(torch.add, ONE, 1)
    """,
        "--gpuperf-report",
    )
    result.assert_outcomes(passed=1, failed=1)
    report = json.loads((pytester.path / ".gpuperf" / "report.json").read_text())
    assert [r["verdict"] for r in report["results"]] == ["FAIL", None]


def test_what_is_measured_after_the_judgement_is_refused(project) -> None:
    result = project(
        HEAD
        + """
    kept = []

    @pytest.fixture
    def measures_at_the_end(gpuperf):
        yield gpuperf
        gpuperf(torch.add, ONE, 1)

    @within
    def test_first(measures_at_the_end):
        measures_at_the_end(torch.add, ONE, 1)
        kept.append(measures_at_the_end)

    def test_second():
        with pytest.raises(pytest.UsageError, match="judged already"):
            kept[0](torch.add, ONE, 1)
    """
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*UsageError: gpuperf: this test has been judged already*"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("gpuperf(torch.add, ONE, 1, name=3)", "name=3 is not a text"),
        ("gpuperf.ddp(print, world_size=1, name=None)", "name=None is not a text"),
        ("gpuperf.run(ONE.add, setup=3)", "setup=3 is not a function"),
        ("gpuperf.run(ONE.add, teardown=())", "teardown=() is not a function"),
        ("gpuperf.region('')", "'' is not a name"),
        ("gpuperf.region(None)", "None is not a name"),
        ("setattr(gpuperf, 'extra_info', 3)", "3 is not a mapping"),
        ("gpuperf(3)", "3 is not a function to measure"),
    ],
)
def test_a_wrong_argument_is_a_usage_error_at_the_users_line(
    project, call: str, message: str
) -> None:
    result = project(f"{HEAD}\n    def test_it(gpuperf):\n        {call}\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E*pytest.UsageError: gpuperf*{message}"])
    result.stdout.no_fnmatch_line("*fixture.py*")


def test_results_and_extra_info_cannot_break_the_judgement(
    project, pytester: pytest.Pytester
) -> None:
    result = project(
        HEAD
        + """
    class Mute:
        def __str__(self):
            raise RuntimeError("no text")

    @within
    def test_it(gpuperf):
        gpuperf(torch.add, ONE, 1)
        with pytest.raises(AttributeError):
            gpuperf.results.clear()
        gpuperf.extra_info = {"mute": Mute(), "circle": (circle := [])}
        circle.append(circle)
        gpuperf.extra_info["lone"] = "\\udc80"
    """,
        "--gpuperf-report",
        "-n1",
    )
    result.assert_outcomes(passed=1)
    report = json.loads((pytester.path / ".gpuperf" / "report.json").read_text())
    assert report["results"][0]["extra_info"]["mute"] == "a Mute without a text"


def test_time_that_stands_still_is_refused_and_does_not_hang(project) -> None:
    result = project(
        HEAD
        + """
    import time

    @within
    def test_frozen(gpuperf, monkeypatch):
        monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
        gpuperf(torch.add, ONE, 1)

    @within
    def test_thawed(gpuperf):
        gpuperf(torch.add, ONE, 1)
    """
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["INVALID gpuperf: time.perf_counter is replaced*"])


def test_a_folder_that_cannot_be_made_is_said_in_one_line(
    project, pytester: pytest.Pytester
) -> None:
    (pytester.path / "file").touch()
    result = project(
        HEAD
        + """
    def make_step(rank, world_size):
        return lambda: None

    @within
    def test_alone(gpuperf):
        gpuperf(torch.add, ONE, 1)

    @within
    def test_ranks(gpuperf):
        gpuperf.ddp(make_step, world_size=1)
    """,
        "--gpuperf-dir=file/x",
    )
    result.assert_outcomes(failed=2)
    said = [line for line in result.outlines if line.startswith("INVALID gpuperf: no trace can")]
    assert len(said) == 2
    assert all("--gpuperf-dir chooses another folder" in line for line in said)
    result.stdout.no_fnmatch_line("*Error:*")


def test_a_trace_that_does_not_fit_is_said_in_one_line_and_leaves_no_rest(
    project, pytester: pytest.Pytester
) -> None:
    result = project(
        HEAD
        + """
    import resource
    import signal

    @within
    def test_it(gpuperf):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
        try:
            gpuperf(torch.add, ONE, 1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, former)
    """,
        "-s",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["INVALID gpuperf: the trace is missing from *is the disk full*"])
    assert not [path for path in (pytester.path / ".gpuperf").rglob("*") if path.is_file()]
