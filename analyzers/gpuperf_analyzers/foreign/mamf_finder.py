"""Reports of mamf-finder: the best shapes of a search for the maximum matmul FLOPS."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuperf_analyzers.foreign.model import ForeignError, Reading, Sheet
from gpuperf_analyzers.metrics import Value, absent
from gpuperf_analyzers.trace.model import Finding

KIND = "mamf-finder"
_BEST = re.compile(
    r"^(?P<what>mean|median|max|The best outcome was)\s*:?\s*(?P<tflops>[\d.]+)\s*TFLOPS @ "
    r"(?P<shape>\d+x\d+x\d+)(?: \((?P<order>\w+)\))?"
)
_DEVICE = re.compile(
    r"Device\s*:\s*(?:_CudaDeviceProperties\(name='(?P<props>[^']+)'|(?P<name>[^,\n]+))"
)
_TRIED = re.compile(r"[Tt]ried\s+(\d+) shapes")
_GEOMEAN = re.compile(r"^geomean:\s*([\d.]+)\s*TFLOPS")


def read_mamf_finder(path: str, lines: Sequence[str]) -> Reading:
    """The outcome; ``tflops`` is that of the best median, in old reports of the one best outcome.

    Raises
    ------
    ForeignError
        The search did not reach its outcome.
    """
    best: dict[str, tuple[float, str]] = {}
    device, tried, geomean = "", None, None
    for line in lines:
        outcome = _BEST.match(line.strip())
        if outcome:
            best[outcome["what"]] = (float(outcome["tflops"]), outcome["shape"])
        named = _DEVICE.search(line)
        if named and not device:
            device = (named["props"] or named["name"] or "").strip()
        count = _TRIED.search(line)
        tried = int(count[1]) if count else tried
        mean = _GEOMEAN.match(line.strip())
        geomean = float(mean[1]) if mean else geomean
    if not best:
        raise ForeignError(f"{path}: mamf-finder's output ends before its outcome: let it finish")
    what = next(name for name in ("median", "The best outcome was", "mean", "max") if name in best)
    tflops, shape = best[what]
    told = f"mamf-finder, best {'outcome' if what.startswith('The') else what}, {shape} (M x N x K)"
    findings = []
    if what == "max":
        findings.append(
            Finding("one-sample", "only the largest single sample is told: no median of any shape")
        )
    value = Value("tflops", tflops, n=1, source=told) if what != "max" else absent("tflops", told)
    rows = tuple((name, number, text) for name, (number, text) in best.items())
    title = "best shapes" + (f" of {tried:,} tried" if tried else "")
    title += f", geometric mean {geomean:g} TFLOPS" if geomean is not None else ""
    return Reading(
        path, KIND, device, parts={"": {"tflops": value}},
        sheets=(Sheet(title, ("by", "TFLOPS", "M x N x K"), rows),), findings=tuple(findings),
    )  # fmt: skip
