"""The baseline file as text: sorted, a line a fact, so that a change can be read in a review.

What comes from a file is not trusted: it may be half written, merged by hand, of another program
or of a newer version, and each of these is said in one line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from pytest_gpuperf.baselines.model import Baseline, CountSince, Entry, Name, SampledIn, SavedRun

SCHEMA = 1
# 1: first version.

_FORMAT = "pytest-gpuperf baselines"
_CONFLICT = ("<<<<<<<", "=======", ">>>>>>>")
_WIDE = 100


class BaselineError(Exception):
    """A baseline file that cannot be used: one line that names it, and the mend."""


def dumps(key: Mapping[str, str], baselines: Mapping[str, Baseline]) -> str:
    """The file's text."""
    named = sorted(baselines.items())
    document = {
        "format": _FORMAT,
        "schema": SCHEMA,
        "environment": dict(sorted(key.items())),
        "baselines": {name: _baseline_json(baseline) for name, baseline in named},
        # Last, since nobody reads them: one line a test.
        "op_tables": {name: _ops_json(baseline) for name, baseline in named},
    }
    return _text(document, 0) + "\n"


def opened(text: str | bytes, path: object) -> dict[str, Any]:
    """A file's text as plain JSON types, of any schema.

    Raises
    ------
    BaselineError
        It is no baseline file, cut short, or holds the marks of a merge.
    """
    import msgspec

    def refuse(why: str) -> NoReturn:
        raise BaselineError(f"gpuperf: {path}: {why}") from None

    try:
        raw = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        content = text if isinstance(text, str) else text.decode("utf-8", "replace")
        if any(line.startswith(_CONFLICT) for line in content.splitlines()):
            refuse("holds the marks of a merge conflict: take one side, then save anew")
        what = "is empty" if not content.strip() else f"is no JSON or cut short ({error})"
        refuse(f"{what}: restore it from version control, or delete it and save anew")
    if not isinstance(raw, dict) or raw.get("format") != _FORMAT:
        refuse(f"is not a file of {_FORMAT}")
    return raw


def loads(text: str | bytes, path: object) -> tuple[dict[str, str], dict[str, Baseline]]:
    """Key and baselines of a file's text.

    Raises
    ------
    BaselineError
        It is no baseline file, of a newer schema, damaged, or holds the marks of a merge.
    """

    def refuse(why: str) -> NoReturn:
        raise BaselineError(f"gpuperf: {path}: {why}") from None

    raw = opened(text, path)
    schema = raw.get("schema")
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        refuse("has no schema number")
    if schema > SCHEMA:
        refuse(f"is of schema {schema}, this version reads {SCHEMA}: update pytest-gpuperf")
    try:
        key = {_text_of(k): _text_of(v) for k, v in raw["environment"].items()}
        tables = raw.get("op_tables") or {}
        return key, {
            _text_of(name): _baseline(found, tables.get(name) or {})
            for name, found in raw["baselines"].items()
        }
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        refuse(f"is damaged ({type(error).__name__}: {error}): restore it, or delete it")


def _baseline_json(baseline: Baseline) -> dict[str, Any]:
    tests: dict[str, dict[str, Any]] = {}
    for (test, name), entry in sorted(baseline.entries.items()):
        tests.setdefault(test, {})[name] = _entry_json(entry)
    runs = {
        str(r.number): {"at": r.at, "commit": r.commit, "others": dict(sorted(r.others.items()))}
        for r in baseline.runs
    }
    return {"runs": runs, "tests": tests}


def _entry_json(entry: Entry) -> dict[str, Any]:
    found: dict[str, Any] = {
        "runs": list(entry.runs),
        "conditions": dict(sorted(entry.conditions.items())),
        "counts": {
            metric: [_count_json(c) for c in since]
            for metric, since in sorted(entry.counts.items())
        },
        "sampled": {
            metric: [[s.run, _short(s.value), _short(s.best_tenth), s.n] for s in several]
            for metric, several in sorted(entry.sampled.items())
        },
    }
    if entry.alongside:
        found["alongside"] = {k: _short(v) for k, v in sorted(entry.alongside.items())}
    if entry.disturbed:
        found["disturbed"] = {str(run): text for run, text in sorted(entry.disturbed.items())}
    return found


