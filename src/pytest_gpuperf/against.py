"""What ``--gpuperf-against`` asks for, checked against what else is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.results import option

if TYPE_CHECKING:
    from pytest_gpuperf.baselines.against.door import Against
    from pytest_gpuperf.session.run import Run

_ALONE = {
    "compare": "--gpuperf-compare is another baseline",
    "save": "--gpuperf-save keeps what one process measured",
    "disable": "--gpuperf-disable measures nothing",
    "skip": "--gpuperf-skip measures nothing",
}
"""Options that say something else than a comparison does, and why."""


def against(config: pytest.Config, run: Run, revision: str) -> Against:
    """The plugin that compares with `revision`.

    Raises
    ------
    pytest.UsageError
        An option beside it says something else, or a number is none.
    """
    from gpuperf_analyzers.regression import Schedule
    from pytest_gpuperf.baselines.against.door import Against, Asked

    if not revision.strip() or revision.startswith("-"):
        raise pytest.UsageError(f"--gpuperf-against={revision!r} is not a git revision")
    for name, why in _ALONE.items():
        if config.getoption(f"gpuperf_{name}", None):
            raise pytest.UsageError(f"--gpuperf-against cannot be used with it: {why}")
    parallel = config.getoption("dist", "no") != "no" or bool(config.getoption("numprocesses", 0))
    if parallel or hasattr(config, "workerinput"):
        raise pytest.UsageError(
            "--gpuperf-against measures in processes of its own, two that take turns: leave -n out"
        )
    written = str(option(config, "pairs"))
    try:
        pairs = int(written)
    except ValueError:
        raise pytest.UsageError(f"--gpuperf-pairs={written!r} is not a whole number") from None
    try:
        Schedule(pairs)
    except ValueError as error:
        raise pytest.UsageError(f"--gpuperf-pairs: {error}") from None
    asked = Asked(revision, pairs, option(config, "against_env") or None,
                  str(option(config, "against_setup") or ""))  # fmt: skip
    return Against(run, asked)
