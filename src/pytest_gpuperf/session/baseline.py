"""What a session asks of stored baselines; who keeps them stands above and is handed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from gpuperf_analyzers.analysis import Analysis
    from gpuperf_analyzers.config import Config
    from gpuperf_analyzers.limits import Judgement, Limit
    from gpuperf_analyzers.live_block import LiveBlock
    from gpuperf_analyzers.set_analysis import SetAnalysis
    from gpuperf_analyzers.trace.model import Trace


@dataclass(frozen=True, slots=True)
class Observed:
    """One measurement, as it is handed to the baselines.

    Attributes
    ----------
    test
        Node id of the test.
    name
        Of the measurement, ``#2`` for a test's second one without a name.
    analysis
        Of one trace or of a set of ranks.
    blocks, traces
        The live block and the trace of each rank.
    config
        The resolved hookspecs.
    limits
        Those against a baseline: ``max_regression`` and ``exact``.
    notes
        Conditions of the measurement, in words.
    """

    test: str
    name: str
    analysis: Analysis | SetAnalysis
    blocks: Sequence[LiveBlock]
    traces: Sequence[Trace]
    config: Config
    limits: tuple[Limit, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compared:
    """What the baselines say of one measurement.

    Attributes
    ----------
    judgements
        One a limit, in their order.
    explained
        Lines for the failure text: what accounts for how much of what got worse.
    notes
        What a reader must know beside the verdicts.
    observation
        What a save of this run would keep, as plain JSON types; None where nothing would be.
    baseline
        What a report shows of the baseline, as plain JSON types; None where there is none.
    """

    judgements: tuple[Judgement, ...] = ()
    explained: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    observation: Mapping[str, Any] | None = field(default=None, repr=False)
    baseline: Mapping[str, Any] | None = field(default=None, repr=False)


class Baselines(Protocol):
    """Whoever keeps baselines."""

    def compared(self, observed: Observed) -> Compared:
        """`observed` judged against what is stored, and made ready to be stored."""
