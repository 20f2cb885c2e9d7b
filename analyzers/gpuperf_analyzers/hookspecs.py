"""What a plugin may add to the metrics, formulas, classifiers, peaks, analyzers and reports.

A package names a module under the entry-point group ``gpuperf``; a ``conftest.py`` may hold the
same functions. Each is decorated with :data:`hookimpl`::

    from gpuperf_analyzers.hookspecs import hookimpl, FlopFormula

    @hookimpl
    def gpuperf_flop_formulas():
        return [FlopFormula("mylib::scale_rows", lambda call: call.dims[0][0] * call.dims[0][1])]

Standard library and pluggy only: this module is imported at pytest's collection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pluggy

from gpuperf_analyzers.metrics import Metric

PROJECT = "gpuperf"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@dataclass(frozen=True, slots=True)
class OpCall:
    """One recorded op call as a FLOP formula sees it.

    ``dims`` holds one shape a positional input, ``()`` for a scalar or absent input; a list of
    tensors is a tuple of shapes. ``dtypes`` are the profiler's names (``float``,
    ``c10::BFloat16``), ``""`` where none. ``concrete`` are scalar arguments as the profiler
    prints them (``"[1, 1]"``, ``"False"``), ``""`` where none; empty when not recorded.
    """

    name: str
    dims: tuple[Any, ...]
    dtypes: tuple[str, ...] = ()
    concrete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FlopFormula:
    """FLOPs of one op, a multiply-add being 2.

    ``count`` takes an :class:`OpCall` and gives the FLOPs of that call, or None where its
    shapes do not suffice. ``label`` names the formula to the user (``2·M·N·K``).
    ``bytes_moved`` gives the ideal operand traffic in bytes, likewise.
    """

    op: str
    count: Callable[[OpCall], int | None]
    label: str = ""
    bytes_moved: Callable[[OpCall], int | None] | None = None


@dataclass(frozen=True, slots=True)
class Peak:
    """Dense peaks of one device.

    ``names`` are prefixes of the driver's device name; the longest that matches wins, and a MIG
    slice never matches its parent. ``tflops`` maps a dtype (``fp16``, or ``fp16:fp16`` and
    ``fp16:fp32`` where the accumulator matters) to dense TFLOPS. ``source`` says where the figures
    stand; ``checked`` on which date they were compared with it, "" where they were not.
    ``memory_gb_s`` is the memory's
    bandwidth, ``link_gb_s`` that of all links to peers in both directions, in 1e9 bytes/s;
    ``sms`` counts multiprocessors (compute units), ``l2_mib`` is the size of the L2 cache,
    ``capacity_gb`` the memory as sold, in 1e9 bytes.
    """

    names: tuple[str, ...]
    tflops: Mapping[str, float]
    memory_gb_s: float | None = None
    link_gb_s: float | None = None
    sms: int | None = None
    source: str = ""
    checked: str = ""
    details: Mapping[str, float] = field(default_factory=dict)
    l2_mib: float | None = None
    capacity_gb: float | None = None


@dataclass(frozen=True, slots=True)
class Analyzer:
    """A question of a plugin's own.

    ``analyze(trace, config, device)`` returns an object whose ``metrics()`` yields Values.
    """

    name: str
    analyze: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Report:
    """A report format: ``write(results, path)`` makes the file; ``option`` names it."""

    option: str
    write: Callable[..., None]


CommClassifier = Callable[[str], bool]
"""Takes a kernel's name; True where it is a communication kernel."""


@hookspec
def gpuperf_metrics() -> Iterable[Metric]:  # type: ignore[empty-body]
    """Metrics that analyzers of this plugin yield."""


@hookspec
def gpuperf_flop_formulas() -> Iterable[FlopFormula]:  # type: ignore[empty-body]
    """FLOP formulas by op name; a later plugin's formula replaces a built-in one."""


@hookspec
def gpuperf_comm_classifiers() -> Iterable[CommClassifier]:  # type: ignore[empty-body]
    """Tests that say which kernels are communication; one that says yes decides."""


@hookspec
def gpuperf_peaks() -> Iterable[Peak]:  # type: ignore[empty-body]
    """Dense peaks of devices."""


@hookspec
def gpuperf_thresholds() -> Mapping[str, float]:  # type: ignore[empty-body]
    """Thresholds of the summary, by name, that differ from the built-in ones; a later one wins."""


@hookspec
def gpuperf_analyzers() -> Sequence[Analyzer]:  # type: ignore[empty-body]
    """Questions of this plugin's own."""


@hookspec
def gpuperf_reports() -> Sequence[Report]:  # type: ignore[empty-body]
    """Report formats."""
