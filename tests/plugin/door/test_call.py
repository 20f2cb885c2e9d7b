"""One test: what is measured, what fails it, and what the failure says."""

from __future__ import annotations

import pytest

MATMUL = """
    import pytest
    import torch

    A = torch.ones(64, 64)
"""


def test_a_workload_that_meets_its_limit_passes_and_its_value_comes_back(project) -> None:
    result = project(
        MATMUL
        + """
    @pytest.mark.gpuperf(max_step_time="60s", min_tflops={"cpu": 1e-9})
    def test_mm(gpuperf):
        assert torch.equal(gpuperf(torch.mm, A, A), torch.full((64, 64), 64.0))
        result = gpuperf.result
        assert result.verdict == "PASS"
        # 2·M·N·K with all three 64.
        assert result["flops"].value == 2 * 64**3
        samples = sorted(result.samples)
        assert samples[0] <= result["step_time"].value <= samples[-1]
        assert result["tflops"].value == pytest.approx(
            2 * 64**3 / result["step_time"].value / 1e6
        )
        assert result.values["overlap"].absent_reason
        assert [j.verdict for j in result.judgements] == ["PASS", "PASS"]
        assert (result.device, result.device_type, result.world_size) == ("cpu", "cpu", 1)
        assert all(path.is_file() for path in result.traces)
    """
    )
    result.assert_outcomes(passed=1)


def test_a_workload_below_its_limit_fails_in_three_lines_without_a_traceback(
    project, pytester: pytest.Pytester
) -> None:
    result = project(
        MATMUL
        + """
    @pytest.mark.gpuperf(min_tflops={"cpu": 1e6})
    def test_mm(gpuperf):
        gpuperf(torch.mm, A, A)
    """
    )
    result.assert_outcomes(failed=1)
    lines = result.stdout.lines
    start = next(i for i, line in enumerate(lines) if "___ test_mm ___" in line)
    what, evidence, look = lines[start + 1 : start + 4]
    assert lines[start + 4].startswith("-----")
    assert what.startswith("achieved 0.0")
    assert what.endswith("< 1,000,000 TFLOPS required")
    assert evidence.startswith("evidence: compute ")
    assert "exposed communication 0%, idle " in evidence
    assert "top ops: aten::mm " in evidence
    assert look.startswith("look at: ")
    trace = look.rpartition("gpuperf analyze ")[2]
    assert (pytester.path / trace).is_file()
    assert trace.startswith(".gpuperf/traces/")
    result.stdout.fnmatch_lines(["FAILED *::test_mm - *achieved 0.0*"])
    result.stdout.no_fnmatch_line("*running.py*")


def test_the_failure_names_a_trace_that_is_there_and_a_pass_leaves_none(
    project, pytester: pytest.Pytester
) -> None:
    source = (
        MATMUL
        + """
    @pytest.mark.gpuperf(max_step_time={limit!r})
    def test_mm(gpuperf):
        gpuperf(torch.mm, A, A)
    """
    )
    project(source.replace("{limit!r}", "'1ns'")).assert_outcomes(failed=1)
    (trace,) = (pytester.path / ".gpuperf").rglob("*.json.gz")
    assert trace.stat().st_size > 0
    project(source.replace("{limit!r}", "'60s'")).assert_outcomes(passed=1)
    assert not (pytester.path / ".gpuperf").exists()


