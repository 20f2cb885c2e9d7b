"""``gpuperf.ratio``: two callables in turn, one ratio, one verdict; and workloads as they are."""

from __future__ import annotations

import pytest

# Work of a known size: on any machine three products take three times as long as one. Where a
# verdict is waited for the time is ample: sampling ends once it is decided.
PAIR = """
    import pytest
    import torch
    from pytest_gpuperf import workloads

    A = torch.randn(96, 96)

    def one():
        return A @ A

    def three():
        return one() + one() + one()
"""


def test_a_ratio_is_judged_by_its_own_limit_and_both_values_come_back(project) -> None:
    result = project(
        PAIR
        + """
    def test_pair(gpuperf):
        fast, slow = gpuperf.ratio(one, three, min_speedup=1.5, max_time="10s")
        assert torch.allclose(3 * fast, slow)
        result = gpuperf.result
        assert result.verdict == "PASS"
        low, high = result["speedup"].interval
        assert 1.5 <= low <= result["speedup"].value <= high
        # The rest is that of the first: one product of 96 x 96 x 96.
        assert result["flops"].value == 2 * 96**3
        fast_trace, slow_trace = result.traces
        assert fast_trace.is_file() and slow_trace.is_file()
        assert any("timed in turn with another callable" in note for note in result.notes)
    """
    )
    result.assert_outcomes(passed=1)


def test_a_ratio_that_falls_short_says_how_to_compare_the_two(project) -> None:
    result = project(
        PAIR
        + """
    @pytest.mark.gpuperf(min_speedup="50x")
    def test_pair(gpuperf):
        gpuperf.ratio(one, three)
    """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "speedup *x (95% CI *) < 50x required",
            "look at: what the two callables do differently: gpuperf compare *slow-rank0* *rank0*",
        ]
    )


def test_the_own_limit_stands_over_the_markers(project) -> None:
    project(
        PAIR
        + """
    @pytest.mark.gpuperf(min_speedup="50x")
    def test_pair(gpuperf):
        gpuperf.ratio(
            one, three, min_speedup={"cpu": 1.5, "default": "2x"}, max_time="10s"
        )
        assert [j.text for j in gpuperf.result.judgements] == ["min_speedup['cpu']=1.5"]
    """
    ).assert_outcomes(passed=1)


def test_the_same_against_itself_is_no_speedup(project) -> None:
    project(
        PAIR
        + """
    def test_pair(gpuperf):
        gpuperf.ratio(one, one, min_speedup=1.2, max_time="10s")
    """
    ).assert_outcomes(failed=1)


