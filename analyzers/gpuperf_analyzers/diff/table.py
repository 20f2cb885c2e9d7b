"""The op table: what each op cost in each step, small enough to be kept instead of the trace.

A baseline carries one, so that a later regression can be explained when the trace is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["compute", "communication", "memory", "idle"]
KINDS: tuple[Kind, ...] = ("compute", "communication", "memory", "idle")
"""In the order in which they own a moment: what runs beside compute is compute's time."""

RowKey = tuple[tuple[str, ...], str, str]


@dataclass(frozen=True, slots=True)
class StepTime:
    """One step of one device: its name, where it ran (``rank 3``, "" for an only one), length."""

    name: str
    at: str
    ns: int


@dataclass(frozen=True, slots=True)
class Part:
    """One kernel (copy, collective, cause of idle time) of one op, over all steps.

    Attributes
    ----------
    kind
        What the time is: compute, exposed communication, exposed memory or idle.
    name
        The whole name of the kernel, copy or ``gloo:`` span; the cause of idle time; "" for an
        op's own time on a CPU.
    count
        Activities launched in the steps.
    bytes
        Copied or communicated, where the trace records it.
    ns
        Exclusive time in each step: every moment of a step is exactly one part's.
    """

    kind: Kind
    name: str
    count: int
    bytes: int
    ns: tuple[int, ...]

    @property
    def total_ns(self) -> int:
        """Exclusive time over all steps."""
        return sum(self.ns)


@dataclass(frozen=True, slots=True)
class OpRow:
    """One op at one place of the call tree with one set of shapes, over all steps.

    Attributes
    ----------
    path
        Names from the outermost op to this one. A kernel that no op is known to have launched is
        its own op, under its launch call in parentheses.
    shapes, dtypes
        Of the tensor arguments, "" where not recorded.
    calls
        Calls that launched or waited for something (on a CPU: all).
    launches
        Launch calls made directly in it (on a CPU: its calls).
    syncs
        Blocking calls made directly in it (on a CPU: ``aten::_local_scalar_dense`` calls).
    parts
        What it launched directly.
    """

    path: tuple[str, ...]
    shapes: str
    dtypes: str
    calls: int
    launches: int
    syncs: int
    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        """The op's own name."""
        return self.path[-1]

    @property
    def key(self) -> RowKey:
        """What tells it from every other row."""
        return (self.path, self.shapes, self.dtypes)

    @property
    def bytes(self) -> int:
        """Copied or communicated, where recorded."""
        return sum(p.bytes for p in self.parts)

    @property
    def total_ns(self) -> int:
        """Exclusive time over all steps."""
        return sum(p.total_ns for p in self.parts)


@dataclass(frozen=True, slots=True)
class OpTable:
    """What each op cost in each step of one device, or of all devices and ranks of a run.

    The exclusive times of a step, idle time included, add up to its length exactly; a table of
    which that is not true cannot be made.

    Attributes
    ----------
    device_name, device_type
        The driver's name and ``cuda``, or ``cpu`` twice.
    world_size
        Ranks of the job; None where not recorded.
    ranks
        Ranks that were read; empty where not recorded.
    stepped
        Whether ``steps`` are the job's steps; else each is a whole window.
    shapes_recorded
        Whether the trace has shapes.
    conditions
        What else changes times: versions, and what the profiler recorded besides.
    steps
        Every step of every device and rank.
    rows, idle
        Where the time went: ops, and the causes of idle time.

    Raises
    ------
    ValueError
        The parts of a step do not add up to its length.
    """

    device_name: str
    device_type: str
    world_size: int | None
    ranks: tuple[int, ...]
    stepped: bool
    shapes_recorded: bool
    steps: tuple[StepTime, ...]
    rows: tuple[OpRow, ...]
    idle: tuple[Part, ...]
    conditions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.steps:
            raise ValueError("an op table has at least one step")
        sums = [0] * len(self.steps)
        for part in self.parts():
            if len(part.ns) != len(sums):
                raise ValueError(f"a part of an op table has {len(part.ns)} times for "
                                 f"{len(sums)} steps")  # fmt: skip
            sums = [a + b for a, b in zip(sums, part.ns, strict=True)]
        for step, parts in zip(self.steps, sums, strict=True):
            if step.ns != parts:
                raise ValueError(f"{step.name}: the parts of an op table add up to {parts} ns, "
                                 f"not to the step's {step.ns} ns")  # fmt: skip

    def parts(self) -> Iterator[Part]:
        """Every part of every row, and the idle ones."""
        for row in self.rows:
            yield from row.parts
        yield from self.idle

    @property
    def mean_step_ns(self) -> Fraction:
        """Mean length of a step, ns: the sum of every part's mean, exactly."""
        return Fraction(sum(s.ns for s in self.steps), len(self.steps))

    def to_json(self) -> dict[str, Any]:
        """The table as plain JSON types; :meth:`from_json` reads them back."""
        from gpuperf_analyzers.diff.table_json import to_json

        return to_json(self)

    @staticmethod
    def from_json(raw: object) -> OpTable:
        """The table that :meth:`to_json` wrote.

        Raises
        ------
        ValueError
            It is none, of a newer schema, or its parts do not add up.
        """
        from gpuperf_analyzers.diff.table_json import from_json

        return from_json(raw)

    def to_frame(self) -> pd.DataFrame:
        """One row an op and part; times in µs a step (mean over steps)."""
        import pandas as pd

        n = len(self.steps)
        named = [(row, part) for row in self.rows for part in row.parts]
        idle = [(None, part) for part in self.idle]
        return pd.DataFrame(
            [
                {
                    "op": "" if row is None else row.name,
                    "path": "" if row is None else " > ".join(row.path),
                    "shapes": "" if row is None else row.shapes,
                    "dtypes": "" if row is None else row.dtypes,
                    "kind": part.kind,
                    "name": part.name,
                    "count": part.count / n,
                    "bytes": part.bytes / n,
                    "exclusive_us": part.total_ns / n / 1e3,
                }
                for row, part in (*named, *idle)
            ]
        )
