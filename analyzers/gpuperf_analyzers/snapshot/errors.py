"""What is raised for a file that is no snapshot, or one that cannot be trusted to be one."""

from __future__ import annotations


class SnapshotError(Exception):
    """A file that cannot be read as a snapshot: one line that names it, and the mend if any."""
