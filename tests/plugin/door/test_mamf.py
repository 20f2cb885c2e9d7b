"""``min_mamf_share`` and the fixture ``gpuperf_mamf``, with a maximum kept and without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gpuperf.mamf.store import keep
from pytest_gpuperf.recording.mamf_cache import CachedMamf

torch = pytest.importorskip("torch")

SHARE = """
import pytest, torch

@pytest.mark.gpuperf(min_mamf_share={limit!r})
def test_matmul(gpuperf):
    a = torch.rand(64, 64)
    gpuperf(torch.mm, a, a)
    share, tflops = gpuperf.result["mamf_share"], gpuperf.result["tflops"]
    print("SHARE", share.value, share.absent_reason, share.source)
    if share.value is not None:
        assert share.value == pytest.approx(tflops.value / {maximum})
        assert share.interval == pytest.approx([end / {maximum} for end in tflops.interval])
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUPERF_CACHE_DIR", str(tmp_path / "kept"))
    return tmp_path / "kept"


def kept(dtype: str, tflops: float) -> CachedMamf:
    """A maximum of this machine with the one thread that these projects run on."""
    from pytest_gpuperf.recording.cpu_peak import machine_key

    return keep(CachedMamf(dtype, machine_key(1), tflops, (512, 320, 448), 4096, 81, "a grid"))[1]


def test_a_share_is_the_rate_over_the_kept_maximum(project, cache) -> None:
    """A maximum of 50 TFLOPS, which no CPU's 64x64 product comes near: FAIL, with the number."""
    kept("fp32", 50.0)
    result = project(SHARE.format(limit=0.5, maximum=50.0))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["mamf share 0.*%*< 50% required"])
    result.stdout.fnmatch_lines(
        [("SHARE 0.0* None *over the measured maximum (fp32: 50 TFLOPS measured at 512x320x448 "
         "(MxNxK), the best of 81 timed of 4,096 shapes)*")]
    )  # fmt: skip


def test_without_a_maximum_the_share_is_unmeasured_with_the_command(project, cache) -> None:
    kept("bf16", 50.0)  # of another dtype
    result = project(SHARE.format(limit=0.5, maximum=1), "-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [("*SHARE None no maximum of cpu with 1 threads is kept for fp32 and this torch: run "
         "`OMP_NUM_THREADS=1 gpuperf mamf --dtype fp32 --device cpu`*")]
    )  # fmt: skip
    result.stdout.fnmatch_lines(["*UNMEASURED*"])


def test_a_share_above_the_maximum_is_invalid(project, cache) -> None:
    """A maximum of 1e-6 TFLOPS, which any product exceeds, is of too small shapes."""
    kept("fp32", 1e-6)
    result = project(SHARE.format(limit=0.5, maximum=1e-6), "-s")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*INVALID*run `gpuperf mamf` over a wider range*"])


def test_the_fixture_gives_the_kept_maximum_or_skips_with_the_command(project, cache) -> None:
    kept("fp32", 50.0)
    result = project(
        """
        def test_kept(gpuperf_mamf):
            found = gpuperf_mamf("fp32")
            assert (found.tflops, found.shape, found.timed) == (50.0, (512, 320, 448), 81)

        def test_not_kept(gpuperf_mamf):
            gpuperf_mamf("bf16")

        def test_misspelt(gpuperf_mamf):
            gpuperf_mamf("bfloat16")
        """,
        "-rs",
    )
    result.assert_outcomes(passed=1, skipped=1, failed=1)
    result.stdout.fnmatch_lines(
        [("*UNMEASURED: no maximum of cpu with 1 threads is kept for bf16*: run "
         "`OMP_NUM_THREADS=1 gpuperf mamf --dtype bf16 --device cpu`*")]
    )  # fmt: skip
    result.stdout.fnmatch_lines(["*gpuperf_mamf('bfloat16'): `gpuperf mamf` measures fp32, tf32*"])


def test_check_gives_what_the_live_run_gave(project, cache, pytester) -> None:
    """The maximum stands in the trace: judged later, without the cache, the share is the same."""
    import json

    from pytest_gpuperf.cli import main

    kept("fp32", 50.0)
    project(SHARE.format(limit=0.5, maximum=50.0), "--gpuperf-report", "--gpuperf-dir=found")
    for path in cache.rglob("*.json"):
        path.unlink()
    report = json.loads((pytester.path / "found" / "report.json").read_text())
    (record,) = report["results"]
    live = record["values"]["mamf_share"]["value"]
    (trace,) = pytester.path.glob("found/traces/**/*.json.gz")
    with pytest.MonkeyPatch.context() as patch:
        shown: list[str] = []
        patch.setattr("sys.stdout.write", shown.append)
        assert main(["check", str(trace), "--min-mamf-share=0.5", "--json"]) == 1
    (judged,) = json.loads("".join(shown))["limits"]
    assert judged["value"] == live
