"""Baselines as a user meets them: saved, compared, explained, accepted, refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pytest_gpuperf.cli import main

THREE = ("-o", "gpuperf_steps=3")
MARK = """
import os, pytest, torch
WORSE = os.environ.get("WORSE", "")
EXACT = ["kernel_launches", "host_syncs", "host_to_device", "flops", "allocations"]
"""
STEP = (
    MARK
    + """
@pytest.mark.gpuperf(exact=EXACT)
def test_step(gpuperf):
    n = 101 if WORSE == "flops" else 100
    a, b = torch.randn(64, n), torch.randn(n, 64)
    def step():
        y = a @ b
        if WORSE == "item":
            y.sum().item()
        if WORSE == "copy":
            y = y.double()
        if WORSE == "fusion":
            return 0.5 * y * (1 + torch.erf(y / 2 ** 0.5))
        return torch.nn.functional.gelu(y)
    gpuperf(step)
"""
)


def _file() -> Path:
    (path,) = Path("gpuperf-baselines").glob("*.json")
    return path


@pytest.mark.parametrize(
    ("worse", "limit", "said"),
    [
        ("item", "host syncs (scalar reads on a CPU) 1 > 0 in the baseline",
         "host syncs: aten::_local_scalar_dense in aten::item (+1 a step)"),
        ("copy", "host to device (bytes copied on a CPU) 32.00 KiB > 0 B in the baseline",
         "host to device: aten::copy_ *in aten::_to_copy (+32.00 KiB a step)"),
        ("fusion", "kernel launches (op calls on a CPU) * > 6 in the baseline",
         "kernel launches: *aten::erf * (+1 a step)*"),
        ("flops", "flops 827,392 FLOP > 819,200 FLOP in the baseline",
         "flops: aten::mm (+8,192 FLOP a step)"),
    ],
)  # fmt: skip
def test_each_deterministic_regression_is_found_and_its_op_named(
    project, monkeypatch: pytest.MonkeyPatch, worse: str, limit: str, said: str
) -> None:
    project(STEP, "--gpuperf-save", *THREE).assert_outcomes(passed=1)
    monkeypatch.setenv("WORSE", worse)
    result = project(None, *THREE)
    result.assert_outcomes(failed=1)
    # 2·64·100·64 = 819,200 FLOP, and 1% more with 101; a 64x64 double has 32 KiB.
    result.stdout.fnmatch_lines([limit])
    result.stdout.fnmatch_lines([said])


def test_a_doubled_all_reduce_is_found_and_named(project, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        MARK
        + """
import torch.distributed as dist

def make_step(rank, world_size):
    x = torch.ones(256)
    def step():
        dist.all_reduce(x)
        if os.environ.get("WORSE"):
            dist.all_reduce(x)
    return step

