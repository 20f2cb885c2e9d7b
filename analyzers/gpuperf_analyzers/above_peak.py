"""A share of a peak that no device can reach says that one of its parts is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuperf_analyzers.metrics import Value
from gpuperf_analyzers.trace.model import Finding

ALLOWED = 1.05
"""A measured peak is the best of a short search, which a good run can better by a few percent."""

_SHARES = ("mfu", "hfu")


def above_peak(values: Mapping[str, Value]) -> Iterator[Finding]:
    """A finding for each share of the peak above 105%: it must not be judged."""
    share = values.get("mamf_share")
    if share is not None and share.value is not None and share.value > ALLOWED:
        yield Finding(
            "above-maximum",
            f"mamf_share is {share.value:.0%} of the maximum that was measured: the FLOPs (flops=) "
            "or their dtype are wrong, or the maximum is of small shapes: run `gpuperf mamf` over "
            "a wider range",
            example=share.source,
            invalidates=frozenset({"mamf_share"}),
        )
    for name in _SHARES:
        value = values.get(name)
        if value is not None and value.value is not None and value.value > ALLOWED:
            yield Finding(
                "above-peak",
                f"{name} is {value.value:.0%} of the peak: the FLOPs (flops=), their dtype or the "
                "peak is wrong",
                example=value.source,
                invalidates=frozenset({name}),
            )
