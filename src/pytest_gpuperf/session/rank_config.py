"""The hookspecs in a rank's own process: installed plugins, and modules of the launching one."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.config import PluginModule
from pytest_gpuperf.ranks import Target

if TYPE_CHECKING:
    from gpuperf_analyzers.config import Config


def modules_payload(config: Config | None) -> list[dict[str, str]]:
    """What a rank is told of the modules that implement hooks, as JSON types."""
    return [] if config is None else [asdict(module) for module in config.modules]


def rank_config(payload: Iterable[dict[str, str]]) -> tuple[Config, tuple[str, ...]]:
    """The hookspecs of this process with the modules of `payload`, and why some are missing.

    A module that cannot be loaded here leaves the measurement right but for what it adds.
    """
    from gpuperf_analyzers.registry import load_config, plugin_manager

    manager, notes = plugin_manager(), []
    for entry in payload:
        module = PluginModule(**entry)
        try:
            manager.register(_loaded(module))
        except Exception as error:  # noqa: BLE001 - it is the user's code: anything may come
            notes.append(
                f"{module.path} could not be loaded in the ranks, so its hooks do not count there: "
                f"{type(error).__name__}: {error}"
            )
    return load_config(manager), tuple(notes)


def _loaded(module: PluginModule) -> Any:
    """The module, imported by its own name where that leads to its file, else from the file."""
    hook = Target(module.path, module.hook, module.name).load()
    return sys.modules[hook.__module__]