@pytest.mark.gpuperf(
    exact=["collectives", "collective_bytes"], max_time="10ms", timeout="150s"
)
def test_step(gpuperf): gpuperf.ddp(make_step, world_size=2)
"""
    )
    project(source, "--gpuperf-save", *THREE).assert_outcomes(passed=1)
    monkeypatch.setenv("WORSE", "1")
    result = project(None, *THREE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["collectives * > * in the baseline"])
    result.stdout.fnmatch_lines(["collective bytes 2.000 KiB > 1 KiB in the baseline"])
    result.stdout.fnmatch_lines(["collectives: gloo:all_reduce*(+1 a step)"])


def test_what_passes_now_passes_again_and_nothing_is_said(project) -> None:
    project(STEP, "--gpuperf-save", *THREE).assert_outcomes(passed=1)
    result = project(None, *THREE)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("gpuperf: *")


def test_a_failed_test_is_not_saved_and_update_accepts_it(
    project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project(STEP, "--gpuperf-save", *THREE).assert_outcomes(passed=1)
    before = _file().read_text()
    monkeypatch.setenv("WORSE", "item")
    result = project(None, "--gpuperf-save", *THREE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*is saved: nothing that passed was measured; not of 1 test that failed: *update*"]
    )
    assert _file().read_text() == before
    assert main(["baseline", "update"]) == 0
    assert "1 measurement of the last run" in capsys.readouterr().out
    project(None, *THREE).assert_outcomes(passed=1)
    monkeypatch.delenv("WORSE")
    result = project(None, *THREE, "-rA")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*note: host_syncs: better than the baseline (0 after 1)*"])


def test_a_test_that_fails_by_itself_is_neither_saved_nor_accepted(project) -> None:
    source = """
        def test_wrong(gpuperf):
            import torch
            gpuperf(torch.ones, 8)
            assert False
    """
    result = project(source, "--gpuperf-save", *THREE)
    result.assert_outcomes(failed=1)
    assert not Path("gpuperf-baselines").exists()
    assert main(["baseline", "update"]) == 2


def test_a_first_run_can_be_saved_where_soft_verdicts_are_red(project) -> None:
    result = project(STEP, "--gpuperf-save", "--gpuperf-strict", *THREE)
    result.assert_outcomes(failed=1)  # NO-BASELINE
    project(None, "--gpuperf-strict", *THREE).assert_outcomes(passed=1)


def test_disabled_saves_nothing_and_says_so(project) -> None:
    result = project(STEP, "--gpuperf-save", "--gpuperf-disable")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["gpuperf: no baseline is saved: measuring is disabled*"])
    assert not Path("gpuperf-baselines").exists()


def test_a_subset_adds_to_what_is_there(project) -> None:
    source = """
        import pytest, torch
        @pytest.mark.parametrize("n", [8, 16])
        def test_ones(gpuperf, n): gpuperf(torch.ones, n)
    """
    project(source, "--gpuperf-save").assert_outcomes(passed=2)
    project(None, "--gpuperf-save", "-k", "16").assert_outcomes(passed=1)
    tests = json.loads(_file().read_text())["baselines"]["default"]["tests"]
    runs = {name.rpartition("[")[2]: entry[""]["runs"] for name, entry in tests.items()}
    assert runs == {"8]": [1], "16]": [1, 2]}


def test_an_option_takes_its_value_with_an_equals_sign_only(project, pytester) -> None:
    # The folder of tests must not become the name, nor its conftest be overlooked.
    folder = pytester.mkdir("checks")
    (folder / "conftest.py").write_text("def pytest_addoption(parser): parser.addoption('--mine')")
    (folder / "test_it.py").write_text(
        "def test_ones(gpuperf):\n    import torch\n    gpuperf(torch.ones, 8)\n"
    )
    result = project(None, "--gpuperf-save", "checks", "--mine=1")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["gpuperf: baseline 'default' saved in *1 measurement, run 1*"])
    result = project(None, "--gpuperf-save=nightly", "--gpuperf-compare", "checks")
    result.stdout.fnmatch_lines(["gpuperf: baseline 'nightly' saved in *"])


def test_a_name_that_is_none_is_refused(project) -> None:
    result = project(STEP, "--gpuperf-save=../x")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--gpuperf-save='../x': a name is made of letters*"])


def test_a_time_cannot_be_exact(project) -> None:
    result = project(
        """
        import pytest
        @pytest.mark.gpuperf(exact=["step_time"])
        def test_step(gpuperf): pass
        """
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(['*exact: step_time is sampled*max_regression={"step_time": "3%"*'])


def test_a_step_that_got_far_slower_is_red_and_explained(
    project, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine would make it AMBIGUOUS, as it should.
    quiet = "pytest_gpuperf.recording.recorder.watch_others"
    monkeypatch.setattr(quiet, lambda **_: lambda: ())
    source = """
        import os, pytest, torch
        @pytest.mark.gpuperf(max_regression="20%")
        def test_step(gpuperf):
            n = 256 if os.environ.get("WORSE") else 16
            x, y = torch.randn(n, n), torch.randn(64)
            def step():
                torch.relu(y)
                return x @ x
            gpuperf(step)
    """
    project(source, "--gpuperf-save").assert_outcomes(passed=1)
    path = _file()
    raw = json.loads(path.read_text())
    (tests,) = raw["baselines"]["default"]["tests"].values()
    # Ten runs of 20 µs: 256 x 256 takes a hundred and more on any machine.
    tests[""]["runs"] = list(range(1, 11))
    tests[""]["sampled"]["step_time"] = [[run, 20.0 + run / 100, 19.9, 30] for run in range(1, 11)]
    path.write_text(json.dumps(raw))
    monkeypatch.setenv("WORSE", "1")
    result = project(None)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["step time +* worse * than the baseline, 20% allowed*", "in profiled steps: step time *"]
    )
    result.stdout.fnmatch_lines(["*aten::mm*"])


def test_a_baseline_that_cannot_be_written_turns_the_run_red_and_is_one_line(project) -> None:
    Path("gpuperf-baselines").write_text("a file, not a folder")
    source = "def test_ones(gpuperf):\n    import torch\n    gpuperf(torch.ones, 8)\n"
    result = project(source, "--gpuperf-save", *THREE)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["gpuperf: the baseline is not saved in *--gpuperf-baselines*"])


def test_a_damaged_baseline_is_invalid_with_its_path(project) -> None:
    project(STEP, "--gpuperf-save", *THREE).assert_outcomes(passed=1)
    _file().write_text('{"format": "pytest-gpuperf baselines", "schema": 7}')
    result = project(None, *THREE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["INVALID exact *gpuperf-baselines*update pytest-gpuperf"])


NEVER = """
    import pathlib
    def test_ones(gpuperf):
        pathlib.Path("measured").touch()
