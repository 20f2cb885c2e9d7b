"""Where memory was allocated, in a line; and in which part of a program, as the stack tells it."""

from __future__ import annotations

import re
from typing import Literal

from gpuperf_analyzers.snapshot.model import Frame

MadeIn = Literal["forward", "backward", "optimizer", "model set-up", "elsewhere", "no stack"]
NO_SITE = "(no stack)"

_NATIVE = re.compile(r"\.(?:c|cc|cpp|cu|cuh|h|hpp|pyx)$|^$|^\?\?$|\.so(?:\.\d+)*$")
_LIBRARY = re.compile(r"(?:^|/)torch/|<frozen |(?:^|/)contextlib\.py$|(?:^|/)functools\.py$")
_OPTIMIZER = re.compile(r"(?:^|/)torch/optim/")
_ENGINE = re.compile(r"torch::autograd::|autograd::Engine|_engine_run_backward")
_BACKWARD_FILE = re.compile(r"(?:^|/)torch/autograd/(?:__init__|graph|function)\.py$")
_MODULE_FILE = re.compile(r"(?:^|/)torch/nn/modules/module\.py$")
_MODULES = re.compile(r"(?:^|/)torch/nn/(?:modules/|init\.py$|parameter\.py$)")
_CALLS = frozenset({"_call_impl", "_wrapped_call_impl", "_slow_forward", "forward"})


def site_of(stack: tuple[Frame, ...]) -> str:
    """The innermost call of the program's own: ``train.py:41 step``.

    Where all calls are torch's, its innermost in Python; else the innermost there is.
    """
    if not stack:
        return NO_SITE
    python = [f for f in stack if not _NATIVE.search(f.file)]
    own = [f for f in python if not _LIBRARY.search(f.file)]
    frame = (own or python or list(stack))[0]
    file = "/".join(frame.file.split("/")[-2:])
    line = f":{frame.line}" if frame.line else ""
    return f"{file}{line} {frame.function}".strip() or NO_SITE


def made_in(stack: tuple[Frame, ...]) -> MadeIn:
    """The part of a training program that allocated, by the innermost call that tells.

    Which tensor it is no snapshot says: memory that a forward pass made and that is alive is
    activations or what the program keeps of them, of a backward pass gradients, of an optimizer
    its state; of a model's set-up parameters and buffers.
    """
    if not stack:
        return "no stack"
    for frame in stack:
        found = _tells(frame)
        if found is not None:
            return found
    return "elsewhere"


def _tells(frame: Frame) -> MadeIn | None:
    if _OPTIMIZER.search(frame.file):
        return "optimizer"
    if frame.function in _CALLS:
        return "forward"
    if _ENGINE.search(frame.function):
        return "backward"
    if _BACKWARD_FILE.search(frame.file) and "backward" in frame.function:
        return "backward"
    if _MODULE_FILE.search(frame.file) or _MODULES.search(frame.file):
        return "model set-up"
    return None
