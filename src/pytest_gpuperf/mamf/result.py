"""What a search found, as JSON and as text.

Rates are 2·M·N·K over a time: ``median`` over the median call, ``mean`` over the mean call,
``best`` over the fastest. The maximum is the greatest median: the fastest call of many is a
matter of luck, and nobody's workload is made of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from gpuperf_analyzers.display import counted
from gpuperf_analyzers.hardware import find_peak, peak_tflops
from gpuperf_analyzers.hookspecs import Peak
from pytest_gpuperf.mamf.ranges import Grid
from pytest_gpuperf.mamf.search import Effort, Search, Tried

SCHEMA = 1
# 1: first version.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Efficiency:
    """A rate against the dense peak of the device.

    Attributes
    ----------
    share
        Rate / peak; None where no peak is known.
    peak_tflops
        Dense TFLOPS by the device's datasheet, with fp32 accumulation.
    source
        Where the peak comes from, or why there is none.
    """

    share: float | None
    peak_tflops: float | None
    source: str


def efficiency(
    tflops: float, dtype: str, device: str, peaks: Iterable[Peak], *, sms: int | None = None
) -> Efficiency:
    """`tflops` over the dense peak of `device` for `dtype`.

    Parameters
    ----------
    tflops
        What was reached.
    dtype
        ``bf16``, …; products are accumulated in fp32, so that peak is taken.
    device
        The driver's name; ``cpu`` has no published peak.
    peaks
        Built-in and declared ones.
    sms
        Multiprocessors, which tell a partition from the whole.
    """
    if device == "cpu":
        return Efficiency(None, None, "no dense peak of a CPU is published")
    peak = find_peak(device, peaks, sms=sms)
    if peak is None:
        return Efficiency(
            None, None, f"no dense peak of {device!r} is known: declare one in devices.toml"
        )
    dense = peak_tflops(peak, dtype)
    if not dense:
        return Efficiency(None, None, f"no dense {dtype} peak of {device} is known")
    return Efficiency(tflops / dense, dense, peak.source)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A search as it stands at its end, or where it was ended.

    Attributes
    ----------
    search
        With every shape tried.
    grid, dtype, device, machine, environment
        What was searched, where.
    effort, seed, exhaustive
        How.
    timer, l2
        How a call was timed.
    stopped
        ``""`` where the search came to its end, ``interrupted`` or ``max-time`` else.
    spent_s
        Seconds spent on timing, those of earlier runs too.
    replayed
        Timings that an earlier run had made.
    failures
        Why shapes could not be run.
    notes
        Conditions, in words.
    disturbed
        Whether other processes took cores from all calls of the best shape, on a CPU.
    efficiency
        Of the best, against the dense peak.
    """

    search: Search
    grid: Grid
    dtype: str
    device: str
    machine: str
    environment: Mapping[str, str]
    effort: Effort
    seed: int
    exhaustive: bool
    timer: str
    l2: str
    stopped: str
    spent_s: float
    replayed: int
    failures: Mapping[tuple[int, int, int], str]
    efficiency: Efficiency
    notes: tuple[str, ...] = ()
    disturbed: bool = False


def rates(tried: Tried) -> dict[str, Any]:
    """Shape, calls and TFLOPS of one shape, of the calls of its latest stage."""
    m, n, k = tried.shape
    calls = tried.latest
    tera = tried.flop / 1e12
    return {
        "m": m, "n": n, "k": k, "calls": len(calls), "all_calls": len(tried.seconds),
        "median_tflops": tried.rate / 1e12,
        "mean_tflops": tera / fmean(calls), "best_tflops": tera / min(calls),
    }  # fmt: skip


def to_json(outcome: Outcome) -> dict[str, Any]:
    """The whole outcome in plain JSON types."""
    o, search = outcome, outcome.search
    ran = sorted((t for t in search.tried.values() if t.latest), key=lambda t: -t.rate)
    return {
        "schema": SCHEMA,
        "complete": not o.stopped,
        "stopped": o.stopped,
        "dtype": o.dtype,
        "device": o.device,
        "machine": o.machine,
        "environment": dict(o.environment),
        "grid": {
            "preset": o.grid.name, "m": o.grid.m, "n": o.grid.n, "k": o.grid.k,
            "shapes": len(o.grid), "reduced": "k", "changed": o.grid.changed,
        },
        "method": {
            "exhaustive": o.exhaustive, "seed": o.seed, "first_calls": o.effort.first,
            "last_calls": o.effort.last, "warmups_per_call": 0.5, "timer": o.timer, "l2": o.l2,
        },
        "effort": {
            "shapes_timed": len(search.tried), "shapes": len(o.grid),
            "share": len(search.tried) / len(o.grid), "timings": search.timings,
            "calls": search.calls, "timing_seconds": o.spent_s, "replayed": o.replayed,
        },
        "best": None if search.best is None else {**rates(search.best), **_interval(search.best)},
        "efficiency": o.efficiency.share,
        "dense_peak_tflops": o.efficiency.peak_tflops,
        "dense_peak_source": o.efficiency.source,
        "shapes": [rates(t) for t in ran],
        "failed": [{"shape": shape, "reason": why} for shape, why in o.failures.items()],
        "disturbed": o.disturbed,
        "notes": list(o.notes),
    }  # fmt: skip


