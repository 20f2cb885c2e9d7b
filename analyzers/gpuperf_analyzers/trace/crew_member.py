"""A process that decodes the blocks it is given: what :mod:`~gpuperf_analyzers.trace.crew` starts.

Blocks come on the standard input, each after its length; what was read goes out on the standard
output at the end: first what is small, then column after column.
"""

from __future__ import annotations

import gc
import signal
import sys
from typing import IO

import msgspec

from gpuperf_analyzers.trace.columns import EventColumns
from gpuperf_analyzers.trace.crew import BAD, DONE, FRAME, READY
from gpuperf_analyzers.trace.shares import TABLES, Marks, bytes_of, marks_of, share_of, tables_of


def serve(blocks: IO[bytes], answers: IO[bytes]) -> None:
    """Decode `blocks` to their end, and hand over what was read."""
    columns, marks = EventColumns(), list[Marks]()
    _say(answers, READY)
    while size := _length(blocks):
        if not columns.decode(blocks.read(size)) or columns.odd:
            _say(answers, BAD)
            return
        marks.append(marks_of(columns))
        _say(answers, READY)
    share = msgspec.msgpack.encode(share_of(columns, marks))
    answers.write(DONE + FRAME.pack(len(share)) + share)
    tables = tables_of(columns)
    for table, names in TABLES.items():
        for name in names:
            answers.write(bytes_of(tables[table].drop(name)))
    answers.flush()


def _say(answers: IO[bytes], what: bytes) -> None:
    answers.write(what)
    answers.flush()


def _length(blocks: IO[bytes]) -> int:
    """Length of the next block, 0 at the end.

    Raises
    ------
    EOFError
        Who gave the blocks is gone.
    """
    header = blocks.read(FRAME.size)
    if len(header) < FRAME.size:
        raise EOFError
    return int(FRAME.unpack(header)[0])


def main() -> None:
    """Serve on the standard streams; whoever started this one decides when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer)
    except (EOFError, BrokenPipeError):
        return
