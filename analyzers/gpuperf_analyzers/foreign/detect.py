"""What a file is, by its content: names and endings are only somebody's habit."""

from __future__ import annotations

import re

from gpuperf_analyzers.foreign.nccl_tests import untagged

NVIDIA_SMI_XML = "nvidia-smi -q -x"
NVIDIA_SMI_CSV = "nvidia-smi --query-gpu"
NVIDIA_SMI_DMON = "nvidia-smi dmon"
ROCM_SMI = "rocm-smi --json"
DCGM = "DCGM scrape"
NCCL_TESTS = "nccl-tests"
NCCL_LOG = "NCCL log"
MAMF_FINDER = "mamf-finder"
MEMORY_TIMELINE = "torch memory timeline"

_QUERY = re.compile(
    r"(?:utilization\.|clocks\.|power\.draw|temperature\.|memory\.used|clocks_\w+_reasons\.|pstate)"
)
_EXPOSED = re.compile(r"#|[a-zA-Z_:][\w:]*(?:\{.*\})?\s+\S+(?:\s+-?\d+)?\s*$")
_CARD = re.compile(r'\A\s*\{\s*"(?:card\d+|system)"\s*:\s*\{')
_TIMELINE = re.compile(r"\A\s*\[\s*\[\s*-?\d+(?:\s*,\s*-?\d+)*\s*[\],]")


def kind_of_text(head: str) -> str:
    """What the text that begins with `head` is; "" where it is none of ours."""
    begin = head.lstrip("\ufeff \t\r\n")
    if begin.startswith("<"):
        return NVIDIA_SMI_XML if "<nvidia_smi_log" in head else ""
    if begin.startswith("{"):
        return ROCM_SMI if _CARD.match(begin) else ""
    first = begin.partition("\n")[0]
    if begin.startswith("[") and untagged(first) == first:
        return MEMORY_TIMELINE if _TIMELINE.match(begin) else ""
    lines = [line for line in map(untagged, head.splitlines()) if line.strip()]
    if not lines:
        return ""
    return _of_lines(lines)


def _of_lines(lines: list[str]) -> str:
    """What text of `lines` is, none of them blank."""
    if _is_query(lines[0]):
        return NVIDIA_SMI_CSV
    scrape = True
    for line in lines:
        # A page about DCGM holds its lines too: a scrape holds nothing else.
        scrape = scrape and bool(_EXPOSED.match(line))
        if line.startswith("#"):
            words = line.lstrip("#").split()
            if {"algbw", "busbw"} <= set(words) or line.startswith("# nThread"):
                return NCCL_TESTS
            if "gpu" in words[:3] and {"sm", "pwr", "fb", "pclk", "mclk"} & set(words):
                return NVIDIA_SMI_DMON
        if scrape and re.match(r"(?:# (?:HELP|TYPE) )?DCGM_FI_\w+", line):
            return DCGM
        if " NCCL INFO " in line or " NCCL WARN " in line or line.startswith("NCCL version"):
            return NCCL_LOG
        if "TFLOPS @ " in line or "** Benchmark started on" in line:
            return MAMF_FINDER
    return ""


def _is_query(line: str) -> bool:
    """Whether `line` is the header of ``--query-gpu --format=csv``."""
    names = [part.strip() for part in line.split(",")]
    return len(names) > 1 and any(_QUERY.match(name) for name in names)
