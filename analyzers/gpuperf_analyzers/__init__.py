"""The offline half of pytest-gpuperf: traces in, numbers out, without torch.

Names are imported on first use (PEP 562), so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers._version import __version__

if TYPE_CHECKING:
    from gpuperf_analyzers.analysis import Analysis, analyze
    from gpuperf_analyzers.config import Config
    from gpuperf_analyzers.diff import Diff, OpTable, op_table, regression_text
    from gpuperf_analyzers.hta_adapter import to_hta
    from gpuperf_analyzers.limits import Limit, Verdict, judge, parse_limits
    from gpuperf_analyzers.loading import LoadedReport, load_report
    from gpuperf_analyzers.metrics import Metric, Value
    from gpuperf_analyzers.registry import load_config
    from gpuperf_analyzers.set_analysis import SetAnalysis, analyze_set
    from gpuperf_analyzers.trace import Trace, TraceError, TraceSet, read_trace, read_traces

_HOME = {
    "Analysis": "analysis",
    "Config": "config",
    "Diff": "diff",
    "Limit": "limits",
    "LoadedReport": "loading",
    "Metric": "metrics",
    "OpTable": "diff",
    "SetAnalysis": "set_analysis",
    "Trace": "trace",
    "TraceError": "trace",
    "TraceSet": "trace",
    "Value": "metrics",
    "Verdict": "limits",
    "analyze": "analysis",
    "analyze_set": "set_analysis",
    "judge": "limits",
    "load_config": "registry",
    "load_report": "loading",
    "op_table": "diff",
    "parse_limits": "limits",
    "read_trace": "trace",
    "read_traces": "trace",
    "regression_text": "diff",
    "to_hta": "hta_adapter",
}

__all__ = [
    "Analysis",
    "Config",
    "Diff",
    "Limit",
    "LoadedReport",
    "Metric",
    "OpTable",
    "SetAnalysis",
    "Trace",
    "TraceError",
    "TraceSet",
    "Value",
    "Verdict",
    "__version__",
    "analyze",
    "analyze_set",
    "judge",
    "load_config",
    "load_report",
    "op_table",
    "parse_limits",
    "read_trace",
    "read_traces",
    "regression_text",
    "to_hta",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
