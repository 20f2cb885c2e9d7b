"""The command ``gpuperf``: one module a subcommand, imported only when it is the one asked for."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from gpuperf_analyzers._version import __version__
from gpuperf_analyzers.declared_devices import DeclarationError

COMMANDS = {
    "analyze": "the numbers of a trace, or of the traces of several ranks",
    "buckets": "DDP's bucket size against step time and overlap, as a table and a plot",
    "baseline": "what earlier runs measured: list, show, prune, update, rename",
    "check": "judge a trace by limits: exit 0 fine, 1 FAIL or INVALID, 2 unreadable",
    "collectives": "time, algorithm and bus bandwidth of collectives over sizes",
    "compare": "two traces or sets, before and after: what explains the change, op by op",
    "estimate": "what training takes by formulas, and which layouts fit a cluster",
    "exporter": "results and live GPUs over HTTP for Prometheus",
    "history": "each metric over the runs, where it changed, and in which commit",
    "mamf": "the maximum achievable matmul FLOPS of this device, searched and kept",
    "doctor": "whether this machine can measure, and how to mend what it cannot",
    "metrics": "every metric with unit and formula",
    "report": "one HTML page of a report, of two compared, or of traces",
    "sweep": "a step over a grid of settings, each point in processes of its own",
}
"""Subcommand to what it does; each is a module of this package with ``run(argv) -> int``."""

_BROKEN_PIPE = 141
"""What a shell reports for a process that SIGPIPE ended."""
_INTERRUPTED = 130
"""What a shell reports for a process that Ctrl-C ended."""
_FAILED = 2
"""The exit status of input that cannot be read, and of output that cannot be written."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 fine, 1 judged red, 2 usage or bad input."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # it was closed before we began: there is nobody to tell
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the end
    # A name from a trace must not end the program because a terminal cannot show it.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    parsed = _parser().parse_args(arguments[:1])
    command = import_module(f"{__name__}.{parsed.command}")
    try:
        status: int = command.run(arguments[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()  # the reader (head, less) has gone
        return _BROKEN_PIPE
    except OSError as error:
        _forget_output()
        sys.stderr.write(f"gpuperf: {error.strerror or error}{_of(error)}\n")
        return _FAILED
    except KeyboardInterrupt:
        sys.stderr.write("gpuperf: interrupted\n")
        return _INTERRUPTED
    except DeclarationError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return status


def _forget_output() -> None:
    """Keep the interpreter from flushing, at exit, into what cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _of(error: OSError) -> str:
    return f": {error.filename}" if error.filename else " while the output was written"


def _parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {name:<11} {does}" for name, does in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="gpuperf",
        description="Numbers and verdicts from torch.profiler traces.",
        epilog=f"commands:\n{listed}\n\n`gpuperf COMMAND --help` says more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="gpuperf COMMAND [options]",
    )
    parser.add_argument("--version", action="version", version=f"gpuperf {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help=argparse.SUPPRESS)
    return parser
