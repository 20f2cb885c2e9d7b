"""``--min-NAME`` and ``--max-NAME`` of every metric, made from the metric table."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from gpuperf_analyzers.limits import nearest
from gpuperf_analyzers.metrics import Metric

_WRITTEN = {
    "us": "TIME",
    "fraction": "SHARE",
    "count": "N",
    "bytes": "BYTES",
    "TFLOPS": "TFLOPS",
}
"""What stands for a value in the help, by unit; any other unit stands for itself."""


class CheckParser(argparse.ArgumentParser):
    """An argument parser that names the nearest options to one it does not know."""

    def error(self, message: str) -> Any:
        """Exit with status 2 and one line, the nearest known options included."""
        prefix = "unrecognized arguments: "
        if message.startswith(prefix):
            wrong = message.removeprefix(prefix).split()[0].partition("=")[0]
            known = [o for action in self._actions for o in action.option_strings]
            hint = nearest(wrong, known) or "; `gpuperf metrics` lists every metric"
            message = f"unknown option {wrong}{hint}"
        self.exit(2, f"{self.prog}: {message}\n")


def add_limit_options(parser: argparse.ArgumentParser, metrics: Mapping[str, Metric]) -> None:
    """Add both options of every metric; what is given ends in ``namespace.limits``."""
    group = parser.add_argument_group(
        "limits",
        "A value as in the marker (0.6, 60%, 3ms, 12GiB, 350GB/s); DEVICE=VALUE, repeated, for "
        "a value by the beginning of the device's name. The better direction is shown first.",
    )
    parser.set_defaults(limits={})
    for metric in metrics.values():
        better, other = ("min", "max") if metric.better == "higher" else ("max", "min")
        for direction, text in ((better, metric.title), (other, argparse.SUPPRESS)):
            group.add_argument(
                f"--{direction}-{metric.name.replace('_', '-')}",
                action=_Limit,
                dest=f"{direction}_{metric.name}",
                metavar=_WRITTEN.get(metric.unit, metric.unit),
                default=argparse.SUPPRESS,
                help=text,
            )


class _Limit(argparse.Action):
    """Collects ``VALUE`` and ``DEVICE=VALUE`` under the keyword that the marker has for it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse calls with it
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002 - argparse calls with it
    ) -> None:
        limits = dict(namespace.limits)
        limits[self.dest] = _merged(limits.get(self.dest), str(values))
        namespace.limits = limits


def _merged(before: object, text: str) -> object:
    device, separator, value = text.rpartition("=")
    if not separator:
        written = _number_or_text(text)
        return {**before, "default": written} if isinstance(before, dict) else written
    earlier = before if isinstance(before, dict) else {}
    if before is not None and not isinstance(before, dict):
        earlier = {"default": before}
    return {**earlier, device.strip(): _number_or_text(value)}


def _number_or_text(text: str) -> float | str:
    """A bare number as a marker would have it, anything else as it stands."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text.strip()
