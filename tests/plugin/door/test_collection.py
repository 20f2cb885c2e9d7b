"""At collection: what a marker says is understood, or the run ends there."""

from __future__ import annotations

import pytest

MARKED = """
    import pytest

    @pytest.mark.gpuperf({keywords})
    def test_step(gpuperf):
        raise AssertionError("never run")
"""


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ("min_tflop=5", "*unknown keyword 'min_tflop'; did you mean min_tflops*"),
        ("warmpu='1s'", "*unknown keyword 'warmpu'; did you mean *warmup*"),
        ("max_step_time='3mb'", "*max_step_time: '3mb' has the unknown unit 'mb'*"),
        ("max_step_time=3", '*max_step_time: 3 needs a unit: write "3ms" or "50us"*'),
        ("steps=0", "*steps: 0 is below 1*"),
        ("0.5", "*0.5 has no keyword: write limits as min_tflops=0.5*"),
        (
            "max_regression={'step_tim': '3%'}",
            "*unknown metric 'step_tim'; did you mean step_time*",
        ),
    ],
)
def test_what_is_not_understood_is_a_usage_error_at_collection(
    project, keywords: str, said: str
) -> None:
    result = project(MARKED.format(keywords=keywords))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *::test_step: @pytest.mark.gpuperf: *"])
    result.stderr.fnmatch_lines([said])
    result.stdout.no_fnmatch_line("*never run*")


def test_every_marker_that_is_not_understood_is_told_at_once(project) -> None:
    result = project(
        """
        import pytest

        @pytest.mark.gpuperf(min_tflop=1)
        def test_a(): ...

        @pytest.mark.gpuperf(max_stp_time="1s")
        def test_b(): ...
        """
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_a*min_tflop*", "*test_b*max_stp_time*"])


def test_a_usage_error_ends_a_parallel_run_too(project) -> None:
    result = project(MARKED.format(keywords="min_tflop=5"), "-n2", subprocess=True)
    assert result.ret != 0
    text = result.stdout.str() + result.stderr.str()
    assert "unknown keyword 'min_tflop'; did you mean min_tflops" in text
    assert "never run" not in text.replace('raise AssertionError("never run")', "")


def test_an_ini_value_that_is_not_understood_is_a_usage_error(project) -> None:
    result = project("def test(): ...", "-o", "gpuperf_warmup=soon")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: gpuperf: gpuperf_warmup in the ini file: 'soon' is not*"])


def test_the_markers_of_module_class_function_and_parameter_merge_and_the_nearest_wins(
    project,
) -> None:
    result = project(
        """
        import pytest
        from pytest_gpuperf.session.collecting import DECLARED

        pytestmark = pytest.mark.gpuperf(max_step_time="1s", min_overlap=0.1, steps=5)

        @pytest.mark.gpuperf(max_step_time="2s", min_busy=0.2)
        class TestSteps:
            @pytest.mark.gpuperf(max_step_time="3s")
            @pytest.mark.parametrize(
                "n", [1, pytest.param(2, marks=pytest.mark.gpuperf(max_step_time="4s", steps=7))]
            )
            def test_step(self, n): ...

        def pytest_collection_finish(session): ...
        """,
        "--collect-only",
        "-p",
        "declared",
    )
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*test_step?1? steps=5: max_step_time='3s' min_busy=0.2 min_overlap=0.1",
            "*test_step?2? steps=7: max_step_time='4s' min_busy=0.2 min_overlap=0.1",
        ]
    )


@pytest.fixture(autouse=True)
def _declared_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin that prints what each test declares."""
    pytester.syspathinsert()
    pytester.makepyfile(
        declared="""
        from pytest_gpuperf.session.collecting import DECLARED

        def pytest_collection_finish(session):
            for item in session.items:
                d = item.stash[DECLARED]
                limits = " ".join(sorted(limit.text for limit in d.limits))
                print(f"{item.nodeid} steps={d.steps}: {limits}")
        """
    )


def test_a_nearer_none_takes_back_a_limit(project) -> None:
    result = project(
        """
        import pytest

        pytestmark = pytest.mark.gpuperf(max_step_time="1s", min_overlap=0.1)

        @pytest.mark.gpuperf(min_overlap=None)
        def test_step(): ...
        """,
        "--collect-only",
        "-p",
        "declared",
    )
    result.stdout.fnmatch_lines(["*test_step steps=2: max_step_time='1s'"])


def test_only_leaves_the_tests_that_measure_and_skip_leaves_them_out(project) -> None:
    source = """
        import pytest

        def test_plain(): ...

        def test_fixture(gpuperf): ...

        @pytest.mark.gpuperf(device="cpu")
        def test_body(): ...
    """
    project(source, "--gpuperf-only").assert_outcomes(passed=2, deselected=1)
    project(None, "--gpuperf-skip").assert_outcomes(passed=1, skipped=2)
    project(None, "-o", "gpuperf_skip=true").assert_outcomes(passed=1, skipped=2)
    assert project(None, "--gpuperf-skip", "--gpuperf-only").ret == pytest.ExitCode.USAGE_ERROR


def test_the_marker_is_registered_and_described(project) -> None:
    result = project("def test(): ...", "--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.gpuperf(**limits): measure this test*"])


def test_a_metric_of_a_conftest_can_be_limited(project, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        from gpuperf_analyzers.hookspecs import hookimpl
        from gpuperf_analyzers.metrics import Metric

        @hookimpl
        def gpuperf_metrics():
            return [Metric("spills", "count", "lower", "step", "worst step", "register spills",
                           "our compiler", "no", "spills")]
        """
    )
    result = project(
        """
        import pytest

        @pytest.mark.gpuperf(max_spills=0)
        def test_step(): ...
        """,
        "--collect-only",
        "-p",
        "declared",
    )
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*test_step steps=2: max_spills=0"])


def test_a_hook_of_a_conftest_that_does_not_exist_is_a_usage_error(
    project, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest(
        """
        from gpuperf_analyzers.hookspecs import hookimpl

        @hookimpl
        def gpuperf_metricks():
            return []
        """
    )
    result = project(MARKED.format(keywords="min_mfu=0.1"))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: gpuperf: *gpuperf_metricks*"])


def test_without_the_plugin_its_options_and_fixture_are_unknown(project) -> None:
    source = """
        def test_plain(): ...

        def test_fixture(gpuperf): ...
    """
    result = project(source, "-p", "no:gpuperf", "-c", "/dev/null", "--rootdir=.")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*fixture 'gpuperf' not found*"])
    unknown = project(None, "-p", "no:gpuperf", "--gpuperf-report", "-c", "/dev/null")
    assert unknown.ret == pytest.ExitCode.USAGE_ERROR
