"""Limits on memory as a user sees them: what they judge, and what a failure names."""

from __future__ import annotations

import pytest

OPTIONS = (
    "-p", "no:cacheprovider", "-o", "gpuperf_warmup=5ms", "-o", "gpuperf_max_time=10ms",
    "--gpuperf-device=cpu",
)  # fmt: skip

STEP = """
    import pytest
    import torch
    from pathlib import Path

    from gpuperf_analyzers import analyze, read_trace

    def make_step():
        # P = 100 x 200 + 200: parameters 80,800 bytes, as much in gradients, twice in Adam's state.
        net = torch.nn.Linear(100, 200)
        adam = torch.optim.Adam(net.parameters())
        x = torch.randn(64, 100)

        def step():
            adam.zero_grad()
            torch.relu(net(x)).sum().backward()
            adam.step()

        return step
"""


def test_limits_pass_fail_and_name_what_is_large(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        STEP
        + """
    @pytest.mark.gpuperf(
        max_optimizer_memory="161608B", max_gradient_memory="80800B", max_unknown_memory="1GB",
        max_activation_memory="52KB", max_memory_growth="0B",
    )
    def test_within(gpuperf):
        gpuperf(make_step())
        # The trace gives what the test gave.
        found = analyze(read_trace(gpuperf.result.traces[0])).values
        assert found["optimizer_memory"].value == 2 * 80_800 + 2 * 4
        assert found["gradient_memory"].value == 80_800
        assert found["memory_growth"].interval == (0.0, 0.0)

    @pytest.mark.gpuperf(max_activation_memory="10kB")
    def test_activations(gpuperf):
        gpuperf(make_step())

    @pytest.mark.gpuperf(max_memory_growth="1kB")
    def test_leak(gpuperf):
        kept, step = [], make_step()

        def leaking():
            step()
            kept.append(torch.zeros(1000))

        gpuperf(leaking)
    """
    )
    result = pytester.runpytest_subprocess(*OPTIONS)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            # 64 x 200 in fp32, of the ReLU; 4 bytes begin the backward pass.
            "activation memory * > 9.766 KiB allowed",
            "activation memory, the largest: activation 50.00 KiB in aten::relu*",
            "memory growth 3.906 KiB (95% CI 3.906–3.906) > 1,000 B allowed",
            "memory growth, the largest: 3.906 KiB a step in aten::zeros",
        ]
    )


def test_the_largest_batch_in_a_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        import torch

        def test_fit(gpuperf):
            found = gpuperf.fit_memory(lambda n: torch.ones(n, 250).sin().sum(),
                                       sizes=[100, 200], memory="1GB")
            # The ones and their sine: 1,000 bytes each for a sample.
            assert found.per_sample_bytes == pytest.approx(2000)
            assert abs(found.largest_batch - (1e9 - found.model_bytes) / 2000) < 1

        def test_wrong(gpuperf):
            with pytest.raises(pytest.UsageError, match="two different whole numbers"):
                gpuperf.fit_memory(print, sizes=[1])
            with pytest.raises(pytest.UsageError, match="memory: 'lots'"):
                gpuperf.fit_memory(print, sizes=[1, 2], memory="lots")
        """
    )
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=2)


def test_a_breakdown_that_is_neither_true_nor_false(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.gpuperf(breakdown="maybe")
        def test_it(gpuperf): ...
        """
    )
    result = pytester.runpytest_subprocess(*OPTIONS)
    assert result.ret != 0
    assert "breakdown: 'maybe' is neither true nor false" in "\n".join(
        [*result.outlines, *result.errlines]
    )
