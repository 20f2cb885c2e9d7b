"""Every table of an analysis by name, and tables as files: CSV, or Parquet with pyarrow."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpuperf_analyzers.set_analysis import SetAnalysis, rank_labels

if TYPE_CHECKING:
    import pandas as pd

Format = Literal["csv", "parquet"]
FORMATS: tuple[Format, ...] = ("csv", "parquet")
_MORE = {"ops_frame": "ops", "spans_frame": "spans", "ranks_frame": "ranks"}
"""Methods beside ``to_frame`` that give a table, and what it is called."""


def analysis_tables(found: SetAnalysis) -> dict[str, pd.DataFrame]:
    """Every table of every question, over all ranks and devices.

    The first columns say which ``rank`` and ``device`` a row is of.
    """
    import pandas as pd

    parts: dict[str, list[pd.DataFrame]] = {}
    for label, rank in zip(rank_labels(found.ranks), found.ranks, strict=True):
        parts.setdefault("values", []).append(_placed(rank.to_frame(), label, ""))
        for device in rank.devices:
            for question, result in device.results.items():
                for name, frame in _frames(question, result):
                    parts.setdefault(name, []).append(_placed(frame, label, device.label))
    made = {}
    for name, frames in parts.items():
        filled = [frame for frame in frames if len(frame)]
        made[name] = pd.concat(filled, ignore_index=True) if filled else frames[0]
    if len(found.ranks) > 1:
        made["ranks"] = found.to_frame()
        for question, result in (("matched", found.collectives), ("stragglers", found.stragglers)):
            made.update(dict(_frames(question, result)))
    return made


def _frames(question: str, result: Any) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each table that the result of a question can make."""
    makers: dict[str, Callable[[], Any] | None] = {question: getattr(result, "to_frame", None)}
    for method, suffix in _MORE.items():
        makers[f"{question}_{suffix}"] = getattr(result, method, None)
    for name, make in makers.items():
        if make is not None:
            yield name, make()


def _placed(frame: pd.DataFrame, rank: str, device: str) -> pd.DataFrame:
    placed = frame.copy()
    placed.insert(0, "in_rank", rank)
    if device:
        placed.insert(1, "in_device", device)
    return placed


def write_tables(
    tables: Mapping[str, pd.DataFrame], folder: str | os.PathLike[str], form: Format = "csv"
) -> list[Path]:
    """Write each table to a file of its name in `folder`, whole or not at all.

    Raises
    ------
    ImportError
        Parquet without pyarrow: ``pip install 'pytest-gpuperf[parquet]'``.
    OSError
        The folder or a file cannot be written.
    """
    if form == "parquet":
        _needs_pyarrow()
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    return [_write(frame, target / f"{name}.{form}", form) for name, frame in tables.items()]


def _needs_pyarrow() -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise ImportError("Parquet needs pyarrow: pip install 'pytest-gpuperf[parquet]'")


def _write(frame: pd.DataFrame, path: Path, form: Format) -> Path:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if form == "parquet":
            _plain(frame).to_parquet(part, index=False)
        else:
            _plain(frame).to_csv(part, index=False)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return path


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """`frame` with every column of one type: what is nested or mixed becomes its text."""
    made = frame.copy()
    for column in made.columns:
        kinds = {type(v) for v in made[column] if v is not None and v == v}  # noqa: PLR0124 - NaN
        if len(kinds - {int, float}) and not kinds <= {str} and made[column].dtype == object:
            made[column] = [None if v is None else str(v) for v in made[column]]
        elif kinds == {str}:
            # A lone surrogate has no UTF-8.
            made[column] = [v.encode("utf-8", "backslashreplace").decode() if isinstance(v, str)
                            else None for v in made[column]]  # fmt: skip
    return made
