"""A whole run: reports, parallel workers, reruns of what failed."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

TWO = """
    import pytest, torch

    A = torch.ones(16, 16)

    @pytest.mark.gpuperf(max_step_time="1ns")
    def test_slow(gpuperf):
        gpuperf.extra_info["batch"] = 16
        gpuperf(torch.mm, A, A)

    @pytest.mark.gpuperf(max_step_time="60s")
    def test_fast(gpuperf):
        gpuperf(torch.mm, A, A, name="mm")
"""


def report_of(path: Path) -> dict[str, dict]:
    """The results in a report by test name."""
    document = json.loads(path.read_text())
    assert document["schema"] == 1
    return {r["test"].rpartition("::")[2]: r for r in document["results"]}


def test_a_report_has_a_table_a_file_and_every_trace(project, pytester: pytest.Pytester) -> None:
    result = project(TWO, "--gpuperf-report")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*= gpuperf =*", "test *verdict*", "*::test_slow * FAIL *"])
    result.stdout.fnmatch_lines(["*::test_fast ?mm? PASS *", "1 FAIL, 1 PASS"])
    result.stdout.fnmatch_lines(["gpuperf: report in *.gpuperf/report.json"])
    results = report_of(pytester.path / ".gpuperf" / "report.json")
    slow, fast = results["test_slow"], results["test_fast"]
    assert (slow["verdict"], fast["verdict"]) == ("FAIL", "PASS")
    assert slow["extra_info"] == {"batch": 16}
    assert fast["name"] == "mm"
    assert slow["limits"][0]["limit"] == 0.001
    assert slow["failure"].splitlines()[0].endswith("> 1 ns allowed")
    assert slow["values"]["flops"]["value"] == 2 * 16**3
    assert slow["values"]["overlap"]["absent_reason"]
    for record in (slow, fast):
        assert all(Path(path).is_file() for path in record["traces"])
        assert len(record["traces"]) == 1


def test_the_folder_and_the_files_of_a_report_can_be_chosen(
    project, pytester: pytest.Pytester
) -> None:
    options = ["--gpuperf-dir=out", "--gpuperf-json=a.json", "--gpuperf-markdown=b.md"]
    project(TWO, *options).assert_outcomes(passed=1, failed=1)
    assert set(report_of(pytester.path / "a.json")) == {"test_slow", "test_fast"}
    assert "test_slow" in (pytester.path / "b.md").read_text()
    # Of the test that failed only: no report was asked to keep the others'.
    assert len(list((pytester.path / "out").rglob("*.json.gz"))) == 1
    assert not (pytester.path / ".gpuperf").exists()


def test_options_are_mirrored_in_the_ini_file(project, pytester: pytest.Pytester) -> None:
    ini = ["gpuperf_report=true", "gpuperf_dir=out", "gpuperf_markdown=b.md"]
    project(TWO, *(f"-o{line}" for line in ini)).assert_outcomes(passed=1, failed=1)
    assert (pytester.path / "out" / "report.json").is_file()
    assert (pytester.path / "b.md").is_file()


def test_a_report_that_cannot_be_written_is_said_and_changes_no_outcome(
    project, pytester: pytest.Pytester
) -> None:
    (pytester.path / "file").touch()
    result = project(TWO, "--gpuperf-json=file/a.json", "-k", "fast")
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.fnmatch_lines(["gpuperf: *a.json could not be written: *"])


def test_even_a_quiet_run_says_that_a_report_could_not_be_written(
    project, pytester: pytest.Pytester
) -> None:
    (pytester.path / "file").touch()
    result = project(TWO, "--gpuperf-json=file/a.json", "-k", "fast", "-q")
    result.stdout.fnmatch_lines(["gpuperf: *a.json could not be written: *"])


RUN_AGAIN = """
    import pytest

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(item, nextitem):
        # What plugins that run failed tests again do: the same item, a report of its own outcome.
        from _pytest.runner import runtestprotocol
        for report in runtestprotocol(item, nextitem=nextitem, log=False):
            if report.when == "call":
                report.outcome = "rerun"
            item.ihook.pytest_runtest_logreport(report=report)
        item._initrequest()
        return (yield)
