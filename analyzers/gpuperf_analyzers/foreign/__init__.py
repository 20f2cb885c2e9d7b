"""Files that other tools wrote, read into values of our metrics, tables and findings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from gpuperf_analyzers.foreign import detect
from gpuperf_analyzers.foreign.dcgm import read_dcgm
from gpuperf_analyzers.foreign.detect import kind_of_text
from gpuperf_analyzers.foreign.mamf_finder import read_mamf_finder
from gpuperf_analyzers.foreign.memory_timeline import read_memory_timeline
from gpuperf_analyzers.foreign.model import ForeignError, Reading, Sheet
from gpuperf_analyzers.foreign.nccl_info import read_nccl_info
from gpuperf_analyzers.foreign.nccl_tests import read_nccl_tests
from gpuperf_analyzers.foreign.nvidia_smi_log import read_dmon, read_query_csv
from gpuperf_analyzers.foreign.nvidia_smi_xml import read_nvidia_smi_xml
from gpuperf_analyzers.foreign.rocm_smi import read_rocm_smi
from gpuperf_analyzers.foreign.text import head_of, lines_of, text_of

__all__ = ["ForeignError", "Reading", "Sheet", "kind_of_file", "read_foreign"]

_OF_TEXT: Mapping[str, Callable[[str, str], Reading]] = {
    detect.NVIDIA_SMI_XML: read_nvidia_smi_xml,
    detect.ROCM_SMI: read_rocm_smi,
    detect.MEMORY_TIMELINE: read_memory_timeline,
}
_OF_LINES: Mapping[str, Callable[[str, Sequence[str]], Reading]] = {
    detect.NVIDIA_SMI_CSV: read_query_csv,
    detect.NVIDIA_SMI_DMON: read_dmon,
    detect.DCGM: read_dcgm,
    detect.NCCL_TESTS: read_nccl_tests,
    detect.NCCL_LOG: read_nccl_info,
    detect.MAMF_FINDER: read_mamf_finder,
}
KINDS = (*_OF_TEXT, *_OF_LINES)
"""Everything that is told apart, in words."""


def kind_of_file(path: str | os.PathLike[str]) -> str:
    """Which of :data:`KINDS` the file is by its content; "" where it is none or cannot be read."""
    try:
        return kind_of_text(head_of(path))
    except OSError:
        return ""


def read_foreign(path: str | os.PathLike[str]) -> Reading:
    """What the file says.

    Raises
    ------
    ForeignError
        It cannot be read or is of no known kind: one line that names it and the mend.
    """
    name = os.fspath(path)
    kind = kind_of_file(path)
    if not kind:
        raise ForeignError(f"{name}: not a file that is known here ({', '.join(KINDS)})")
    text = text_of(path)
    if kind in _OF_TEXT:
        return _OF_TEXT[kind](name, text)
    lines = [line for line in lines_of(text) if line.strip()]
    return _OF_LINES[kind](name, lines)
