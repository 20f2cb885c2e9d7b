"""What ``gpuperf analyze`` prints: one module a part, each fed by the analysis only."""

from pytest_gpuperf.cli.views.whole import print_set

__all__ = ["print_set"]
