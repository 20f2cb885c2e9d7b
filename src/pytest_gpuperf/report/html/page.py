"""One page from its parts: the template, the style and the scripts inside, and a strict policy.

The page loads nothing: its Content-Security-Policy allows the one script and the one style sheet
in it, each by its SHA-256, and nothing else from anywhere. Data stands in a block that is no
script. Names cannot run: the template escapes them, and if it did not, the policy would.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from gpuperf_analyzers import __version__
from pytest_gpuperf.report.html.blocks import Plot, Section, Subject, Table, Text
from pytest_gpuperf.report.html.embed import script_json
from pytest_gpuperf.report.html.sections.limits import badge
from pytest_gpuperf.report.json_report import write_whole

if TYPE_CHECKING:
    from jinja2 import Environment

_SCRIPTS = (
    "uPlot.iife.min.js",
    "data.js",
    "tables.js",
    "tips.js",
    "plots.js",
    "timeline.js",
    "page.js",
)
_LICENCE = "uPlot.LICENSE"
"""Stands in the page above the code that it is of, for a page is a copy of it."""
_STYLES = ("uPlot.min.css", "page.css")


@dataclass(frozen=True, slots=True)
class Page:
    """What stands on one page.

    Attributes
    ----------
    title, created
        Of the page.
    facts
        Pairs of name and value on the environment.
    overview
        Blocks on top: the table of all tests, what was not measured.
    subjects
        What each has a page of its own within the page.
    definitions
        Metric to title, unit, formula, source.
    """

    title: str
    created: str
    facts: tuple[tuple[str, str], ...]
    overview: tuple[Table | Text, ...]
    subjects: tuple[Subject, ...]
    definitions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    counts: tuple[tuple[str, int], ...] = ()


def write_page(page: Page, path: Path) -> Path:
    """Write the page to `path`, whole or not at all, and return it.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    write_whole(path, page_html(page))
    return path


def page_html(page: Page) -> str:
    """The page as one HTML document."""
    licence = (files(__package__) / "static" / _LICENCE).read_text(encoding="utf-8")
    script, style = f"/*\n{licence}\n*/\n{_joined(_SCRIPTS)}", _joined(_STYLES)
    plots: dict[str, Any] = {}
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            version=__version__,
            policy=policy(script, style),
            script=Markup(script),  # noqa: S704 - our own files
            style=Markup(style),  # noqa: S704 - our own files
            badge=badge,
            keep=_keeper(plots),
            data=lambda: script_json({"plots": plots, "definitions": dict(page.definitions)}),
        )
    )


def _keeper(plots: dict[str, Any]) -> Any:
    """Takes each plot's data as the template comes to it, and gives the id that the page has."""

    def keep(plot: Plot) -> str:
        key = f"p{len(plots)}"
        plots[key] = {"kind": plot.kind, "title": plot.title, **plot.spec}
        return key

    return keep


def policy(script: str, style: str) -> str:
    """The Content-Security-Policy of a page with this script and this style sheet."""
    return (
        f"default-src 'none'; script-src '{_sha256(script)}'; style-src '{_sha256(style)}'; "
        "img-src data:; font-src data:; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _sha256(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _joined(names: Sequence[str]) -> str:
    folder = files(__package__) / "static"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.tests["table"] = lambda block: isinstance(block, Table)
    made.tests["text"] = lambda block: isinstance(block, Text)
    made.tests["plot"] = lambda block: isinstance(block, Plot)
    made.tests["section"] = lambda block: isinstance(block, Section)
    return made
