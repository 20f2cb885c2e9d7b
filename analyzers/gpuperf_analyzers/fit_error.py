"""What is raised where no line of memory over batch size can be had."""

from __future__ import annotations


class FitError(ValueError):
    """Sizes or a capacity that cannot be understood."""