"""


@pytest.mark.parametrize("option", ["--gpuperf-save", "--gpuperf-compare=nightly"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "*gpuperf-baselines*notes.json: is not a file of pytest-gpuperf baselines*"),
        ('{"format"', "*notes.json: is no JSON or cut short *restore it from version control*"),
        ("<<<<<<< HEAD\n{}", "*notes.json: holds the marks of a merge conflict*"),
    ],
    ids=["foreign", "cut", "merge"],
)
def test_a_file_that_is_no_baseline_ends_the_run_before_anything_is_measured(
    project, option: str, content: str, said: str
) -> None:
    Path("gpuperf-baselines").mkdir()
    Path("gpuperf-baselines/notes.json").write_text(content)
    result = project(NEVER, option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])
    assert "(nothing was measured)" in result.stderr.str()
    assert "Traceback" not in result.stderr.str()
    assert not Path("measured").exists()
    # Who does not ask for baselines, or measures nothing, is not troubled.
    assert project(None, "--collect-only").ret == 0
    assert project(None, option, "--gpuperf-disable").ret == 0


def test_another_environment_is_a_warning_line_and_no_comparison(
    project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(STEP, "--gpuperf-save", *THREE).assert_outcomes(passed=1)
    path = _file()
    raw = json.loads(path.read_text())
    raw["environment"]["cpu_model"] = "Made-up 9000"
    path.write_text(json.dumps(raw))
    path.rename(path.with_name("cpu-made-up.json"))
    monkeypatch.setenv("WORSE", "item")
    result = project(None, *THREE)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["gpuperf: *INCOMPARABLE *CPU Made-up 9000 in the baseline, * here"]
    )
    result = project(None, *THREE, "-o", "gpuperf_counts_across_cpus=true")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["host syncs (scalar reads on a CPU) 1 > 0 in the baseline"])


def test_properties_and_reports_carry_the_comparison(project) -> None:
    source = """
        import pytest, torch
        @pytest.mark.gpuperf(max_regression="100%", exact=["kernel_launches"])
        def test_ones(gpuperf): gpuperf(torch.ones, 8)
    """
    project(source, "--gpuperf-save", *THREE)
    project(None, *THREE, "--junitxml=j.xml", "--gpuperf-json=r.json")
    text = Path("j.xml").read_text()
    assert 'name="gpuperf.step_time.change"' in text
    assert 'name="gpuperf.kernel_launches"' in text
    (record,) = json.loads(Path("r.json").read_text())["results"]
    assert {j["direction"]: j["verdict"] for j in record["limits"]}["exact"] == "PASS"
    assert record["location"][1] == 2


def test_history_has_a_line_a_metric_and_the_command_reads_it(
    project, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        project(STEP, "--gpuperf-history", *THREE)
    path = Path(".gpuperf/history.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    times = [line for line in lines if line["metric"] == "step_time"]
    assert len(times) == 3
    with path.open("a") as out:
        out.write('{"v": 1, "at": "2026')  # a crash in the middle of a line
    project(None, "--gpuperf-history", *THREE)
    assert main(["history", "--metric", "kernel_launches", "--all"]) == 0
    told = capsys.readouterr()
    assert "1 torn or foreign line left out" in told.err
    assert "▁▁▁▁" in told.out


@pytest.mark.skipif(os.name != "posix", reason="a fork")
def test_a_parallel_run_saves_what_its_workers_measured(project, pytester) -> None:
    pytest.importorskip("xdist")
    source = """
        import pytest, torch
        @pytest.mark.gpuperf(exact=["kernel_launches"])
        @pytest.mark.parametrize("n", [8, 16, 32])
        def test_ones(gpuperf, n): gpuperf(torch.ones, n)
    """
    result = project(source, "--gpuperf-save", "-n2", *THREE, subprocess=True)
    result.assert_outcomes(passed=3)
    tests = json.loads(_file().read_text())["baselines"]["default"]["tests"]
    assert len(tests) == 3
    assert [entry[""]["runs"] for entry in tests.values()] == [[1]] * 3


def test_compare_tells_changes_of_what_has_no_limit(
    project, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
        import os, torch
        def test_ones(gpuperf):
            def step():
                x = torch.ones(8)
                return x + 1 if os.environ.get("WORSE") else x
            gpuperf(step)
    """
    project(source, "--gpuperf-save", *THREE).assert_outcomes(passed=1)
    monkeypatch.setenv("WORSE", "1")
    result = project(None, "--gpuperf-compare", "-rA", *THREE)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*note: step_time * against * of one run; not judged)"])
    result.stdout.fnmatch_lines(["*note: kernel_launches * against 3 in the baseline 'default'*"])
    result = project(None, "--gpuperf-compare=other", "-rA", *THREE)
    result.stdout.fnmatch_lines(["*note: not compared: no baseline named 'other' is stored here*"])