def _count_json(count: CountSince) -> list[Any]:
    """``[run, value]`` where it is exact, ``[run, low, high]`` elsewhere."""
    low, high = _whole(count.low), _whole(count.high)
    return [count.run, low] if count.exact else [count.run, low, high]


def _ops_json(baseline: Baseline) -> dict[str, Any]:
    tests: dict[str, dict[str, Any]] = {}
    for (test, name), entry in sorted(baseline.entries.items()):
        if entry.ops is not None:
            tests.setdefault(test, {})[name] = _Line(entry.ops)
    return tests


def _short(value: float | None) -> float | None:
    """Seven digits: more than any clock has, fewer than a line has room for."""
    return None if value is None else float(f"{value:.7g}")


def _whole(value: float) -> float:
    return int(value) if float(value).is_integer() else value


class _Line:
    """A value that stands in one line, however long."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _text(value: Any, depth: int) -> str:
    """JSON with a line an entry; what is flat and short stands in one line."""
    if isinstance(value, _Line):
        return json.dumps(value.value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    if not value:
        return "{}"
    if depth > 1 and not any(isinstance(v, (dict, list, _Line)) for v in value.values()):
        line = json.dumps(value, ensure_ascii=False, allow_nan=False)
        if len(line) <= _WIDE:
            return line
    pad = " " * (depth + 1)
    lines = (
        f"{pad}{json.dumps(k, ensure_ascii=False)}: {_text(v, depth + 1)}" for k, v in value.items()
    )
    return "{\n" + ",\n".join(lines) + "\n" + " " * depth + "}"


def _baseline(raw: Mapping[str, Any], tables: Mapping[str, Any]) -> Baseline:
    runs = tuple(
        SavedRun(
            int(number), _text_of(run["at"]), _text_of(run["commit"]),
            {_text_of(k): _text_of(v) for k, v in run["others"].items()},
        )
        for number, run in raw["runs"].items()
    )  # fmt: skip
    entries: dict[Name, Entry] = {}
    for test, named in raw["tests"].items():
        for name, entry in named.items():
            ops = (tables.get(test) or {}).get(name)
            entries[(_text_of(test), _text_of(name))] = _entry(entry, ops)
    return Baseline(tuple(sorted(runs, key=lambda r: r.number)), entries)


def _entry(raw: Mapping[str, Any], ops: Mapping[str, Any] | None) -> Entry:
    runs = tuple(_number(run) for run in raw["runs"])
    if not runs:
        raise ValueError("a measurement without a run")
    return Entry(
        runs=runs,
        conditions={_text_of(k): _text_of(v) for k, v in raw["conditions"].items()},
        counts={m: tuple(_count(c) for c in since) for m, since in raw["counts"].items()},
        sampled={m: tuple(_sample(s) for s in several) for m, several in raw["sampled"].items()},
        alongside={m: _float(v) for m, v in raw.get("alongside", {}).items()},
        disturbed={int(r): _text_of(text) for r, text in raw.get("disturbed", {}).items()},
        ops=ops,
    )


def _count(raw: list[Any]) -> CountSince:
    if len(raw) == 2:
        return CountSince(_number(raw[0]), _float(raw[1]), _float(raw[1]), exact=True)
    run, low, high = raw
    return CountSince(_number(run), _float(low), _float(high), exact=False)


def _sample(raw: list[Any]) -> SampledIn:
    run, value, tenth, n = raw
    return SampledIn(
        _number(run), _float(value), None if tenth is None else _float(tenth), _number(n)
    )


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r:.40} is not a whole number")
    return value


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r:.40} is not a number")
    return float(value)


def _text_of(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not a text")
    return value