def test_one_callable_alone_has_no_speedup(project) -> None:
    result = project(
        PAIR
        + """
    @pytest.mark.gpuperf(min_speedup=2)
    def test_alone(gpuperf):
        gpuperf(one)
        assert gpuperf.result.verdict == "UNMEASURED"
    """
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*no other callable was timed beside it: gpuperf.ratio*"])


def test_set_up_and_tear_down_are_around_each_call_of_either(project) -> None:
    project(
        PAIR
        + """
    def test_pair(gpuperf):
        log = []
        gpuperf.ratio(
            lambda: log.append("fast"), lambda: log.append("slow"),
            setup=lambda: log.append("("), teardown=lambda: log.append(")"), max_time="20ms",
        )
        assert len(log) % 3 == 0
        calls = list(zip(log[::3], log[1::3], log[2::3]))
        assert {(a, c) for a, _, c in calls} == {("(", ")")}
        order = [call for _, call, _ in calls]
        text = "".join(name[0] for name in order)
        assert "fssf" in text
    """
    ).assert_outcomes(passed=1)


def test_a_region_is_the_faster_ones(project) -> None:
    project(
        PAIR
        + """
    def test_pair(gpuperf):
        def fast():
            with gpuperf.region("part", max_step_time="10s"):
                one()
        def slow():
            with gpuperf.region("part"):
                three()
        gpuperf.ratio(fast, slow)
        region = next(j for j in gpuperf.result.judgements if j.at == "region part")
        # Of one product, not of the mean of one and three.
        assert region.value < 1.5 * gpuperf.result["step_time"].value
    """
    ).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("gpuperf.ratio(3, one)", "*gpuperf: 3 is not a function to measure*"),
        ("gpuperf.ratio(one, 4)", "*gpuperf: 4 is not a function to measure*"),
        (
            "gpuperf.ratio(one, one, min_speedup='2s')",
            "*gpuperf.ratio: min_speedup: '2s' is in us*",
        ),
        (
            "gpuperf.ratio(one, one, min_speedup=-1)",
            "*gpuperf.ratio: min_speedup: -1 is not a fin*",
        ),
        ("gpuperf.ratio(one, one, setup=1)", "*gpuperf: setup=1 is not a function*"),
    ],
)
def test_a_wrong_call_is_one_line(project, call: str, says: str) -> None:
    result = project(PAIR + f"\n    def test_pair(gpuperf):\n        {call}\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([says])


def test_an_exception_of_the_slower_one_is_the_tests_own(project) -> None:
    result = project(
        PAIR
        + """
    def broken():
        raise RuntimeError("no such kernel")

    def test_pair(gpuperf):
        gpuperf.ratio(one, broken)
    """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*RuntimeError: no such kernel*"])


def test_disabled_both_run_once(project) -> None:
    project(
        PAIR
        + """
    def test_pair(gpuperf):
        log = []
        assert gpuperf.ratio(lambda: log.append(1) or 1, lambda: log.append(2) or 2) == (1, 2)
        assert log == [1, 2]
        assert len(gpuperf.results) == 1
    """,
        "--gpuperf-disable",
    ).assert_outcomes(passed=1)


def test_a_workload_brings_its_flop_bytes_and_items(project) -> None:
    result = project(
        PAIR
        + """
    @pytest.mark.gpuperf(
        min_tflops={"cpu": 1e-9}, min_bandwidth={"cpu": "1B/s"}, min_throughput="1/s"
    )
    @pytest.mark.parametrize(
        "workload", [workloads.mlp(16, 32, 64), workloads.depthwise(2, 8, 10)]
    )
    def test_it(gpuperf, workload):
        gpuperf(workload)
        result = gpuperf.result
        assert result.verdict == "PASS"
        assert result["flops"].value == workload.flops
        us = result["step_time"].value
        assert result["bandwidth"].value == pytest.approx(workload.bytes / us / 1e3)
        assert result["throughput"].value == pytest.approx(workload.items / us * 1e6)
    """,
        "-v",
    )
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_it?mlp-16x32x64-fp32? PASSED*"])


def test_a_wrong_kernel_is_invalid_before_it_is_timed(project) -> None:
    result = project(
        PAIR
        + """
    def test_it(gpuperf):
        gpuperf(workloads.kernel(torch.sub, reference=torch.add, inputs=lambda d: (A, A)))
    """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["INVALID gpuperf: the kernel is wrong: element *"])


def test_a_workload_that_cannot_run_here_skips_with_the_reason(project) -> None:
    result = project(
        PAIR
        + """
    @pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU has it")
    def test_it(gpuperf):
        gpuperf(workloads.matmul_kernel("naive", 8, 8, 8))
    """,
        "-rs",
    )
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*UNMEASURED: gpuperf: a CUDA kernel needs a CUDA GPU*"])


def test_the_scalers_sync_shows(project) -> None:
    project(
        PAIR
        + """
    @pytest.mark.parametrize(("precision", "syncs"), [("fp32", 0), ("fp16", 1), ("bf16", 0)])
    def test_it(gpuperf, precision, syncs):
        gpuperf(workloads.training_step(precision, batch=8, width=16, hidden=16))
        # On a CPU a sync is a scalar that is read; the scaler reads whether anything overflowed.
        assert gpuperf.result["host_syncs"].value == syncs
    """
    ).assert_outcomes(passed=3)


def test_materialized_scores_take_the_square_of_the_sequence(project) -> None:
    project(
        PAIR
        + """
    def growth(gpuperf, rows, backend):
        workload = workloads.attention(1, 2, rows, 8, backend=backend)
        gpuperf(workload)
        return gpuperf.result["peak_memory_growth"].value

    def test_it(gpuperf):
        # Scores and probabilities at once: 2 heads of S x S in fp32, twice.
        for rows in (256, 512):
            scores = 2 * 4 * 2 * rows**2
            assert scores <= growth(gpuperf, rows, "materialized") <= 1.1 * scores
        small, large = (growth(gpuperf, rows, "flash") for rows in (256, 512))
        assert large <= 2.1 * small < 2 * 4 * 2 * 256**2
    """
    ).assert_outcomes(passed=1)


def test_the_library_function_gives_the_same_without_pytest(torch_loaded: None) -> None:
    import torch

    from pytest_gpuperf import ratio

    a = torch.randn(96, 96)
    found = ratio(
        lambda: a @ a, lambda: (a @ a) @ (a @ a), min_speedup=1.2, device="cpu",
        warmup="1ms", max_time="10s", steps=1,  # it ends once it is decided
    )  # fmt: skip
    assert found.verdict == "PASS"
    assert found["speedup"].interval[0] > 1.2
    assert found.traces == ()
    with pytest.raises(ValueError, match="3 is not a function"):
        ratio(3, 4, device="cpu")  # type: ignore[arg-type]