def _interval(tried: Tried) -> dict[str, Any]:
    """The 95% interval of the rate by the median; None of too few calls."""
    from gpuperf_analyzers.stats import median_interval

    found = median_interval(tried.latest)
    tera = tried.flop / 1e12
    return {"interval_tflops": None if found is None else [tera / found[1], tera / found[0]]}


def to_text(outcome: Outcome) -> str:
    """The outcome in lines for a terminal or a file."""
    from gpuperf_analyzers.display import harmless, show, show_interval

    o, search = outcome, outcome.search
    of = "cpu, " + o.environment.get("cpu_model", "") if o.device == "cpu" else o.device
    versions = " ".join(
        f"{name} {o.environment[name]}" for name in ("torch", "cuda", "hip", "driver", "threads")
        if o.environment.get(name)
    )  # fmt: skip
    lines = [
        f"maximum achievable matmul FLOPS, {o.dtype} on {harmless(of)} ({harmless(versions)})",
        f"searched    {o.grid.words()}; (MxK)*(KxN), K is reduced",
    ]
    lines += [f"changed     {o.grid.changed}"] if o.grid.changed else []
    best = search.best
    if best is None:
        lines.append("best        none: no shape was timed")
    else:
        found = {**rates(best), **_interval(best)}
        bounds = found["interval_tflops"]
        shown = show(found["median_tflops"], "TFLOPS")
        ci = f", 95% CI {show_interval(found['median_tflops'], bounds, 'TFLOPS')}" if bounds else ""
        median = f"median of {counted(found['calls'], 'call')}{ci}"
        lines.append(
            f"best        {shown} at M={found['m']} N={found['n']} K={found['k']} ({median})"
        )
        others = (show(found[f"{x}_tflops"], "TFLOPS") for x in ("mean", "best"))
        lines.append("            mean {}, best call {}".format(*others))
    lines.append(_efficiency_line(o.efficiency))
    share = len(search.tried) / len(o.grid)
    shapes = counted(len(o.grid), "shape")
    lines.append(
        f"effort      {len(search.tried):,} of {shapes} timed ({share:.1%}), "
        f"{counted(search.timings, 'timing')}, {counted(search.calls, 'call')}, {o.spent_s:.1f} s"
        + (f"; {o.replayed:,} of the timings by the run that this one continued" * bool(o.replayed))
    )
    lines.append(
        f"calls       {o.effort.first} at first, {o.effort.last} of the last few; half as many "
        f"warm-ups; {o.timer} timer" + (f", L2 {o.l2}" if o.l2 else "")
    )
    lines += _stopped_line(o)
    if o.disturbed:
        lines.append("note        other processes took cores from every call of the best shape")
    lines += [f"note        {harmless(note, 300)}" for note in o.notes]
    if o.failures:
        (m, n, k), why = next(iter(o.failures.items()))
        failed = counted(len(o.failures), "shape")
        lines.append(f"failed      {failed}, such as {m}x{n}x{k}: {harmless(why, 200)}")
    return "\n".join(lines + _table(search)) + "\n"


def _efficiency_line(found: Efficiency) -> str:
    from gpuperf_analyzers.display import show

    if found.share is None or found.peak_tflops is None:
        return f"efficiency  not known: {found.source}"
    peak = show(found.peak_tflops, "TFLOPS")
    return f"efficiency  {show(found.share, 'fraction')} of {peak} dense ({found.source})"


def _stopped_line(o: Outcome) -> list[str]:
    if not o.stopped:
        return []
    why = {
        "interrupted": "interrupted",
        "max-time": "the time given was over, or too short for the next shape",
    }[o.stopped]
    left = o.search.planned - o.search.timings
    return [
        f"stopped     {why}, about {counted(left, 'timing')} before the end"
        + (": the best so far" if o.search.best else "")
    ]


def _table(search: Search) -> list[str]:
    """The best few shapes."""
    from gpuperf_analyzers.display import number

    ran = sorted((t for t in search.tried.values() if t.latest), key=lambda t: -t.rate)
    best = search.best
    ran = ([best] if best else []) + [t for t in ran if t is not best]
    lines = [
        "",
        f"{'M':>8}{'N':>8}{'K':>8}{'calls':>8}{'median':>12}{'mean':>12}{'best':>12}  TFLOPS",
    ]
    for tried in ran[:_SHOWN]:
        r = rates(tried)
        values = "".join(f"{number(r[f'{x}_tflops'], 4):>12}" for x in ("median", "mean", "best"))
        lines.append(f"{r['m']:>8}{r['n']:>8}{r['k']:>8}{r['calls']:>8}{values}")
    return lines if ran else []
