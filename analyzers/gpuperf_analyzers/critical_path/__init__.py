"""What decided how long a step took, and so what would have to get shorter.

The path through ops, launches, streams, events and communication on which each thing waited for
the one before; from traces without ``cuda_sync`` events too, with what was assumed.
"""

from gpuperf_analyzers.critical_path.kinds import PathClass
from gpuperf_analyzers.critical_path.marking import mark_trace
from gpuperf_analyzers.critical_path.question import analyze, path_of_span
from gpuperf_analyzers.critical_path.result import (
    Assumption,
    CriticalPaths,
    Item,
    Path,
    Segments,
)

__all__ = [
    "Assumption",
    "CriticalPaths",
    "Item",
    "Path",
    "PathClass",
    "Segments",
    "analyze",
    "mark_trace",
    "path_of_span",
]
