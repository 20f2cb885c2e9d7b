from __future__ import annotations

from typing import Any

from gpuperf_analyzers.failure_text import evidence_text, failure_text, limit_text


def _judgement(**changes: Any) -> dict[str, Any]:
    return {
        "text": "min_tflops=0.5", "metric": "tflops", "direction": "min", "limit": 0.5,
        "verdict": "FAIL", "value": 0.31, "interval": [0.3, 0.32], "reason": "", "at": "",
        "unit": "TFLOPS", **changes,
    }  # fmt: skip


def test_a_failed_limit_says_achieved_interval_and_required() -> None:
    text = limit_text(_judgement())
    assert text == "achieved 0.310 TFLOPS (95% CI 0.300–0.320) < 0.5 TFLOPS required"


def test_an_upper_limit_is_allowed_and_the_rank_is_named() -> None:
    judgement = _judgement(
        metric="exposed_comm", direction="max", limit=3000.0, value=3100.0, interval=None,
        unit="us", at="rank 1",
    )  # fmt: skip
    assert limit_text(judgement) == "exposed comm 3.100 ms on rank 1 > 3 ms allowed"


def test_a_limit_that_was_not_judged_says_its_verdict_and_why() -> None:
    judgement = _judgement(verdict="UNMEASURED", value=None, interval=None, reason="no shapes")
    assert limit_text(judgement) == "UNMEASURED min_tflops=0.5: no shapes"


def test_an_ambiguous_limit_keeps_its_numbers() -> None:
    text = limit_text(_judgement(verdict="AMBIGUOUS", reason="the interval straddles the limit"))
    assert text.startswith("AMBIGUOUS achieved 0.310 TFLOPS")
    assert text.endswith("the interval straddles the limit")


def test_a_failure_is_what_evidence_and_where_to_look() -> None:
    record = {
        "verdict": "FAIL",
        "limits": [_judgement(), _judgement(metric="idle", verdict="PASS")],
        "evidence": {
            "compute": 0.61, "exposed_comm": 0.2, "idle": 0.19,
            "top_ops": [{"name": "aten::mm", "time_us": 1200.0, "share": 0.4}],
        },
        "traces": ["out/rank0.json.gz", "out/rank1.json.gz"],
    }  # fmt: skip
    what, evidence, look = failure_text(record).splitlines()
    assert what.startswith("achieved 0.310 TFLOPS")
    assert evidence == (
        "evidence: compute 61.0%, exposed communication 20.0%, idle 19.0%; "
        "top ops: aten::mm 1.200 ms (40.0%)"
    )
    assert look.endswith("gpuperf analyze out/rank0.json.gz and 1 more")


def test_hard_verdicts_come_before_soft_ones_in_a_failure() -> None:
    soft = _judgement(verdict="UNMEASURED", value=None, reason="no counter")
    text = failure_text({"verdict": "FAIL", "limits": [soft, _judgement()]})
    assert "no counter" not in text
    assert "achieved 0.310" in text


def test_a_change_to_the_better_is_not_called_worse() -> None:
    judgement = _judgement(
        metric="step_time", direction="regression", limit=0.03, verdict="AMBIGUOUS",
        value=-0.088, interval=[-0.439, 0.481], unit="us", reason="1 saved run",
    )  # fmt: skip
    assert limit_text(judgement) == (
        "AMBIGUOUS step time 8.80% better (95% CI −43.9% to +48.1%, + is worse) "
        "than the baseline, 3% allowed: 1 saved run"
    )
    judgement |= {"verdict": "FAIL", "value": 0.174, "interval": None, "reason": ""}
    assert limit_text(judgement) == "step time +17.4% worse than the baseline, 3% allowed"


def test_what_could_not_be_compared_says_why_and_sends_nobody_to_a_trace() -> None:
    missing = _judgement(
        text="exact flops", metric="flops", verdict="NO-BASELINE", value=None, limit=None,
        reason="no baseline is stored here",
    )  # fmt: skip
    evidence = {"compute": 0.5, "idle": 0.5}
    record = {"limits": [missing], "evidence": evidence, "traces": ["t.json"]}
    assert failure_text(record) == "NO-BASELINE exact flops: no baseline is stored here"
    record["limits"] = [missing, _judgement(verdict="AMBIGUOUS")]
    assert "t.json" in failure_text(record)


def test_a_result_without_limits_shows_why_it_failed() -> None:
    text = failure_text({"verdict": "INVALID", "limits": [], "failure": "rank 1 was killed"})
    assert text.splitlines()[0] == "INVALID rank 1 was killed"


def test_a_hostile_op_name_is_harmless_in_the_evidence() -> None:
    op = {"name": "\x1b[31m" + "x" * 100_000, "time_us": 1.0, "share": None}
    text = evidence_text({"top_ops": [op]})
    assert text.isprintable()
    assert len(text) < 100


def test_no_evidence_is_no_line() -> None:
    assert evidence_text({}) == ""
    assert len(failure_text({"verdict": "FAIL", "limits": [_judgement()]}).splitlines()) == 2


def test_a_count_on_a_cpu_says_what_was_counted() -> None:
    judgement = _judgement(
        metric="kernel_launches", unit="count", direction="max", value=31, limit=4, interval=None
    )
    said = limit_text(judgement, on_cpu=True)
    assert said == "kernel launches (op calls on a CPU) 31 > 4 allowed"
    assert limit_text(judgement) == "kernel launches 31 > 4 allowed"
