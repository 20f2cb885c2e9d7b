"""Built-in and installed plugins, resolved into one Config.

The built-in parts are a plugin like any other; each hook imports its module only when called,
so that metrics can be had at collection without numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pluggy

from gpuperf_analyzers import hookspecs
from gpuperf_analyzers.config import Config, PluginModule
from gpuperf_analyzers.hookspecs import PROJECT, CommClassifier, FlopFormula, Peak, hookimpl
from gpuperf_analyzers.metrics import BUILTIN, Metric
from gpuperf_analyzers.thresholds import Thresholds


class _BuiltIn:
    """Our own metrics, formulas, classifiers and peaks, registered as a plugin's would be."""

    @hookimpl
    def gpuperf_metrics(self) -> Iterable[Metric]:
        return BUILTIN

    @hookimpl
    def gpuperf_flop_formulas(self) -> Iterable[FlopFormula]:
        from gpuperf_analyzers.flops import FORMULAS

        return FORMULAS

    @hookimpl
    def gpuperf_comm_classifiers(self) -> Iterable[CommClassifier]:
        from gpuperf_analyzers.trace.classify import BUILTIN_CLASSIFIERS

        return BUILTIN_CLASSIFIERS

    @hookimpl
    def gpuperf_peaks(self) -> Iterable[Peak]:
        from gpuperf_analyzers.declared_peaks import declared_peaks
        from gpuperf_analyzers.hardware import builtin_peaks

        return (*builtin_peaks(), *declared_peaks())


def plugin_manager(*plugins: object) -> pluggy.PluginManager:
    """A plugin manager with our hookspecs, the built-in plugin, installed ones and `plugins`."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(_BuiltIn(), name="gpuperf-builtin")
    manager.load_setuptools_entrypoints(PROJECT)
    for plugin in plugins:
        manager.register(plugin)
    manager.check_pending()
    return manager


def load_metrics(manager: pluggy.PluginManager) -> dict[str, Metric]:
    """Every metric by name, in table order: the built-in ones first.

    Raises
    ------
    ValueError
        Two plugins declare a metric of the same name differently.
    """
    metrics: dict[str, Metric] = {}
    for group in reversed(manager.hook.gpuperf_metrics()):
        for metric in group:
            if metrics.setdefault(metric.name, metric) != metric:
                raise ValueError(f"gpuperf: two plugins declare the metric {metric.name!r}")
    return metrics


def load_config(manager: pluggy.PluginManager | None = None) -> Config:
    """The hookspecs of `manager` (by default: built-in and installed plugins) as a Config."""
    manager = manager or plugin_manager()
    hook = manager.hook
    return Config(
        metrics=load_metrics(manager),
        flop_formulas={f.op: f for group in reversed(hook.gpuperf_flop_formulas()) for f in group},
        comm_classifiers=tuple(c for group in hook.gpuperf_comm_classifiers() for c in group),
        # The last of equal names wins, and the last plugin comes first.
        peaks=tuple(p for group in reversed(hook.gpuperf_peaks()) for p in group),
        analyzers=tuple(a for group in hook.gpuperf_analyzers() for a in group),
        reports=tuple(r for group in hook.gpuperf_reports() for r in group),
        thresholds=_thresholds(hook.gpuperf_thresholds()),
        modules=tuple(_modules(manager)),
    )


def _thresholds(changes: Sequence[Mapping[str, float]]) -> Thresholds:
    """The built-in thresholds with each plugin's `changes`, the last registered one first.

    Raises
    ------
    ValueError
        A threshold that there is not, or one that is not a number from 0 on.
    """
    merged = {name: value for group in reversed(changes) for name, value in group.items()}
    unknown = sorted(merged.keys() - {f.name for f in fields(Thresholds)})
    if unknown:
        raise ValueError(f"gpuperf: there is no threshold {', '.join(unknown)}: see summary.md")
    return Thresholds(**merged)


def _modules(manager: pluggy.PluginManager) -> Iterator[PluginModule]:
    """Modules among the plugins that every process does not find by itself."""
    installed = [plugin for plugin, _ in manager.list_plugin_distinfo()]
    for plugin in manager.get_plugins():
        file = getattr(plugin, "__file__", None)
        if not isinstance(plugin, ModuleType) or file is None or plugin in installed:
            continue
        hooks = [caller.name for caller in manager.get_hookcallers(plugin) or ()]
        if hooks:
            yield PluginModule(str(Path(file).resolve()), plugin.__name__, hooks[0])
