"""``NCCL_DEBUG=INFO`` logs: what NCCL (or RCCL) found, connected and chose, and its warnings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gpuperf_analyzers.foreign.model import Cell, ForeignError, Reading, Sheet
from gpuperf_analyzers.foreign.nccl_tests import untagged
from gpuperf_analyzers.nccl_log import Choice, choices_of
from gpuperf_analyzers.trace.model import Finding

KIND = "NCCL log"
_LINE = re.compile(
    r"(?P<host>[\w.\-]+):(?P<pid>\d+):\d+ \[(?P<device>-?\d+)\](?: [\w.:]+)? NCCL "
    r"(?P<level>INFO|WARN) (?P<text>.*)"
)
_WARN = re.compile(r"NCCL WARN (?P<text>.*)")
_VERSION = re.compile(r"\b[NR]CCL version\s*:?\s*(\S+)")
_NETWORK = re.compile(r"\bUsing network (\S+)")
_USING = re.compile(r"\b(NET/\w+) : Using (.*)")
_VIA = re.compile(r"\] (?:\[(?:send|receive)\] )?via ([A-Za-z0-9]+(?:/[A-Za-z]+)*)")
_CHANNELS = re.compile(r"(\d+) coll channels")
_INIT = re.compile(r"\bcomm \S+ rank (\d+) nranks (\d+) .*?Init COMPLETE")
_RING = re.compile(r"^Channel \d+/\d+ :(?:\s+\d+)+\s*$")
_TREES = re.compile(r"^Trees? ")
_MOST_WARNINGS = 20


@dataclass(slots=True)
class Log:
    """What the lines of one log say."""

    versions: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)
    world: int = 0
    networks: Counter[str] = field(default_factory=Counter)
    adapters: dict[str, None] = field(default_factory=dict)
    links: Counter[str] = field(default_factory=Counter)
    channels: Counter[int] = field(default_factory=Counter)
    rings: int = 0
    trees: int = 0
    warnings: Counter[str] = field(default_factory=Counter)
    no_infiniband: bool = False

    def add(self, line: str) -> None:
        """Take one line in."""
        version = _VERSION.search(line)
        if version:
            self.versions.add(version[1])
        warned = _WARN.search(line)
        if warned:
            self.warnings[warned["text"].strip()[:200]] += 1
        found = _LINE.search(line)
        if not found:
            return
        self.hosts.add(found["host"])
        self._add_text(found["text"])

    def _add_text(self, text: str) -> None:
        network, using, via = _NETWORK.search(text), _USING.search(text), _VIA.search(text)
        channels, init = _CHANNELS.search(text), _INIT.search(text)
        if network:
            self.networks[network[1]] += 1
        if using:
            self.adapters[f"{using[1]}: {using[2].strip()[:120]}"] = None
        if via:
            self.links[via[1]] += 1
        if channels:
            self.channels[int(channels[1])] += 1
        if init:
            self.ranks.add(int(init[1]))
            self.world = max(self.world, int(init[2]))
        self.rings += bool(_RING.match(text))
        self.trees += bool(_TREES.match(text))
        self.no_infiniband = self.no_infiniband or "NET/IB : No device found" in text

    @property
    def over_sockets(self) -> bool:
        """Whether a connection goes over sockets, or hosts have nothing else between them."""
        used = any(name.startswith("NET/Socket") for name in self.links)
        return used or (len(self.hosts) > 1 and set(self.networks) == {"Socket"})


def read_nccl_info(path: str, lines: Sequence[str]) -> Reading:
    """Version, ranks, network, links, channels and choices; warnings as findings.

    Raises
    ------
    ForeignError
        No line is NCCL's own.
    """
    log = Log()
    plain = [untagged(line) for line in lines]
    for line in plain:
        log.add(line)
    if not (log.hosts or log.versions or log.warnings):
        raise ForeignError(f"{path}: no line of NCCL: set NCCL_DEBUG=INFO and record it again")
    choices = choices_of(plain)
    sheets = (_facts(log), *_links(log), *_choices(choices))
    return Reading(path, KIND, device_type="", sheets=sheets, findings=tuple(_findings(log)))


def _facts(log: Log) -> Sheet:
    rows: list[tuple[Cell, ...]] = [
        ("version", ", ".join(sorted(log.versions)) or None),
        ("hosts", len(log.hosts)),
        ("ranks that finished set-up", len(log.ranks)),
        ("ranks of the largest communicator", log.world or None),
        ("network", ", ".join(name for name, _ in log.networks.most_common()) or None),
        *(("adapters", adapter) for adapter in list(log.adapters)[:8]),
        ("channels", ", ".join(str(n) for n, _ in log.channels.most_common(4)) or None),
        ("rings", log.rings),
        ("trees", log.trees),
    ]
    return Sheet("what NCCL found", ("fact", "value"), tuple(rows))


def _links(log: Log) -> Iterator[Sheet]:
    if log.links:
        rows = tuple((name, count) for name, count in log.links.most_common())
        yield Sheet("connections", ("transport", "lines"), rows)


def _choices(choices: Sequence[Choice]) -> Iterator[Sheet]:
    if choices:
        rows = tuple((c.kind, c.bytes, c.algorithm, c.protocol, c.count) for c in choices)
        titles = ("collective", "bytes", "algorithm", "protocol", "calls")
        yield Sheet("what NCCL chose", titles, rows)


def _findings(log: Log) -> Iterator[Finding]:
    if log.over_sockets:
        why = (
            "NCCL found no InfiniBand or RoCE device" if log.no_infiniband else "no faster network"
        )
        message = f"collectives go over sockets ({why}): see NCCL_IB_HCA and the network plugin"
        yield Finding("socket-network", message)
    for text, count in log.warnings.most_common(_MOST_WARNINGS):
        yield Finding("nccl-warning", f"NCCL warns: {text}", count, example=text)
    if log.world and len(log.ranks) < log.world and len(log.hosts) >= 1:
        missing = log.world - len(log.ranks)
        message = f"{missing} of {log.world} ranks have no end of their set-up in this log"
        yield Finding("missing-ranks", message, missing)
    if len(log.versions) > 1:
        told = ", ".join(sorted(log.versions))
        yield Finding("mixed-versions", f"processes of several NCCL versions: {told}")