def test_without_a_marker_it_is_measured_and_not_judged(project) -> None:
    result = project(
        MATMUL
        + """
    def test_mm(gpuperf):
        gpuperf(torch.mm, A, A)
        assert gpuperf.result.verdict is None
        assert gpuperf.result["step_time"].value > 0
    """,
        "--gpuperf-report",
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*nothing judged*"])


def test_the_body_is_the_workload_where_the_fixture_is_not_asked_for(project) -> None:
    result = project(
        """
        import pytest
        import torch

        made, calls = [], []

        @pytest.fixture
        def batch():
            made.append(1)
            return torch.ones(8, 8)

        @pytest.mark.gpuperf(max_step_time="60s", steps=3)
        def test_body(batch):
            calls.append(1)
            batch @ batch

        def test_it_ran_many_times_on_one_set_up():
            assert len(made) == 1
            assert len(calls) > 6
        """
    )
    result.assert_outcomes(passed=2)


def test_a_body_that_is_too_slow_fails_like_any_other(project) -> None:
    result = project(
        """
        import pytest, torch

        @pytest.mark.gpuperf(max_step_time="1ns")
        def test_body():
            torch.ones(8).sum()
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["step time * > 1 ns allowed"])


def test_parameters_are_measured_each_on_their_own(project) -> None:
    result = project(
        """
        import pytest, torch

        @pytest.mark.gpuperf(max_flops="0.1MFLOP")
        @pytest.mark.parametrize("n", [32, 64])
        def test_mm(gpuperf, n):
            gpuperf(torch.mm, torch.ones(n, n), torch.ones(n, n))
        """
    )
    # 2·32³ = 65,536 FLOP and 2·64³ = 524,288 FLOP against 100,000.
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["FAILED *test_mm?64?*"])


def test_methods_of_a_class_take_its_marker(project) -> None:
    result = project(
        """
        import pytest, torch

        @pytest.mark.gpuperf(max_step_time="1ns")
        class TestSteps:
            def setup_method(self):
                self.a = torch.ones(8, 8)

            def test_fixture(self, gpuperf):
                gpuperf(torch.mm, self.a, self.a)

            def test_body(self):
                self.a @ self.a

            @pytest.mark.gpuperf(max_step_time="60s")
            def test_generous(self):
                self.a @ self.a
        """
    )
    result.assert_outcomes(passed=1, failed=2)


def test_a_unittest_method_is_a_workload_and_fails_as_one(project) -> None:
    result = project(
        """
        import unittest
        import pytest, torch

        calls = []

        class TestStep(unittest.TestCase):
            def setUp(self):
                calls.clear()
                self.a = torch.ones(8, 8)

            @pytest.mark.gpuperf(max_step_time="60s")
            def test_fast(self):
                calls.append(1)
                self.a @ self.a

            @pytest.mark.gpuperf(max_step_time="1ns")
            def test_slow(self):
                self.a @ self.a

            @pytest.mark.gpuperf(max_step_time="1ns")
            def test_wrong(self):
                self.assertEqual(1, 2)

            @pytest.mark.gpuperf(max_step_time="1ns")
            def test_skipped(self):
                self.skipTest("not today")

            def test_last(self):
                pass
        """
    )
    result.assert_outcomes(passed=2, failed=2, skipped=1)
    result.stdout.fnmatch_lines(["*AssertionError: 1 != 2*"])
    result.stdout.fnmatch_lines(["step time * > 1 ns allowed"])


def test_an_async_test_is_left_alone_with_a_message(project) -> None:
    result = project(
        """
        import pytest

        ran = []

        @pytest.mark.gpuperf(max_step_time="1ns")
        async def test_async():
            ran.append(1)

        def test_it_ran_once():
            assert ran == [1]
        """,
        "-p",
        "runs_async",
    )
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["gpuperf: *test_async: UNMEASURED *an async test is left alone*"])


@pytest.fixture(autouse=True)
def _runs_async(pytester: pytest.Pytester) -> None:
    """A plugin that runs async tests, as several do."""
    pytester.syspathinsert()
    pytester.makepyfile(
        runs_async="""
        import asyncio, inspect, pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_pyfunc_call(pyfuncitem):
            if inspect.iscoroutinefunction(pyfuncitem.obj):
                asyncio.run(pyfuncitem.obj())
                return True
        """
    )


def test_a_coroutine_function_as_workload_is_refused(project) -> None:
    result = project(
        """
        import pytest

        async def step(): ...

        @pytest.mark.gpuperf(max_step_time="1s")
        def test_async(gpuperf):
            gpuperf(step)
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["INVALID *the workload is a coroutine function*"])
    result.stdout.no_fnmatch_line("*Error*")


def test_an_exception_of_the_workload_keeps_its_own_traceback(project) -> None:
    result = project(
        """
        import pytest

        def inner():
            raise ValueError("of the user")

        def workload():
            inner()

        @pytest.mark.gpuperf(max_step_time="1s")
        def test_fixture(gpuperf):
            gpuperf(workload)

        @pytest.mark.gpuperf(max_step_time="1s")
        def test_body():
            inner()
        """,
        "--tb=short",
    )
    result.assert_outcomes(failed=2)
    shown = [line.split(": in ")[1] for line in result.stdout.lines if ": in " in line]
    assert shown == ["test_fixture", "workload", "inner", "test_body", "inner"]
    result.stdout.fnmatch_lines(["E   ValueError: of the user"])
    result.stdout.no_fnmatch_line("*pytest_gpuperf*")


def test_an_exception_of_a_function_in_c_is_shown_at_the_users_own_line(project) -> None:
    result = project(
        """
        import torch

        def test_mm(gpuperf):
            gpuperf(torch.mm, torch.ones(2, 3), torch.ones(2, 3))
        """,
        "--tb=short",
    )
    result.assert_outcomes(failed=1)
    assert [line.split(": in ")[1] for line in result.stdout.lines if ": in " in line] == [
        "test_mm"
    ]
    result.stdout.fnmatch_lines(["E   RuntimeError: mat1 and mat2 shapes cannot be multiplied*"])


def test_an_assertion_of_the_test_stands_over_the_limits(project) -> None:
    result = project(
        MATMUL
        + """
    @pytest.mark.gpuperf(max_step_time="1ns")
    def test_mm(gpuperf):
        assert gpuperf(torch.mm, A, A).sum() == 0
    """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*assert*"])
    result.stdout.no_fnmatch_line("step time*allowed")


def test_a_test_that_skips_itself_is_skipped(project) -> None:
    result = project(
        """
        import pytest, torch

        @pytest.mark.gpuperf(max_step_time="1ns")
        def test_fixture(gpuperf):
            pytest.skip("not today")

        @pytest.mark.gpuperf(max_step_time="1ns")
        def test_body():
            pytest.skip("not today")

        @pytest.mark.gpuperf(max_step_time="1ns")
        @pytest.mark.xfail
        def test_expected(gpuperf): gpuperf(torch.ones, 8)
        """
    )
    result.assert_outcomes(skipped=2, xfailed=1)


def test_a_marker_whose_fixture_is_never_called_is_invalid(project) -> None:
    result = project(
        """
        import pytest

        @pytest.mark.gpuperf(max_step_time="1s")
        def test_step(gpuperf): ...
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*never called it*"])


def test_a_fixture_never_called_without_a_marker_is_fine(project) -> None:
    project("def test_step(gpuperf): ...").assert_outcomes(passed=1)


def test_limits_judge_every_call_and_names_tell_them_apart(project) -> None:
    result = project(
        """
        import pytest, torch

        A = {n: torch.ones(n, n) for n in (32, 64)}

        @pytest.mark.gpuperf(max_flops="0.1MFLOP")
        def test_both(gpuperf):
            gpuperf(torch.mm, A[32], A[32], name="small")
            gpuperf(torch.mm, A[64], A[64], name="large")
            assert [(r.name, r.verdict) for r in gpuperf.results] == [
                ("small", "PASS"), ("large", "FAIL")
            ]
            assert gpuperf.result is gpuperf.results[-1]
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["?large? flops * > * allowed"])
    result.stdout.no_fnmatch_line("?small? flops*allowed")


def test_setup_and_teardown_stand_around_every_sample_outside_of_its_time(project) -> None:
    result = project(
        """
        import time
        import torch

        def test_step(gpuperf):
            log = []
            gpuperf.run(
                lambda: log.append("run") or torch.ones(8),
                setup=lambda: (log.append("setup"), time.sleep(0.002)),
                teardown=lambda: log.append("teardown"),
            )
            assert len(log) % 3 == 0
            assert log == ["setup", "run", "teardown"] * (len(log) // 3)
            assert gpuperf.result["step_time"].value < 2000
        """
    )
    result.assert_outcomes(passed=1)


def test_items_and_tokens_make_a_throughput(project) -> None:
    result = project(
        """
        import pytest, torch

        @pytest.mark.gpuperf(items=1000, min_throughput="1/s")
        def test_marker(gpuperf):
            gpuperf(torch.ones, 8)
            r = gpuperf.result
            assert r["throughput"].value == pytest.approx(1000e6 / r["step_time"].value, rel=0.05)

        @pytest.mark.gpuperf(min_throughput="1000000000000 tokens/s")
        def test_call(gpuperf):
            gpuperf.run(lambda: torch.ones(8), tokens=10)

        def test_both(gpuperf):
            gpuperf.run(lambda: None, tokens=10, items=10)
        """
    )
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["throughput * < * required"])
    result.stdout.fnmatch_lines(["E*UsageError: gpuperf: items and tokens*give one"])


def test_a_region_has_limits_of_its_own(project) -> None:
    result = project(
        """
        import time
        import pytest, torch

        @pytest.mark.gpuperf(max_step_time="60s")
        @pytest.mark.parametrize("limit", ["1ms", "60s"])
        def test_region(gpuperf, limit):
            def step():
                with gpuperf.region("nap", max_step_time=limit):
                    time.sleep(0.002)
                    torch.ones(8)
            gpuperf(step)
        """
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["step time * on region nap > 1 ms allowed"])


def test_a_region_limit_that_is_not_understood_is_a_usage_error(project) -> None:
    result = project(
        """
        def test_region(gpuperf):
            with gpuperf.region("nap", max_step_tim="1ms"):
                pass
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*UsageError: gpuperf.region('nap'): unknown keyword*step_time*"])


def test_the_options_device_is_the_fixtures_and_a_device_that_is_not_here_fails(project) -> None:
    source = """
        def test_device(gpuperf, gpuperf_device):
            assert gpuperf.device.type == "cpu"
            assert gpuperf_device == gpuperf.device
    """
    project(source, "--gpuperf-device=cpu").assert_outcomes(passed=1)
    result = project(source, "--gpuperf-device=cuda:99")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*there is no 'cuda:99' here*"])
    result.stdout.no_fnmatch_line("*During handling*")
    assert project(source, "--gpuperf-device=tpu").ret == pytest.ExitCode.USAGE_ERROR


def test_a_marker_for_a_device_that_is_not_here_skips_its_test(project) -> None:
    result = project(
        """
        import pytest, torch

        @pytest.mark.gpuperf(device="cuda:99", min_mfu=0.4)
        def test_fixture(gpuperf): gpuperf(torch.ones, 8)

        @pytest.mark.gpuperf(device="cuda:99", min_mfu=0.4)
        def test_body(): ...
        """,
        "-rs",
    )
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*UNMEASURED: gpuperf: there is no 'cuda:99' here*"])


def test_an_active_profiler_is_refused_with_a_clear_message(project) -> None:
    result = project(
        """
        import torch

        def test_step(gpuperf):
            with torch.profiler.profile():
                gpuperf(torch.ones, 8)
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["INVALID *a torch profiler is already active*"])


def test_without_torch_what_measures_is_skipped_and_the_rest_runs(
    project, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest('import sys\nsys.modules["torch"] = None')
    result = project(
        """
        import pytest

        def test_plain(): ...

        def test_fixture(gpuperf): raise AssertionError

        @pytest.mark.gpuperf(max_step_time="1s")
        def test_body(): raise AssertionError
        """,
        "-rs",
        subprocess=True,
    )
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines(["*gpuperf measures with torch*"])


def test_disabled_each_workload_runs_once_and_nothing_is_judged(project) -> None:
    result = project(
        """
        import pytest

        calls = []

        @pytest.mark.gpuperf(max_step_time="1ns")
        def test_fixture(gpuperf):
            assert gpuperf(lambda x: calls.append(x) or x, 5) == 5
            assert calls == [5]
            assert gpuperf.result["step_time"].value is None
            assert gpuperf.result.verdict is None

        @pytest.mark.gpuperf(max_step_time="1ns")
        def test_body():
            calls.append(6)

        @pytest.mark.gpuperf(max_step_time="1ns")
        def test_never_called(gpuperf): ...

        def test_calls():
            assert calls == [5, 6]
        """,
        "--gpuperf-disable",
    )
    result.assert_outcomes(passed=4)


def test_a_soft_verdict_passes_with_a_line_even_where_warnings_are_errors(project) -> None:
    source = """
        import pytest, torch

        @pytest.mark.gpuperf(max_regression="3%")
        def test_baseline(gpuperf): gpuperf(torch.ones, 8)

        @pytest.mark.gpuperf(min_overlap=0.5)
        def test_overlap(gpuperf): gpuperf(torch.ones, 8)

        @pytest.mark.gpuperf(min_tflops=250)
        def test_bare(gpuperf): gpuperf(torch.ones, 8)

        @pytest.mark.gpuperf(max_step_time={"NVIDIA H100": "1ms"})
        def test_device(gpuperf): gpuperf(torch.ones, 8)
    """
    result = project(source, "-Werror")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "gpuperf: *test_baseline: NO-BASELINE *no baseline is stored here*--gpuperf-save*",
            "gpuperf: *test_overlap: UNMEASURED *no communication*",
            "gpuperf: *test_bare: UNMEASURED *means an accelerator*",
            "gpuperf: *test_device: UNMEASURED *no limit declared for cpu",
        ]
    )


