"""What outlives a run: baselines that were asked for, the last run's measurements, the history.

Gathered where reports arrive, so that a parallel run's controller keeps what its workers measured.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gpuperf.baselines.observation import Observation
    from pytest_gpuperf.session.baseline import Baselines

BASELINES_FOLDER = "gpuperf-baselines"
DEFAULT_BASELINE = "default"
HISTORY_FILE = "history.jsonl"
BASELINE_NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,79}", re.ASCII)
_OPTIONAL = {
    "--gpuperf-save": DEFAULT_BASELINE,
    "--gpuperf-compare": DEFAULT_BASELINE,
    "--gpuperf-history": "",
}
"""Options whose value is taken with ``=`` only, and what stands for none."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """What is to be kept of a run.

    Attributes
    ----------
    folder
        Of the baselines.
    save, compare
        Name of the baseline to save to and to compare with; None where not asked for.
    runs
        Saved runs kept of each measurement.
    across_cpus
        Whether counts may be compared with those of another CPU.
    history
        The file that a line a metric is added to; None where not asked for.
    """

    folder: Path
    save: str | None = None
    compare: str | None = None
    runs: int = 10
    across_cpus: bool = False
    history: Path | None = None

    def check(self) -> None:
        """Refuse a damaged or foreign file of baselines where a save or comparison is asked for.

        Raises
        ------
        KeepingError
            There is one; the line names it and the mend.
        """
        if self.save is None and self.compare is None:
            return
        from pytest_gpuperf.baselines.document import BaselineError
        from pytest_gpuperf.baselines.store import check_folder

        try:
            check_folder(self.folder)
        except BaselineError as error:
            raise KeepingError(f"{error} (nothing was measured)") from None

    @property
    def observes_all(self) -> bool:
        """Whether tests without a limit against a baseline are observed too."""
        return any(wish is not None for wish in (self.save, self.compare, self.history))

    def baselines(self, regressions: int) -> Baselines:
        """Whoever compares with what is stored."""
        from pytest_gpuperf.baselines.comparison import StoredBaselines
        from pytest_gpuperf.baselines.model import DEFAULT
        from pytest_gpuperf.baselines.store import Store

        return StoredBaselines(
            Store(self.folder),
            self.compare or DEFAULT,
            family=regressions,
            across_cpus=self.across_cpus,
            observe=self.observes_all,
            told=self.compare is not None,
        )


@dataclass(slots=True)
class Kept:
    """The observations of a run so far; of a test that is run again the last one stands."""

    passed: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    failed: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)

    def add(self, observations: Sequence[Mapping[str, Any]], *, failed: bool) -> None:
        """Keep what came with one report."""
        for raw in observations:
            name = (raw["test"], raw["name"])
            self.passed.pop(name, None)
            self.failed.pop(name, None)
            (self.failed if failed else self.passed)[name] = raw

    def __bool__(self) -> bool:
        return bool(self.passed or self.failed)


class KeepingError(Exception):
    """What was asked for could not be kept: one line."""


def with_values(args: Sequence[str]) -> list[str]:
    """`args` with a value for each option that may go without; not behind ``--``."""
    end = args.index("--") if "--" in args else len(args)
    head = [f"{a}={_OPTIONAL[a]}" if a in _OPTIONAL else a for a in args[:end]]
    return [*head, *args[end:]]


def keep(kept: Kept, keeping: Keeping, directory: Path, *, disabled: bool) -> list[str]:
    """Keep what was asked for; the lines that say so.

    The measurements of the last run are kept beside the report, for ``gpuperf baseline update``.

    Raises
    ------
    KeepingError
        A baseline or the history could not be written; nothing that was there is lost.
    """
    lines: list[str] = []
    errors: list[str] = []
    steps: tuple[Callable[[], str], ...] = (
        lambda: _last_run(kept, directory),
        lambda: _save(kept, keeping, disabled=disabled),
        lambda: _history(kept, keeping),
    )
    for step in steps:
        try:
            line = step()
        except KeepingError as error:  # noqa: PERF203 - each step stands on its own
            errors.append(str(error))
        else:
            lines += [line] if line else []
    if errors:
        raise KeepingError("\n".join([*errors, *lines]))
    return lines


def _observations(raw: Mapping[tuple[str, str], Mapping[str, Any]]) -> list[Observation]:
    from pytest_gpuperf.baselines.observation import Observation

    return [Observation.from_json(r) for r in raw.values()]


def _last_run(kept: Kept, directory: Path) -> str:
    """Leave the measurements where ``gpuperf baseline update`` finds them; never an error."""
    from pytest_gpuperf.baselines.last_run import write

    if kept:
        # A folder that cannot be written to is nobody's failure here.
        with contextlib.suppress(OSError):
            write(directory, list(kept.passed.values()), list(kept.failed.values()))
    return ""


def _save(kept: Kept, keeping: Keeping, *, disabled: bool) -> str:
    if keeping.save is None:
        return ""
    if disabled:
        return "gpuperf: no baseline is saved: measuring is disabled (--gpuperf-disable)"
    left = len({test for test, _ in kept.failed})
    more = ""
    if left:
        tests = "1 test that failed" if left == 1 else f"{left} tests that failed"
        more = f"; not of {tests}: `gpuperf baseline update` accepts what they measured"
    if not kept.passed:
        why = "nothing that passed was measured" if left else "nothing was measured"
        return f"gpuperf: no baseline is saved: {why}{more}"
    from pytest_gpuperf.baselines.document import BaselineError
    from pytest_gpuperf.baselines.store import PartlySavedError, Store

    try:
        saved = Store(keeping.folder).save(
            _observations(kept.passed), name=keeping.save, keep=keeping.runs
        )
    except BaselineError as error:
        raise KeepingError(f"{error} (nothing is saved)") from None
    except PartlySavedError as error:
        others = ", ".join(str(path) for path in error.left)
        raise KeepingError(
            f"gpuperf: baseline {keeping.save!r} saved in {_written(error.saved)}, "
            f"but not in {others}: {error.why}"
        ) from None
    except OSError as error:
        raise KeepingError(
            f"gpuperf: the baseline is not saved in {keeping.folder}: {error.strerror or error}: "
            "--gpuperf-baselines chooses another folder"
        ) from None
    return f"gpuperf: baseline {keeping.save!r} saved in {_written(saved)}{more}"


def _written(saved: Sequence[tuple[Path, int, int]]) -> str:
    return ", ".join(
        f"{path} ({count} {'measurement' if count == 1 else 'measurements'}, run {number})"
        for path, number, count in saved
    )


def _history(kept: Kept, keeping: Keeping) -> str:
    if keeping.history is None or not kept:
        return ""
    from pytest_gpuperf.baselines.history import append, lines_of

    observed = _observations({**kept.passed, **kept.failed})
    try:
        count = append(keeping.history, lines_of(observed))
    except OSError as error:
        raise KeepingError(
            f"gpuperf: the history is not added to {keeping.history}: {error.strerror or error}"
        ) from None
    return f"gpuperf: {'1 line' if count == 1 else f'{count:,} lines'} added to {keeping.history}"
