"""The report section of one test: every limit, every measured value, evidence, notes."""

from __future__ import annotations

from gpuperf_analyzers.display import counted, harmless, show, show_interval
from gpuperf_analyzers.failure_text import evidence_text, limit_text
from gpuperf_analyzers.metrics import BUILTIN
from pytest_gpuperf.report.columns import Record, notes_of, on_cpu
from pytest_gpuperf.report.sparks import can_be_shown, sparkline, split_bar

_STOPS = {
    "interval": " until the interval was narrow",
    "noise": " until the noise had settled",
    "max_time": " until max_time",
    "samples": " (as many as are taken)",
}
_UNITS = {metric.name: metric.unit for metric in BUILTIN}


def section_text(record: Record) -> str:
    """What was measured and judged in one test, as plain text of a line a fact."""
    lines = [_head(record)]
    for judgement in record.get("limits") or ():
        verdict = judgement["verdict"]
        said = limit_text(judgement, on_cpu=on_cpu(record)).removeprefix(f"{verdict} ")
        lines.append(f"  {verdict:<11} {said}")
    lines += [f"  {harmless(line, 300)}" for line in record.get("explained") or ()]
    lines += _values(record)
    evidence = evidence_text(record.get("evidence") or {})
    if evidence:
        lines.append(f"  evidence: {evidence}")
    lines += _drawn(record)
    lines += [f"  note: {note}" for note in notes_of(record)]
    lines += [f"  trace: {harmless(path, 400)}" for path in record.get("traces") or ()]
    return "\n".join(lines)


def _drawn(record: Record) -> list[str]:
    """The samples and the step's split in letters, where the output can show them."""
    if not can_be_shown():
        return []
    drawn = {
        "samples": sparkline([float(s) for s in record.get("samples_us") or ()], 48),
        "step": split_bar(record.get("evidence") or {}, 48),
    }
    return [f"  {name:<8} {text}".rstrip() for name, text in drawn.items() if text]


def _head(record: Record) -> str:
    parts = [str(record.get("verdict") or "measured, not judged")]
    if record.get("device"):
        parts.append(harmless(record["device"], 80))
    if (record.get("world_size") or 1) > 1:
        parts.append(f"{record['world_size']} ranks")
    samples = record.get("samples_us") or ()
    if samples:
        timer = f" by {record['timer']} clock" if record.get("timer") else ""
        stop = _STOPS.get(str(record.get("stop")), "")
        taken = counted(len(samples), "sample")
        parts.append(f"{taken}{timer}{stop} after {show(_warmup(record), 'us')} warm-up")
        if record.get("first_call_us"):
            parts.append(f"first call {show(float(record['first_call_us']), 'us')}")
    return "gpuperf: " + ", ".join(parts)


def _warmup(record: Record) -> float:
    return float(record.get("warmup_us") or 0.0)


def _values(record: Record) -> list[str]:
    lines = []
    for name, entry in (record.get("values") or {}).items():
        value, unit = entry.get("value"), entry.get("unit") or _UNITS.get(name, "")
        if not value:
            continue  # why a value is absent stands in the report; zeros would hide the others
        interval = entry.get("interval")
        sampled = f" (95% CI {show_interval(value, interval, unit)})" if interval else ""
        at = f" on {harmless(entry['at'], 60)}" if entry.get("at") else ""
        lines.append(f"  {name} = {show(value, unit)}{sampled}{at}")
    return lines
