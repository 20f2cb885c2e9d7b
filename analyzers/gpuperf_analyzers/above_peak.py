"""A share of a peak that no device can reach says that one of its parts is wrong.

Above 105% it must not be judged. From 100% to there it is judged and said to be too high: no share
above 100% passes in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuperf_analyzers.metrics import Value
from gpuperf_analyzers.trace.model import Finding

ALLOWED = 1.05
"""A measured peak is the best of a short search, which a good run can better by a few percent."""

_SHARES = ("mfu", "hfu")


def above_peak(values: Mapping[str, Value]) -> Iterator[Finding]:
    """A finding for each share of a peak above 100%; one above 105% must not be judged."""
    yield from _somewhat_above(values)
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


def _somewhat_above(values: Mapping[str, Value]) -> Iterator[Finding]:
    """One finding a kind of peak, which names the shares from 100% to 105%."""
    found: dict[str, list[Value]] = {}
    for name in (*_SHARES, "mamf_share"):
        value = values.get(name)
        if value is not None and value.value is not None and 1 < value.value <= ALLOWED:
            found.setdefault(_too_low(value), []).append(value)
    for told, above in found.items():
        shares = ", ".join(f"{v.name} {v.value:.1%}" for v in above)
        yield Finding("peak-too-low", f"above 100% ({shares}): {told}", example=above[0].source)


def _too_low(value: Value) -> str:
    """Why a share of this peak can be a few percent too high, and the mend."""
    if value.name == "mamf_share":
        return (
            "the maximum was measured too low, and the share is too high: run `gpuperf mamf` over "
            "a wider range, on an idle machine"
        )
    if "measured peak" in value.source:
        return (
            "the CPU's peak was measured too low (its cores ran slower or were shared then), and "
            "the share is too high: measure on an idle machine"
        )
    return (
        "the clock is above the one that the dense peak is for, or the FLOPs (flops=) are a "
        "little too many"
    )
