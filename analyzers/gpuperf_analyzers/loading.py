"""``report.json`` as tables: a row a result, value, limit, sample, finding.

Needs pandas alone, so that a notebook without torch or pytest reads what CI wrote.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

NEWEST = 1
"""The newest schema that is read."""
LARGEST = 512 << 20
"""Bytes of a report that is read."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadedReport:
    """A report as tables; ``test`` and ``name`` say in each which measurement a row is of.

    Attributes
    ----------
    document
        The file's content as it is.
    results
        A row a measurement: verdict, device, ranks, timer, warm-up; a column a metric.
    values
        A row a measurement and metric: value, interval, n, unit, source, why absent.
    limits
        A row a limit: verdict, value, interval, limit, and ``distance``, the share of the limit
        that the value is on its good side (below 0: on the bad one; absent for a limit of 0).
    samples
        A row a sample, in the order taken: ``us``.
    findings
        A row a finding on the data's quality.
    """

    document: Mapping[str, Any]
    results: pd.DataFrame
    values: pd.DataFrame
    limits: pd.DataFrame
    samples: pd.DataFrame
    findings: pd.DataFrame

    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table by its name."""
        names = ("results", "values", "limits", "samples", "findings")
        return {name: getattr(self, name) for name in names}


def load_report(path: str | os.PathLike[str]) -> LoadedReport:
    """The report in `path`: a ``report.json``, or the folder of one.

    Raises
    ------
    OSError
        It cannot be read.
    ValueError
        It is no report, or one of a newer schema: one line that names the file.
    """
    target = Path(path)
    if target.is_dir():
        target /= "report.json"
    try:
        with target.open("rb") as file:
            content = file.read(LARGEST + 1)
        # What is cut at the most that is read is no JSON any more.
        document = json.loads(content[:LARGEST])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{target}: is no JSON report: {error}") from None
    known = isinstance(document, dict) and "kind" not in document  # a sweep's result has one
    if not known or not isinstance(document.get("results"), list):
        raise ValueError(f"{target}: is no report of pytest-gpuperf: it has no results")
    schema = document.get("schema")
    if not isinstance(schema, int) or schema > NEWEST:
        raise ValueError(f"{target}: has schema {schema}, newer than {NEWEST}: update gpuperf")
    try:
        return tabled(document)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{target}: is damaged: {error}".splitlines()[0]) from None


def tabled(document: Mapping[str, Any]) -> LoadedReport:
    """The content of a report as tables."""
    records = document["results"]
    return LoadedReport(
        document,
        _frame((_result(r) for r in records), ("test", "name", "verdict")),
        _frame(_values(records), ("test", "name", "metric", "value", "unit")),
        _frame(_limits(records), ("test", "name", "metric", "verdict", "distance")),
        _frame(_samples(records), ("test", "name", "index", "us")),
        _frame(_findings(records), ("test", "name", "code", "message")),
    )


def _frame(rows: Iterable[Mapping[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
    """`rows` as a table that has `columns` even where there are no rows."""
    import pandas as pd

    listed = [{key: _text(value) for key, value in row.items()} for row in rows]
    return pd.DataFrame(listed) if listed else pd.DataFrame(columns=pd.Index(columns))


def _text(value: Any) -> Any:
    """A text without lone surrogates, which a column of texts cannot hold; all else as it is."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value


def _of(record: Mapping[str, Any]) -> dict[str, Any]:
    return {"test": record.get("test", ""), "name": record.get("name", "")}


_KEPT = ("verdict", "device", "device_type", "world_size", "timer", "stop", "warmup_us",
         "first_call_us", "failure")  # fmt: skip


def _result(record: Mapping[str, Any]) -> dict[str, Any]:
    values = record.get("values") or {}
    return {
        **_of(record),
        **{key: record.get(key) for key in _KEPT},
        "samples": len(record.get("samples_us") or ()),
        **{name: entry.get("value") for name, entry in values.items()},
    }


def _bounds(entry: Mapping[str, Any]) -> dict[str, Any]:
    low, high = entry.get("interval") or (None, None)
    return {"interval_low": low, "interval_high": high}


def _values(records: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for record in records:
        for name, entry in (record.get("values") or {}).items():
            rest = {
                k: entry.get(k) for k in ("value", "unit", "n", "source", "absent_reason", "at")
            }
            yield {**_of(record), "metric": name, **rest, **_bounds(entry)}


def _limits(records: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for record in records:
        for limit in record.get("limits") or ():
            rest = {k: v for k, v in limit.items() if k != "interval"}
            yield {**_of(record), **rest, **_bounds(limit), "distance": _distance(limit)}


def _distance(limit: Mapping[str, Any]) -> float | None:
    value, bound = limit.get("value"), limit.get("limit")
    if value is None or not bound:
        return None
    room = value - bound if limit.get("direction") == "min" else bound - value
    return float(room / abs(bound))


def _samples(records: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for record in records:
        for index, us in enumerate(record.get("samples_us") or ()):
            yield {**_of(record), "index": index, "us": us}


def _findings(records: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for record in records:
        for finding in record.get("findings") or ():
            listed = ", ".join(finding.get("invalidates") or ())
            yield {**_of(record), **finding, "invalidates": listed}