@pytest.mark.parametrize("how", ["--gpuperf-strict", "-ogpuperf_strict=true"])
def test_strict_makes_soft_verdicts_fail_and_changes_none(project, how: str) -> None:
    result = project(
        """
        import pytest, torch

        @pytest.mark.gpuperf(min_overlap=0.5)
        def test_overlap(gpuperf):
            gpuperf(torch.ones, 8)
            assert gpuperf.result.verdict == "UNMEASURED"
        """,
        how,
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["UNMEASURED *no communication*"])


def test_an_interval_that_straddles_the_limit_takes_all_of_max_time_and_is_ambiguous(
    project,
) -> None:
    # Samples of 1 ms and of 30 ms by turns: the median's interval reaches from the one to the
    # other, whatever their number, and the limit is between them.
    result = project(
        """
        import itertools, time
        import pytest, torch

        naps = itertools.cycle([0.001, 0.03])

        @pytest.mark.gpuperf(max_step_time="10ms", max_time="500ms")
        def test_step(gpuperf):
            gpuperf(lambda: (time.sleep(next(naps)), torch.ones(8)))
            assert gpuperf.result.stop == "max_time"
        """
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["gpuperf: *test_step: AMBIGUOUS step time *: the interval straddles the limit"]
    )


def test_of_several_limits_the_worst_verdict_stands(project) -> None:
    result = project(
        """
        import pytest, torch

        @pytest.mark.gpuperf(
            max_step_time="60s", min_overlap=0.5, max_regression="3%", max_kernel_launches=0
        )
        def test_fails(gpuperf):
            gpuperf(torch.ones, 8)
            assert [j.verdict for j in gpuperf.result.judgements] == [
                "PASS", "UNMEASURED", "NO-BASELINE", "FAIL"
            ]
            assert gpuperf.result.verdict == "FAIL"

        @pytest.mark.gpuperf(max_step_time="60s", min_overlap=0.5, max_regression="3%")
        def test_passes(gpuperf):
            gpuperf(torch.ones, 8)
            assert gpuperf.result.verdict == "NO-BASELINE"
        """
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["kernel launches * > 0 allowed"])


