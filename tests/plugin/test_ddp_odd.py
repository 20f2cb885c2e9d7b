"""Odd steps on ranks: what cannot be run is refused, and told in one line without our traceback."""

from __future__ import annotations

import pytest

from pytest_gpuperf.ranks import RankError, RankOutcome, State
from pytest_gpuperf.session.ddp_failure import failure_of

HEAD = """
    import pytest
    import torch
    import torch.distributed as dist
"""


def run(pytester: pytest.Pytester, make_step: str, *options: str) -> pytest.RunResult:
    test = "\n    def test_it(gpuperf):\n        gpuperf.ddp(make_step, world_size=2)\n"
    pytester.makepyfile(HEAD + make_step + test)
    quick = ("-ogpuperf_warmup=1ms", "-ogpuperf_max_time=10ms", "-ogpuperf_timeout=60s")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rs", *quick, *options)
    # Nothing of ours stands in what the user reads.
    result.stdout.no_fnmatch_line("*pytest_gpuperf/*")
    return result


@pytest.mark.parametrize(
    ("signature", "reason"),
    [
        ("rank", "too many positional arguments"),
        ("rank, world_size, batch", "missing a required argument: 'batch'"),
        ("*, rank, world_size", "too many positional arguments"),
    ],
)
def test_a_make_step_of_other_arguments_is_refused_before_any_process_starts(
    pytester: pytest.Pytester, signature: str, reason: str
) -> None:
    result = run(pytester, f"\n    def make_step({signature}): return lambda: None\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E*UsageError: gpuperf.ddp: make_step(*is called with*{reason}"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("pass", "make_step(rank, world_size) must return the step, * it returned NoneType"),
        ("dist.destroy_process_group(); return print", "make_step ended the process group*"),
        ("async def step(): pass\n        return step", "the workload is a coroutine function*"),
    ],
    ids=["no step", "no group", "coroutine"],
)
def test_what_a_rank_cannot_measure_is_told_in_one_line(
    pytester: pytest.Pytester, body: str, message: str
) -> None:
    result = run(pytester, f"\n    def make_step(rank, world_size):\n        {body}\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"gpuperf.ddp: rank ? of 2 cannot be measured: {message}"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_rank_that_skips_skips_the_test(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
    def make_step(rank, world_size):
        if rank == 1:
            pytest.skip("there is no cat here")
        return lambda: dist.all_reduce(torch.ones(1))
    """,
    )
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*rank 1: there is no cat here"])


def test_of_a_long_message_the_first_line_stands_before_the_traceback(tmp_path) -> None:
    message = "\x1b[31mcat " + "x" * 100_000 + "\nsecond line"
    error = RankError("ValueError", message, f"Traceback …\nValueError: {message}")
    outcome = RankOutcome(0, State.RAISED, error=error, stage="in make_step")
    first, *rest = str(failure_of([outcome], 5, stacks_stem=tmp_path / "ddp")).splitlines()
    assert first.startswith("gpuperf.ddp: rank 0 of 1 raised ValueError in make_step: \\x1b[31mcat")
    assert len(first) < 400
    assert rest[0] == "Traceback …"


def test_an_exception_without_a_message_ends_no_line_with_a_colon(tmp_path) -> None:
    error = RankError("KeyboardInterrupt", "", "Traceback …\nKeyboardInterrupt")
    outcome = RankOutcome(0, State.RAISED, error=error, stage="in make_step")
    first = str(failure_of([outcome], 5, stacks_stem=tmp_path / "ddp")).splitlines()[0]
    assert first == "gpuperf.ddp: rank 0 of 1 raised KeyboardInterrupt in make_step"
