"""A/B in one session: the working tree against another revision, process by process.

``door`` runs it in place of pytest's own loop; ``worktree`` checks the revision out, ``sides``
says what each side is run with, ``processes`` runs a pair, ``side`` is what stands in each of the
processes, ``imports`` whether each side ran its own code, ``judging`` makes of the pairs what a
test is told.
"""
