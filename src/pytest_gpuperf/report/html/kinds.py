"""JSON of other gpuperf commands on a page: recognised by its fields, never by the file's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_gpuperf.report.html.blocks import Section, Subject, words
from pytest_gpuperf.report.html.estimate_page import estimate_sections
from pytest_gpuperf.report.html.foreign_page import foreign_sections
from pytest_gpuperf.report.html.history_page import history_sections
from pytest_gpuperf.report.html.result_pages import (
    bucket_sections,
    collective_sections,
    mamf_sections,
    plain_sections,
)
from pytest_gpuperf.report.html.sweep_page import sweep_sections

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """One command's result: its title, the fields that tell it, and what it is shown as."""

    title: str
    fields: frozenset[str]
    sections: Callable[[Document], Sequence[Section]]


KINDS = (
    Kind("Sweep", frozenset({"kind", "axes", "results"}), sweep_sections),
    Kind(
        "File of another tool",
        frozenset({"kind", "device_type", "parts", "tables", "findings"}),
        foreign_sections,
    ),
    Kind("Maximum matmul FLOPS", frozenset({"grid", "shapes", "best", "dtype"}), mamf_sections),
    Kind("History", frozenset({"series"}), history_sections),
    Kind("DDP bucket sizes", frozenset({"rows", "fastest_bucket_cap_mb"}), bucket_sections),
    Kind("Collectives", frozenset({"rows", "mean_busbw_gb_s"}), collective_sections),
    Kind("Estimate", frozenset({"models"}), estimate_sections),
    Kind("Estimate", frozenset({"layouts", "formulas"}), estimate_sections),
)
_LAST = Kind("Result", frozenset(), plain_sections)


def kind_of(document: Document) -> Kind | None:
    """The kind of `document`; None where nothing says that it is a result of ours.

    A result whose fields are not known here, but which has a ``schema`` or a table of rows, is
    shown as its tables.
    """
    for kind in KINDS:
        if kind.fields <= document.keys():
            return kind
    if "traceEvents" in document:
        return None
    tables = any(_is_table(value) for value in document.values())
    return _LAST if tables and ("schema" in document or "rows" in document) else None


def is_report(document: Document) -> bool:
    """Whether `document` is a ``report.json``: a sweep has results and a schema too."""
    known = any(kind.fields <= document.keys() for kind in KINDS)
    return "results" in document and not known


def subject_of(document: Document, kind: Kind, anchor: str, name: str) -> Subject:
    """The subject that `document` of `kind` is."""
    device = document.get("device") or document.get("device_name") or ""
    head = [words(device, 80), words(document.get("dtype") or "", 20), words(name, 200)]
    return Subject(
        anchor,
        kind.title,
        head=", ".join(p for p in head if p),
        sections=tuple(kind.sections(document)),
    )


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) for v in value)
