"""Limits on what a trace knows of a region, and on the rates of ranks, through pytest's door."""

from __future__ import annotations


def test_a_region_is_held_to_what_the_trace_knows_of_it(project) -> None:
    result = project(
        """
        import pytest, torch

        @pytest.mark.gpuperf(max_step_time="60s")
        @pytest.mark.parametrize("syncs", [0, 1])
        def test_region(gpuperf, syncs):
            a = torch.randn(8, 8)
            def step():
                with gpuperf.region("read", max_host_syncs=syncs, min_tflops={"cpu": 1e-12}):
                    (a @ a)[0, 0].item()
                a[0, 0].item()
            gpuperf(step)
        """
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["host syncs * 1 on region read, ProfilerStep#1 > 0 allowed"])


def test_ranks_are_held_to_a_share_of_the_peak_by_the_conftests_formulas(project, pytester) -> None:
    pytester.makeconftest(
        """
        from gpuperf_analyzers.hookspecs import FlopFormula, hookimpl

        @hookimpl
        def gpuperf_flop_formulas():
            return [FlopFormula("gpuperf_door::scale", lambda call: 7 * call.dims[0][0])]
        """
    )
    # The peak is put where it is read from: measuring it takes an idle machine.
    result = project(
        """
        import json
        import pytest
        from pytest_gpuperf.recording import cpu_peak
        from pytest_gpuperf.session.ddp_plan import threads_per_rank

        def make_step(rank, world_size):
            import torch

            @torch.library.custom_op("gpuperf_door::scale", mutates_args=())
            def scale(x: torch.Tensor) -> torch.Tensor:
                return 2 * x

            a, vector = torch.randn(32, 32), torch.randn(1000)

            def step():
                a @ a
                scale(vector)

            return step

        @pytest.mark.gpuperf(min_mfu=1e-9, min_tflops={"cpu": 1e-9})
        def test_ranks(gpuperf, tmp_path, monkeypatch):
            peaks = {cpu_peak.machine_key(threads_per_rank(2)): {"fp32": 0.05}}
            (tmp_path / "cpu-peaks.json").write_text(json.dumps(peaks))
            monkeypatch.setenv(cpu_peak.CACHE_VARIABLE, str(tmp_path))
            gpuperf.ddp(make_step, world_size=2)
            values = gpuperf.result
            assert values["flops"].value == 2 * 32**3 + 7 * 1000
            # The same samples give both, so their ratio is the peak.
            assert values["tflops"].value / values["mfu"].value == pytest.approx(0.05)
        """,
        "-W",
        "error",
    )
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*UNMEASURED*")


def test_a_region_against_a_baseline_says_what_to_do_instead(project) -> None:
    """A plain `pytest --gpuperf-save` would not help: no region is ever stored."""
    result = project(
        """
        import torch
        def test_region(gpuperf):
            x = torch.ones(64)
            def step():
                with gpuperf.region("add", max_regression="3%", exact=["host_syncs"]):
                    x + x
            gpuperf(step)
        """,
        "--gpuperf-save",
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*NO-BASELINE*baselines hold whole measurements, no regions: *"])
