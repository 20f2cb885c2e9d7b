"""Tables of nccl-tests and rccl-tests (``all_reduce_perf`` and its siblings).

A run prints ``#`` lines, a header whose second line names the columns, one row a size with an
out-of-place and an in-place half, and closes with the average bus bandwidth and the out-of-bounds
count. One file may hold several runs, and every line a tag of mpirun before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from gpuperf_analyzers.foreign.model import ForeignError, Reading, Sheet
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.trace.model import Finding

_TAG = re.compile(r"^\s*\[\d+,\d+\](?:<std(?:out|err)>|<\w+>)?:\s?|^\s*\d+:\s(?=[#\s\d])")
_RUN = re.compile(r"^# nThread\b")
_DEVICE = re.compile(
    r"^#\s+Rank\s+\d+ .*?\bdevice\s+\d+\s+\[[0-9a-zA-Zx:. ]+\]\s+(?P<name>.+?)\s*$"
)
_TEST = re.compile(r"\b(\w+)_perf\b")
_AVERAGE = re.compile(r"^# Avg bus bandwidth\s*:\s*(\S+)")
_BOUNDS = re.compile(r"^# Out of bounds values\s*:\s*(\d+)\s*(\S*)")
_HALF = ("time", "algbw", "busbw")
_MIXED = "n/a"


@dataclass(frozen=True, slots=True)
class Row:
    """One size: bytes, what was reduced, and time in µs and bandwidths in GB/s (1e9) by half.

    ``wrong`` is the number of wrong elements, None where it was not checked.
    """

    bytes: int
    dtype: str
    op: str
    in_place: bool
    time_us: float
    algbw_gb_s: float
    busbw_gb_s: float
    wrong: int | None


@dataclass(slots=True)
class Run:
    """One run of one test."""

    name: str = ""
    rows: list[Row] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    average_gb_s: float | None = None
    out_of_bounds: int = 0
    errors: list[str] = field(default_factory=list)
    ended: bool = False


def untagged(line: str) -> str:
    """`line` without the tag that ``mpirun --tag-output`` or srun puts before it."""
    return _TAG.sub("", line)


def read_nccl_tests(path: str, lines: Sequence[str]) -> Reading:
    """The runs in `lines`; ``busbw`` is of the largest message, the worst of in and out of place.

    The average that the tool prints mixes the latency of small messages in; it is shown.

    Raises
    ------
    ForeignError
        There is no row of numbers.
    """
    runs = _runs(lines)
    if not any(run.rows for run in runs):
        raise ForeignError(f"{path}: a table of nccl-tests without a row: did the run fail?")
    parts: dict[str, dict[str, Value]] = {}
    sheets: list[Sheet] = []
    findings: list[Finding] = []
    for index, run in enumerate(runs):
        label = _label(run, index, runs)
        parts[label] = {"busbw": _busbw(run)}
        sheets.append(_sheet(label, run))
        findings += _findings(label, run)
    names = {device for run in runs for device in run.devices}
    return Reading(
        path, "nccl-tests", names.pop() if len(names) == 1 else "",
        parts=parts, sheets=tuple(sheets), findings=tuple(findings),
    )  # fmt: skip


def _runs(lines: Sequence[str]) -> list[Run]:
    runs: list[Run] = []
    columns: list[tuple[str, bool]] = []
    name = ""
    for raw in lines:
        line = untagged(raw)
        tests = _TEST.findall(line)
        if tests and not line.startswith("# Rank"):
            name = tests[-1]
        if _RUN.match(line) or (not runs and line.startswith("#")):
            if not runs or runs[-1].rows or runs[-1].ended:
                runs.append(Run())
            columns = []
        if not runs:
            continue
        run = runs[-1]
        run.name = run.name or name
        if line.startswith("#"):
            columns = _columns(line) or columns
            _comment(run, line)
        else:
            run.rows += _rows(line, columns)
            if re.search(r"Test (?:NCCL|CUDA|HIP|RCCL)? ?failure|NCCL WARN|unhandled", line):
                run.errors.append(" ".join(line.split())[:160])
    return [run for run in runs if run.rows or run.errors]


def _columns(line: str) -> list[tuple[str, bool]]:
    """Names of the columns of a header line, and whether each is of the in-place half."""
    words = line.lstrip("#").split()
    if "busbw" not in words or "size" not in words:
        return []
    seen: set[str] = set()
    found = []
    for word in words:
        # The second time, busbw, and so on are the in-place ones.
        found.append((word, word in seen))
        seen.add(word)
    return found


def _comment(run: Run, line: str) -> None:
    device = _DEVICE.match(line)
    if device:
        run.devices.append(device["name"])
    average = _AVERAGE.match(line)
    if average:
        run.ended = True
        try:
            run.average_gb_s = float(average[1])
        except ValueError:
            run.average_gb_s = None
    bounds = _BOUNDS.match(line)
    if bounds:
        run.out_of_bounds = int(bounds[1])


def _rows(line: str, columns: Sequence[tuple[str, bool]]) -> Iterator[Row]:
    """The out-of-place and in-place halves of a row of numbers; nothing where it is none."""
    words = line.split()
    if len(words) != len(columns) or not words or not words[0].isdigit():
        return
    by = dict(zip(columns, words, strict=True))
    for in_place in (False, True):
        try:
            time, algbw, busbw = (float(by[name, in_place]) for name in _HALF)
        except (KeyError, ValueError):
            continue  # N/A: the test has no such half
        wrong = by.get(("#wrong", in_place), by.get(("error", in_place), _MIXED))
        yield Row(
            int(words[0]), by.get(("type", False), ""), by.get(("redop", False), ""), in_place,
            time, algbw, busbw, int(float(wrong)) if _counts(wrong) else None,
        )  # fmt: skip


def _counts(text: str) -> bool:
    try:
        return float(text) >= 1 or float(text) == 0
    except ValueError:
        return False


def _label(run: Run, index: int, runs: Sequence[Run]) -> str:
    name = run.name or "run"
    same = [r for r in runs if r.name == run.name]
    return name if len(same) == 1 else f"{name} {index + 1}"


def _busbw(run: Run) -> Value:
    """Of the largest message: the median of repeats, the worse of in and out of place."""
    if not run.rows:
        return absent("busbw", f"the run failed: {run.errors[0]}")
    largest = max(row.bytes for row in run.rows)
    rows = [row for row in run.rows if row.bytes == largest]
    halves = {
        in_place: [row.busbw_gb_s for row in rows if row.in_place is in_place]
        for in_place in (False, True)
    }
    worst = min(median(values) for values in halves.values() if values)
    source = f"nccl-tests, {largest} bytes, the worse of in and out of place"
    return Value("busbw", worst, n=len(rows), source=source)


def _sheet(label: str, run: Run) -> Sheet:
    average = "" if run.average_gb_s is None else f", average busbw {run.average_gb_s:g} GB/s"
    return Sheet(
        f"{label}{average}",
        ("bytes", "type", "op", "place", "time us", "algbw GB/s", "busbw GB/s", "wrong"),
        tuple(
            (r.bytes, r.dtype, r.op, "in" if r.in_place else "out", r.time_us, r.algbw_gb_s,
             r.busbw_gb_s, r.wrong)
            for r in run.rows
        ),
    )  # fmt: skip


def _findings(label: str, run: Run) -> Iterator[Finding]:
    wrong = sum(row.wrong or 0 for row in run.rows)
    if run.out_of_bounds or wrong:
        count = run.out_of_bounds or wrong
        message = f"{label}: {count} wrong values: the collective's results are wrong"
        yield Finding("wrong-results", message, count, invalidates=frozenset({"busbw"}))
    if run.errors:
        yield Finding(
            "failed-run", f"{label}: the run failed ({run.errors[0]})", len(run.errors),
            invalidates=frozenset({"busbw"}),
        )  # fmt: skip
    elif not run.ended:
        message = f"{label}: the output ends before the average: the run was cut off"
        yield Finding("truncated", message, invalidates=frozenset({"busbw"}))
