"""Files of other tools on the command line: shown, and judged by the same limits as traces."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.limits import Judgement, Limit, judge, worst
from pytest_gpuperf.cli.inputs import USAGE, complain
from pytest_gpuperf.cli.json_output import print_json

if TYPE_CHECKING:
    from gpuperf_analyzers.foreign import Reading
    from gpuperf_analyzers.metrics import Metric


def which_are_foreign(paths: Sequence[str]) -> list[str]:
    """Those of `paths` that are files of a kind which another tool writes, by their content."""
    from gpuperf_analyzers.foreign import kind_of_file

    return [path for path in paths if _is_file(path) and kind_of_file(path)]


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # a name that no system has: who reads it says so
        return False


def read(path: str) -> Reading | None:
    """What the file says; None, after a line that says why it cannot be read."""
    from gpuperf_analyzers.foreign import ForeignError, read_foreign

    try:
        return read_foreign(path)
    except ForeignError as error:
        complain(str(error))
        return None


def report(paths: Sequence[str], *, top: int, as_json: bool) -> int:
    """Print what each of `paths` says: 0, or 2 where one of them cannot be read."""
    from gpuperf_analyzers.registry import load_metrics, plugin_manager

    metrics = load_metrics(plugin_manager())
    readings = [read(path) for path in paths]
    told = [reading for reading in readings if reading is not None]
    if as_json and told:
        documents = [reading.to_json(metrics) for reading in told]
        print_json(documents[0] if len(paths) == 1 else {"files": documents})
    elif told:
        from pytest_gpuperf.cli.views.foreign import print_reading

        for reading in told:
            print_reading(reading, metrics, top=top)
    return USAGE if len(told) < len(readings) else 0


def check(
    paths: Sequence[str],
    limits: Sequence[Limit],
    metrics: Mapping[str, Metric],
    *,
    strict: bool,
    as_json: bool,
) -> int:
    """Judge each of `paths`: 0 fine, 1 FAIL or INVALID, 2 where one of them cannot be read."""
    from pytest_gpuperf.cli.check import judgement_line

    status, documents = 0, []
    for path in paths:
        reading = read(path)
        if reading is None:
            status = USAGE
            continue
        judged = _judged(reading, limits, metrics)
        verdict = worst(j.verdict for j in judged)
        if verdict.fails(strict=strict):
            status = max(status, 1)
        if as_json:
            documents.append(_document(reading, judged, verdict.value))
            continue
        from pytest_gpuperf.cli.console import emit, make_console, words

        console = make_console()
        emit(console, words(f"{os.fspath(path)}: {reading.kind}", "bold"))
        for judgement in judged:
            emit(console, words(judgement_line(judgement), width=1000))
    if documents:
        print_json(documents[0] if len(paths) == 1 else {"files": documents})
    return status


def _judged(
    reading: Reading, limits: Sequence[Limit], metrics: Mapping[str, Metric]
) -> tuple[Judgement, ...]:
    return judge(
        reading.values(metrics),
        limits,
        device_name=reading.device_name,
        device_type=reading.device_type or "cuda",
        invalid=reading.invalid,
    )


def _document(reading: Reading, judged: Sequence[Judgement], verdict: str) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "file": reading.path,
        "kind": reading.kind,
        "device_name": reading.device_name,
        "limits": [
            {
                "text": j.text, "metric": j.metric, "direction": j.direction, "unit": j.unit,
                "limit": j.limit, "verdict": j.verdict.value, "value": j.value, "at": j.at,
                "reason": j.reason,
            }
            for j in judged
        ],
    }  # fmt: skip