def test_declared_flops_stand_for_what_cannot_be_counted(project) -> None:
    result = project(
        """
        import pytest, torch

        @pytest.mark.gpuperf(flops="1GFLOP", dtype="fp32", min_tflops={"cpu": 1e-9})
        def test_step(gpuperf):
            gpuperf(torch.ones, 8)
            r = gpuperf.result
            assert r["flops"].value == 1e9
            assert r["tflops"].value == pytest.approx(1e3 / r["step_time"].value, rel=0.05)
        """
    )
    result.assert_outcomes(passed=1)


def test_zero_counted_flops_are_not_counted_and_never_zero_tflops(project) -> None:
    result = project(
        """
        import pytest, torch

        @pytest.mark.gpuperf(min_tflops={"cpu": 1})
        def test_step(gpuperf):
            gpuperf(torch.ones, 8)
            assert gpuperf.result["tflops"].value is None
        """
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["gpuperf: *test_step: UNMEASURED min_tflops*"])


def test_a_result_is_asked_by_metric_and_a_misspelt_one_is_answered(project) -> None:
    result = project(
        """
        import pytest, torch

        def test_step(gpuperf):
            with pytest.raises(RuntimeError, match="nothing has been measured"):
                gpuperf.result
            gpuperf(torch.ones, 8)
            with pytest.raises(KeyError, match="did you mean tflops"):
                gpuperf.result["tflop"]
        """
    )
    result.assert_outcomes(passed=1)


