"""What was wrong with a file and what it cost, gathered while reading."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuperf_analyzers.metrics import BUILTIN, TELEMETRY
from gpuperf_analyzers.trace.model import Finding, TraceError

FROM_EVENTS = frozenset(m.name for m in BUILTIN) - TELEMETRY
"""Metrics that need every event of the trace."""

_MESSAGES = {
    "truncated": "the file is cut off: every whole event before was read",
    "damaged-container": "the compressed stream is damaged: every whole event before was read",
    "events-lost": "{count} broken events were left out",
    "too-damaged": "reading stopped where more was broken than whole",
    "repaired": "{count} places of invalid JSON were mended",
    "metadata-lost": "{count} top-level entries could not be read",
    "trailing-data": "more text follows the end of the document and was not read",
}
_INVALIDATES = {
    "truncated": FROM_EVENTS,
    "damaged-container": FROM_EVENTS,
    "events-lost": FROM_EVENTS,
    "too-damaged": FROM_EVENTS,
}


@dataclass(slots=True)
class _Tally:
    count: int = 0
    example: str = ""


@dataclass(slots=True)
class Damage:
    """The tally of one file; with ``salvage=False`` the first entry raises."""

    path: str
    salvage: bool
    tallies: dict[str, _Tally] = field(default_factory=dict)

    def note(self, code: str, reason: str, *, at: int | None = None, count: int = 1) -> None:
        """Count `reason`; the first of each code is kept as its example.

        Raises
        ------
        TraceError
            Salvage was turned off.
        """
        example = reason if at is None else f"byte {at}: {reason}"
        if not self.salvage:
            raise TraceError(
                f"{self.path}: {example}: read it with salvage to use what is whole, "
                "or record it again"
            )
        tally = self.tallies.setdefault(code, _Tally(example=example))
        tally.count += count

    def count(self, code: str) -> int:
        """How often `code` was noted."""
        tally = self.tallies.get(code)
        return tally.count if tally else 0

    def findings(self, whole_events: int) -> list[Finding]:
        """One finding a code, each naming the first place and its reason."""
        return [
            Finding(
                code=code,
                message=(
                    f"{_MESSAGES[code].format(count=tally.count)} "
                    f"({tally.example}; {whole_events} whole events)"
                ),
                count=tally.count,
                example=tally.example,
                invalidates=_INVALIDATES.get(code, frozenset()),
            )
            for code, tally in self.tallies.items()
        ]