"""


def test_of_a_test_that_is_run_again_the_last_run_is_told(
    project, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest(RUN_AGAIN)
    result = project(TWO, "--gpuperf-report", "--junitxml=j.xml", "-k", "slow")
    assert result.parseoutcomes()["failed"] == 1
    report = json.loads((pytester.path / ".gpuperf" / "report.json").read_text())
    (only,) = report["results"]
    assert "run 2 of a test that failed before" in only["notes"]
    # pytest itself writes down every run; each tells its own numbers and no earlier ones.
    assert (pytester.path / "j.xml").read_text().count('name="gpuperf.verdict"') == 2


def test_a_report_format_of_a_conftest_is_written_where_its_own_option_says(
    project, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest(
        """
        from gpuperf_analyzers.hookspecs import Report, hookimpl

        def pytest_addoption(parser):
            parser.addoption("--gpuperf-names", default=None)

        @hookimpl
        def gpuperf_reports():
            def write(results, path):
                path.write_text(" ".join(r["verdict"] for r in results))
            return [Report("names", write)]
        """
    )
    project(TWO, "--gpuperf-names=names.txt").assert_outcomes(passed=1, failed=1)
    assert (pytester.path / "names.txt").read_text() == "FAIL PASS"


def test_without_a_report_a_passing_run_says_nothing_of_us(project) -> None:
    result = project(TWO, "-k", "fast")
    result.stdout.no_fnmatch_line("gpuperf:*")
    result.stdout.no_fnmatch_line("*= gpuperf =*")


def test_quiet_is_quiet(project) -> None:
    result = project(TWO, "-q", "-k", "fast", "--gpuperf-report")
    result.stdout.no_fnmatch_line("*gpuperf*")


def test_no_colour_where_there_is_no_terminal(project) -> None:
    assert "\x1b" not in project(TWO, "--gpuperf-report").stdout.str()


def test_parallel_workers_send_their_results_to_one_report(
    project, pytester: pytest.Pytester
) -> None:
    result = project(TWO, "-n2", "--gpuperf-report", subprocess=True)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["1 FAIL, 1 PASS"])
    assert result.stdout.str().count("= gpuperf =") == 1
    results = report_of(pytester.path / ".gpuperf" / "report.json")
    assert {name: r["verdict"] for name, r in results.items()} == {
        "test_slow": "FAIL",
        "test_fast": "PASS",
    }


def test_the_first_failure_ends_a_run_that_is_to_end_there(project) -> None:
    project(TWO, "-x").assert_outcomes(failed=1)


def test_what_failed_last_is_run_again_alone(project) -> None:
    project(TWO).assert_outcomes(passed=1, failed=1)
    result = project(None, "--lf")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*test_slow*"])


def test_junit_xml_has_the_verdict_and_the_numbers(project, pytester: pytest.Pytester) -> None:
    project(TWO, "--junitxml=junit.xml").assert_outcomes(passed=1, failed=1)
    root = ET.parse(pytester.path / "junit.xml").getroot()  # noqa: S314 - written by the run above
    found = {
        case.get("name"): {p.get("name"): p.get("value") for p in case.iter("property")}
        for case in root.iter("testcase")
    }
    assert found["test_slow"]["gpuperf.verdict"] == "FAIL"
    assert float(found["test_slow"]["gpuperf.step_time"]) > 0
    assert found["test_fast"]["gpuperf.mm.verdict"] == "PASS"
    (failure,) = root.iter("failure")
    assert "> 1 ns allowed" in (failure.get("message") or "")


def test_numbers_of_numpy_and_other_objects_can_be_kept_beside_the_results(
    project, pytester: pytest.Pytester
) -> None:
    result = project(
        """
        import numpy as np
        import torch

        def test_step(gpuperf):
            gpuperf.extra_info.update(n=np.int64(3), device=gpuperf.device, t=torch.tensor(2.5))
            gpuperf.extra_info["by size"] = {(1, 2): {"a"}}
            gpuperf(torch.ones, 8)
        """,
        "--gpuperf-report",
    )
    result.assert_outcomes(passed=1)
    record = report_of(pytester.path / ".gpuperf" / "report.json")["test_step"]
    assert record["extra_info"] == {
        "n": 3,
        "device": "cpu",
        "t": 2.5,
        "by size": {"(1, 2)": ["a"]},
    }


def test_of_the_ranks_of_a_torchrun_only_rank_0_tells_the_results(
    project, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    result = project(TWO, "--gpuperf-report")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.no_fnmatch_line("*= gpuperf =*")
    traces = pytester.path / ".gpuperf"
    assert {p.name for p in traces.rglob("*.*z")} == {"rank1.pt.trace.json.gz"}
    assert not (traces / "report.json").exists()


def test_what_an_earlier_run_of_a_test_left_is_gone(project, pytester: pytest.Pytester) -> None:
    source = """
        import pytest, torch

        @pytest.mark.gpuperf(max_step_time="1ns")
        def test_step(gpuperf):
            for _ in range(TIMES):
                gpuperf(torch.ones, 8)
    """
    for times in (2, 1):
        project(source.replace("TIMES", str(times))).assert_outcomes(failed=1)
        assert len(list((pytester.path / ".gpuperf").rglob("*.json.gz"))) == times


def test_a_step_on_two_ranks_is_measured_and_its_set_judged(
    project, pytester: pytest.Pytester
) -> None:
    result = project(
        """
        import pytest

        def make_step(rank, world_size):
            import torch
            import torch.distributed as dist

            tensor = torch.ones(1024)
            return lambda: dist.all_reduce(tensor)

        @pytest.mark.gpuperf(max_overlap=0.5, max_collectives=1, steps=6, tokens=8)
        def test_all_reduce(gpuperf):
            gpuperf.ddp(make_step, world_size=2)
            result = gpuperf.result
            assert result.world_size == 2
            assert len(result.traces) == 2
            assert result["collectives"].value == 1
            assert result["throughput"].value > 0

        def with_region(rank, world_size):
            from pytest_gpuperf import region

            reduce = make_step(rank, world_size)

            def step():
                with region("reduce", max_step_time="1ns"):
                    reduce()
            return step

        @pytest.mark.gpuperf(min_overlap="99%")
        def test_nothing_to_hide_behind(gpuperf):
            gpuperf.ddp(with_region, world_size=2)
        """,
        "--gpuperf-report",
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "overlap * on rank * < 99% required",
            "step time * on region reduce, rank * > 1 ns allowed",
        ]
    )
    results = report_of(pytester.path / ".gpuperf" / "report.json")
    assert [Path(p).name for p in results["test_all_reduce"]["traces"]] == [
        "ddp.rank0.pt.trace.json.gz",
        "ddp.rank1.pt.trace.json.gz",
    ]


def test_a_step_that_other_processes_cannot_load_is_a_usage_error(project) -> None:
    result = project(
        """
        def test_lambda(gpuperf):
            gpuperf.ddp(lambda rank, size: None, world_size=2)

        def test_closure(gpuperf):
            def make_step(rank, size): ...
            gpuperf.ddp(make_step, world_size=2)
        """
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["E*UsageError: *make_step is a lambda*", "E*UsageError: *inside another function*"]
    )


def test_a_rank_that_raises_fails_the_test_by_name_without_our_traceback(project) -> None:
    result = project(
        """
        def make_step(rank, world_size):
            def step():
                if rank == 1:
                    raise ValueError("of rank one")
            return step

        def test_step(gpuperf):
            gpuperf.ddp(make_step, world_size=2)
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["gpuperf.ddp: rank 1 of 2 raised ValueError*of rank one"])
    result.stdout.no_fnmatch_line("*fixture.py*")


