"""The paragraph of a trace, and of a set of ranks."""

from __future__ import annotations

from collections.abc import Sequence

from gpuperf_analyzers.outliers import OutliersResult
from gpuperf_analyzers.stragglers import COLLECTIVES, EARLIER, RankLateness, StragglersResult
from gpuperf_analyzers.summary.device import (
    other_sentences,
    part_words,
    parts_in_words,
    time_sentences,
)
from gpuperf_analyzers.summary.sentence import (
    NO_CAUSE,
    NOTHING,
    Answered,
    Evidence,
    Sentence,
    Subject,
    Summary,
    Trusted,
    percent,
    time,
)
from gpuperf_analyzers.thresholds import Thresholds
from gpuperf_analyzers.trace.model import Finding

_TIMES = frozenset({"busy", "idle", "compute_time", "exposed_comm"})
"""Metrics that say where time goes: where one is invalid, so is every sentence about it."""

_CAVEATS = {
    "stack-recording": "Python stacks were recorded, which slows the host: part of its time may "
    "be the profiler's.",
}
"""Findings that forbid to judge times by a limit, but still leave a cause to be seen."""


def summarize_trace(
    devices: Sequence[Answered],
    findings: Sequence[Finding],
    limits: Thresholds,
    *,
    nothing: str = "",
    whose: str = "",
) -> Summary:
    """The paragraph of one trace.

    Parameters
    ----------
    devices
        Each device with its results.
    findings
        What was seen of the trace's trustworthiness: a value that one makes invalid is in no
        sentence.
    limits
        When something is worth a sentence.
    nothing
        Why there is no device, where there is none.
    whose
        ``Rank 3``, for the begin of sentences; "" for an only trace.
    """
    if not devices:
        begin = f"{whose}: nothing" if whose else "Nothing"
        return Summary((Sentence(NOTHING, f"{begin} to say: {nothing}."),))
    bad = [f for f in findings if f.invalidates & _TIMES and f.code not in _CAVEATS]
    if bad:
        begin = f"{whose}: where" if whose else "Where"
        why = f"{bad[0].message} ({bad[0].code})"
        return Summary((Sentence(NOTHING, f"{begin} the time went cannot be told: {why}."),))
    invalid = frozenset().union(*(f.invalidates for f in findings if f.code not in _CAVEATS))
    several = len(devices) > 1
    made = []
    for device in devices:
        kept = {name: v for name, v in device.values.items() if name not in invalid}
        trusted = Trusted(device.device, device.results, kept)
        made += _of_device(trusted, _subject(device, whose, several), limits)
    for code in dict.fromkeys(f.code for f in findings if f.code in _CAVEATS):
        made.append(Sentence(code, _CAVEATS[code]))
    return Summary(tuple(made))


def _of_device(device: Answered, who: Subject, limits: Thresholds) -> list[Sentence]:
    sentences = [*time_sentences(device, who, limits), *other_sentences(device, who, limits)]
    if sentences:
        return sentences
    text, evidence = parts_in_words(device.results["outliers"])
    text = f"No clear cause: of {who.of} {text or 'nothing is left'}; nothing stands out."
    return [Sentence(NO_CAUSE, text, evidence)]


def _subject(device: Answered, whose: str, several: bool) -> Subject:
    found: OutliersResult = device.results["outliers"]
    cpu = device.device == "cpu"
    name = "CPU" if cpu else f"GPU {device.device}" if several else "GPU"
    owner = f"{whose}'s {name}" if whose else name if several else f"The {name}"
    return Subject(owner, "the step" if found.stepped else "the window", cpu)


def summarize_set(
    ranks: Sequence[tuple[int | None, Summary]],
    stragglers: StragglersResult | None,
    shown: int,
) -> Summary:
    """The paragraph of a set: who is late, then what the rank that decides does with its time.

    Parameters
    ----------
    ranks
        Each rank's number and its own paragraph.
    stragglers
        Who is late, None for an only rank.
    shown
        Index of the rank whose paragraph stands for the set where none is late.
    """
    lead: list[Sentence] = []
    if stragglers is not None and stragglers.straggler is not None:
        late = stragglers.of(stragglers.straggler)
        lead.append(_late(stragglers, late))
        shown = next((i for i, (r, _) in enumerate(ranks) if r == late.rank), shown)
    chosen = ranks[shown][1] if ranks else Summary(())
    if lead and chosen.cause == NO_CAUSE:
        return Summary(tuple(lead))
    return Summary((*lead, *chosen.sentences))


def _late(found: StragglersResult, late: RankLateness) -> Sentence:
    evidence = [
        Evidence("straggler_lateness", late.late_us, "us"),
        Evidence("lateness / step", late.share, "fraction"),
    ]
    worst = max(late.by_step_us)
    us, share = (
        (late.late_us, late.share)
        if found.late_steps * 2 > len(found.steps)
        else (worst, worst / found.step_us if found.step_us else 0.0)
    )
    if found.basis == COLLECTIVES:
        text = f"Rank {late.rank} keeps the others waiting: it comes {time(us)} "
        text += f"({percent(share)} of the step) after the median of the others to the collectives"
        evidence.append(Evidence("last of all ranks", float(late.last), "count"))
        if found.collectives > 1:
            text += f", last in {late.last} of {found.collectives}"
    else:
        text = f"Rank {late.rank} is slower: its step takes {time(us)} "
        text += f"({percent(share)}) longer than the others'"
    text += _when(found)
    if late.grown:
        reason, more = late.grown[0]
        steps = len(found.steps)
        when = f"over the {steps} steps" if steps > 1 else "in that time"
        evidence.append(Evidence(reason, more, "us"))
        text += (
            "; it was late already at its first activity in the trace"
            if reason == EARLIER
            else f"; {when} it has {time(more)} more {part_words(reason)}"
        )
    return Sentence("straggler", text + ".", tuple(evidence), late.share)


def _when(found: StragglersResult) -> str:
    if len(found.steps) < 2:
        return ""
    if found.late_steps == len(found.steps):
        return ", in every step"
    if found.since and found.late_steps > 1:
        return f", in every step since #{found.since.partition('#')[2]}"
    return f", in {found.late_steps} of {len(found.steps)} steps"