def test_our_fixtures_begin_with_our_name_and_leave_the_names_of_others(project) -> None:
    shown = project("def test(): ...", "--fixtures", "-p", "no:cacheprovider").stdout.lines
    names = [line.split()[0] for line in shown if "pytest_gpuperf" in line and " -- " in line]
    assert sorted(names) == ["gpuperf", "gpuperf_device", "gpuperf_mamf"]


def test_disabled_a_step_on_ranks_runs_once_on_each(project, pytester: pytest.Pytester) -> None:
    result = project(
        """
        import pytest
        from pathlib import Path

        LOG = Path(__file__).parent

        def make_step(rank, world_size):
            return lambda: (LOG / f"rank{rank}.log").open("a").write("x")

        @pytest.mark.gpuperf(max_step_time="1ns")
        def test_step(gpuperf):
            gpuperf.ddp(make_step, world_size=2)
        """,
        "--gpuperf-disable",
    )
    result.assert_outcomes(passed=1)
    assert [(pytester.path / f"rank{r}.log").read_text() for r in range(2)] == ["x", "x"]


def test_a_workload_without_a_torch_op_is_timed_and_the_rest_is_unmeasured(project) -> None:
    result = project(
        """
    import time

    import pytest

    @pytest.mark.gpuperf(max_step_time="60s", min_throughput="0.001items/s")
    def test_sleep(gpuperf):
        gpuperf.run(lambda: time.sleep(0.005), items=1)
        # A sleep of 5 ms lasts at least that.
        assert gpuperf.result["step_time"].value >= 5000
        assert gpuperf.result["throughput"].value <= 200
        assert gpuperf.result.verdict == "PASS"

    @pytest.mark.gpuperf(max_host_syncs=0)
    def test_nothing_to_count():
        time.sleep(0.005)
    """
    )
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*UNMEASURED max_host_syncs=0: the workload ran no torch op"])