def test_the_command_says_of_a_trace_of_ours_what_pytest_said(
    project, pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    from pytest_gpuperf.cli import main

    project(
        """
        import pytest, torch

        A = torch.ones(64, 64)

        @pytest.mark.gpuperf(max_flops="1FLOP", max_step_time="60s", min_overlap=0.5, steps=6)
        def test_mm(gpuperf):
            gpuperf(torch.mm, A, A)
        """,
        "--gpuperf-report",
    )
    live = report_of(pytester.path / ".gpuperf" / "report.json")["test_mm"]
    capsys.readouterr()
    limits = ["--max-flops", "1FLOP", "--max-step-time", "60s", "--min-overlap", "0.5"]
    status = main(["check", "--json", *live["traces"], *limits])
    offline = json.loads(capsys.readouterr().out)
    assert status == 1
    assert offline["verdict"] == live["verdict"] == "FAIL"
    keys = ("metric", "verdict", "value", "interval", "limit", "reason", "at")
    assert [[j[k] for k in keys] for j in offline["limits"]] == [
        [j[k] for k in keys] for j in live["limits"]
    ]


def test_a_rank_that_hangs_fails_the_test_within_the_markers_timeout(
    project, pytester: pytest.Pytester
) -> None:
    for limit in (8, 16, 32, 64, 128):  # a busy machine may take longer to come to the step
        result = project(
            f"""
            import pytest

            def make_step(rank, world_size):
                import time
                return (lambda: time.sleep(600)) if rank == 1 else (lambda: None)

            @pytest.mark.gpuperf(max_step_time="1s", timeout="{limit}s")
            def test_step(gpuperf):
                gpuperf.ddp(make_step, world_size=2)
            """
        )
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines([f"gpuperf.ddp: *still running after {limit} s*"])
        if "gpuperf.ddp: rank 1 of 2" in result.stdout.str():
            break
    result.stdout.fnmatch_lines(["gpuperf.ddp: *rank 1*"])
    assert list((pytester.path / ".gpuperf").rglob("*.json*")) == []


def test_samples_are_kept_in_the_report_unless_the_ini_file_leaves_them_out(
    project, pytester: pytest.Pytester
) -> None:
    project(TWO, "--gpuperf-json=all.json", "-k", "fast")
    project(TWO, "--gpuperf-json=few.json", "-k", "fast", "-o", "gpuperf_samples=false")
    kept, left = (report_of(pytester.path / name)["test_fast"] for name in ("all.json", "few.json"))
    assert len(kept["samples_us"]) == kept["values"]["step_time"]["n"]
    assert left["samples_us"] == []
    assert left["values"]["step_time"]["n"] >= 3
    assert left["values"]["step_time"]["value"] > 0
