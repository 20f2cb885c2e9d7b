"""What a summary is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gpuperf_analyzers.display import short_names, show
from gpuperf_analyzers.metrics import Value
from gpuperf_analyzers.trace.classify import Device

NO_CAUSE = "no-clear-cause"
"""Code of the sentence that says that no threshold is passed."""

NOTHING = "nothing-to-analyze"
"""Code of the sentence about a trace without a device, or one that must not be judged."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One value behind a sentence: a metric by its name, or what else was measured, in words."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence. ``code`` is stable; ``share`` is of the step, 0 where it is not about one."""

    code: str
    text: str
    evidence: tuple[Evidence, ...] = ()
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Summary:
    """The paragraph."""

    sentences: tuple[Sentence, ...]

    @property
    def text(self) -> str:
        """All sentences."""
        return " ".join(sentence.text for sentence in self.sentences)

    @property
    def cause(self) -> str:
        """Code of the first sentence."""
        return self.sentences[0].code if self.sentences else NO_CAUSE

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "text": self.text,
            "cause": self.cause,
            "sentences": [
                {
                    "code": s.code,
                    "text": s.text,
                    "evidence": [
                        {"name": e.name, "value": e.value, "unit": e.unit} for e in s.evidence
                    ],
                }
                for s in self.sentences
            ],
        }


class Answered(Protocol):
    """One device with the questions' results and values."""

    @property
    def device(self) -> Device:
        """Which."""
        ...

    @property
    def results(self) -> Mapping[str, Any]:
        """Each question's result by its name."""
        ...

    @property
    def values(self) -> Mapping[str, Value]:
        """What they say of the metrics."""
        ...


@dataclass(frozen=True, slots=True)
class Trusted:
    """A device without the values that must not be judged."""

    device: Device
    results: Mapping[str, Any]
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Subject:
    """Who a sentence is about, and what shares are of.

    ``name`` begins a sentence (``Rank 3's GPU``); ``of`` is ``the step`` or ``the window``.
    """

    name: str
    of: str
    cpu: bool


def percent(share: float) -> str:
    """``31%``, ``4.5%``; the ends as a person says them: ``under 1%``, ``over 99%``, ``all``."""
    if 0 < share < 0.01:
        return "under 1%"
    if 0.995 <= share < 1:
        return "over 99%"
    return show(share, "fraction", digits=2 if share < 0.995 else 3)


def named(name: str, width: int = 56) -> str:
    """A kernel, op or call as a sentence names it."""
    return " ".join(short_names([name], width)[0].split())


def time(us: float) -> str:
    """``4.8 ms``."""
    return show(us, "us", digits=3)


def value_of(device: Answered, name: str) -> float | None:
    """A metric's value; None where it is absent."""
    value = device.values.get(name)
    return None if value is None else value.value
