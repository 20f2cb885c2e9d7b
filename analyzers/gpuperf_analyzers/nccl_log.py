"""What NCCL chose for its collectives, from its own log.

A trace knows the kernel's name only, and NCCL links one kernel for several algorithms and
protocols. The log says what ran: set ``NCCL_DEBUG=INFO``, ``NCCL_DEBUG_SUBSYS=TUNING`` and
``NCCL_DEBUG_FILE``. RCCL writes the same lines.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from gpuperf_analyzers.collective_kinds import kind_of
from gpuperf_analyzers.collectives import Collective, CollectivesResult

SOURCE = "NCCL log"

# "AllReduce: 4194304 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}", and before 2.24
# "AllReduce: 4194304 Bytes -> Algo 1 proto 2 time 123.4", at first without the function's name.
_LINE = re.compile(
    r"(?:(?P<function>\w+): )?(?P<bytes>\d+) Bytes -> "
    r"Algo (?P<algorithm>\w+) proto (?P<protocol>\w+)"
)
_ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
_PROTOCOLS = ("ll", "ll128", "simple")
"""In the order of NCCL's own numbers."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What NCCL chose for a size, and how often the log says so.

    ``kind`` is "" in logs that do not name the function. ``bytes`` are as NCCL counts them: of an
    all-gather and a reduce-scatter one rank's share, or all of it, by its version.
    """

    kind: str
    bytes: int
    algorithm: str
    protocol: str
    count: int


def read_nccl_log(*paths: str | os.PathLike[str]) -> tuple[Choice, ...]:
    """The choices in the logs `paths`, by kind and size.

    Raises
    ------
    ValueError
        None of the files has such a line; says how to have them written.
    OSError
        A file cannot be read.
    """
    seen: Counter[tuple[str, int, str, str]] = Counter()
    for path in paths:
        with Path(path).open(encoding="utf-8", errors="replace") as lines:
            seen += _counted(lines)
    if not seen:
        named = ", ".join(str(Path(path)) for path in paths)
        raise ValueError(
            f"{named}: no line says what NCCL chose: set NCCL_DEBUG=INFO and "
            "NCCL_DEBUG_SUBSYS=TUNING"
        )
    return _sorted(seen)


def choices_of(lines: Iterable[str]) -> tuple[Choice, ...]:
    """The choices that `lines` of a log tell of, by kind and size; none where no line does."""
    return _sorted(_counted(lines))


def _counted(lines: Iterable[str]) -> Counter[tuple[str, int, str, str]]:
    return Counter(_choice(found) for line in lines if (found := _LINE.search(line)))


def _sorted(seen: Counter[tuple[str, int, str, str]]) -> tuple[Choice, ...]:
    return tuple(Choice(*key, count) for key, count in sorted(seen.items()))


def _choice(found: re.Match[str]) -> tuple[str, int, str, str]:
    kind = kind_of(found["function"]) if found["function"] else ""
    algorithm = _named(found["algorithm"], _ALGORITHMS)
    return kind, int(found["bytes"]), algorithm, _named(found["protocol"], _PROTOCOLS)


def _named(text: str, names: tuple[str, ...]) -> str:
    """NCCL's number or name as ours."""
    if text.isdigit():
        return names[int(text)] if int(text) < len(names) else f"unknown ({text})"
    return text.lower()


def with_choices(result: CollectivesResult, choices: Iterable[Choice]) -> CollectivesResult:
    """`result` with what the log says in place of the hints from kernel names.

    Where the log has several choices for a kind and size the hint stays: it cannot be told which
    of them a call had.
    """
    known: dict[tuple[str, int], set[tuple[str, str]]] = {}
    for choice in choices:
        known.setdefault((choice.kind, choice.bytes), set()).add(
            (choice.algorithm, choice.protocol)
        )
    return replace(result, calls=tuple(_told(call, known) for call in result.calls))


def _told(call: Collective, known: dict[tuple[str, int], set[tuple[str, str]]]) -> Collective:
    if call.bytes is None:
        return call
    sizes = [call.bytes]
    if call.kind in {"all_gather", "reduce_scatter"} and call.group_size:
        sizes.append(call.bytes // call.group_size)
    for kind in (call.kind, ""):
        for size in sizes:
            found = known.get((kind, size), set())
            if len(found) == 1:
                algorithm, protocol = next(iter(found))
                return replace(call, algorithm=algorithm, protocol=protocol, choice_source=SOURCE)
    return call
