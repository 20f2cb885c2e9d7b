"""What one pytest run shares among its tests: settings, the resolved hookspecs, the records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf.session.declaration import Declaration

if TYPE_CHECKING:
    import pluggy

    from gpuperf_analyzers.config import Config
    from gpuperf_analyzers.metrics import Metric
    from pytest_gpuperf.session.baseline import Baselines


@dataclass(slots=True)
class Run:
    """Settings of one pytest run, and what is made once and only when asked for.

    Attributes
    ----------
    directory
        Where traces and the report go.
    called_from
        The folder that pytest was called in, which paths in messages are relative to.
    defaults
        The declaration of a test without a marker.
    make_hooks
        Makes the plugin manager that holds the hookspecs' implementations.
    disabled
        Workloads run once, unmeasured.
    strict
        Soft verdicts fail too.
    keep_traces
        Traces of passing tests are kept too.
    records
        Results so far, in the order of reports.
    make_baselines
        Makes whoever keeps baselines, given how many regression limits the run judges.
    regressions
        How many these are, over all tests that were collected.
    """

    directory: Path
    called_from: Path
    defaults: Declaration
    make_hooks: Callable[[], pluggy.PluginManager]
    disabled: bool = False
    strict: bool = False
    keep_traces: bool = False
    records: list[dict[str, Any]] = field(default_factory=list)
    make_baselines: Callable[[int], Baselines] | None = None
    regressions: int = 0
    _hooks: pluggy.PluginManager | None = None
    _config: Config | None = None
    _metrics: Mapping[str, Metric] | None = None
    _baselines: Baselines | None = None

    @property
    def traces(self) -> Path:
        """The folder of the traces."""
        return self.directory / "traces"

    def baselines(self) -> Baselines | None:
        """Whoever keeps baselines, made at the first measurement; None where nobody does."""
        if self._baselines is None and self.make_baselines is not None:
            self._baselines = self.make_baselines(self.regressions)
        return self._baselines

    def hooks(self) -> pluggy.PluginManager:
        """The plugin manager of the hookspecs, made at the first call."""
        if self._hooks is None:
            self._hooks = self.make_hooks()
        return self._hooks

    def metrics(self) -> Mapping[str, Metric]:
        """Every metric by name; cheap, since collection asks for it."""
        if self._metrics is None:
            from gpuperf_analyzers.registry import load_metrics

            self._metrics = load_metrics(self.hooks())
        return self._metrics

    def config(self) -> Config:
        """The resolved hookspecs, made at the first measurement.

        Raises
        ------
        pytest.UsageError
            A file declares devices that cannot be understood.
        """
        if self._config is None:
            from gpuperf_analyzers.declared_devices import DeclarationError
            from gpuperf_analyzers.registry import load_config

            try:
                self._config = load_config(self.hooks())
            except DeclarationError as error:
                raise pytest.UsageError(str(error)) from None
        return self._config
