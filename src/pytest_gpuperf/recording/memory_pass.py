"""Some steps under torch's memory profile, so that every byte at the peak has a category.

A pass of its own: spans around modules and marks around optimizers would cost the trace's steps
time. On a CPU what was alive before is counted by storage, on a GPU by the allocator's blocks.
"""

from __future__ import annotations

import gc
import warnings
from bisect import bisect_right
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from time import time_ns
from typing import TYPE_CHECKING, Any

from gpuperf_analyzers.memory_block import MemoryBlock
from gpuperf_analyzers.memory_categories import Held, Recorded, categorized
from pytest_gpuperf.recording.coordination import Coordinator
from pytest_gpuperf.recording.errors import import_torch
from pytest_gpuperf.recording.memory import objects_of
from pytest_gpuperf.recording.memory_identity import (
    Identities,
    identities,
    module_paths,
    of_optimizer,
    storages,
)
from pytest_gpuperf.recording.memory_tree import MARK, MODULE, Walked, walk
from pytest_gpuperf.recording.memory_trend import memory_profile, trend
from pytest_gpuperf.recording.quiet import garbage_collection_off

if TYPE_CHECKING:
    import torch

    from gpuperf_analyzers.live_block import LiveBlock
    from pytest_gpuperf.recording.options import Options
    from pytest_gpuperf.recording.sampling import Workload


def with_memory(
    block: LiveBlock,
    workload: Workload,
    device: torch.device,
    options: Options,
    coordinator: Coordinator,
) -> LiveBlock:
    """`block` with memory by category, where `options` ask for it."""
    if not options.breakdown:
        return block
    found = memory_by_category(
        workload, device, coordinator, steps=options.steps, trend_steps=options.trend_steps
    )
    return replace(block, memory=found)


def memory_by_category(
    workload: Workload,
    device: torch.device,
    coordinator: Coordinator,
    *,
    steps: int,
    trend_steps: int = 0,
) -> MemoryBlock:
    """Memory by category over `steps` steps, and its level after each of `trend_steps` more.

    Parameters
    ----------
    workload
        What a step is; called once more before, so that its frees are seen.
    device
        Where to look.
    coordinator
        The other ranks, which call it equally often.
    steps, trend_steps
        How many steps to record, and to follow the level over (0: not at all).
    """
    with garbage_collection_off():
        _lead_in(workload, device, coordinator)
        coordinator.barrier()
        found = categorized(_record(workload, device, steps, coordinator))
        if trend_steps:
            levels, growth = trend(workload, device, trend_steps, coordinator)
            found = replace(found, levels=levels, growth=growth)
    return found


def _lead_in(workload: Workload, device: torch.device, coordinator: Coordinator) -> None:
    """One step that only tells torch the sizes of what the next ones will free."""
    if device.type == "cpu":
        with memory_profile(coordinator):
            workload()
    else:
        workload()


def _record(
    workload: Workload, device: torch.device, steps: int, coordinator: Coordinator
) -> Recorded:
    """The steps, with the identities that were seen before, in and after them."""
    torch = import_torch()
    gc.collect()
    before = identities(device, workload.step)
    held = _held(torch, device, before)
    seen: list[Identities] = []
    with memory_profile(coordinator, record_shapes=True) as profile, ExitStack() as stack:
        _watch_modules(torch, stack)
        note = _watch_optimizers(torch, stack, device, seen)
        begin_ns = time_ns()
        for _ in range(steps):
            workload()
            # What a step made and kept may be a gradient or a parameter by now.
            note(identities(device, workload.step))
    roots = profile.profiler.kineto_results.experimental_event_tree()
    parameters = [a for a, (category, _) in before.items() if category == "parameter"]
    walked = walk(roots, device, parameters)
    first = walked.events[0].time_ns if walked.events else begin_ns
    return Recorded(
        begin_ns=min(begin_ns, first),
        held=held,
        events=walked.events,
        read=frozenset(walked.read),
        backward_ns=walked.backward_ns,
        # What was seen by name comes last, and stands.
        seen=[*walked.accumulated, *_dated(walked, seen)],
    )


def _dated(walked: Walked, seen: list[Identities]) -> list[tuple[int, Identities]]:
    """The identities with the moments of their marks; inputs are told by what happens to them."""
    return [
        (
            walked.marks[number],
            {a: what for a, what in found.items() if what[0] != "input"},
        )
        for number, found in enumerate(seen)
        if number in walked.marks
    ]


def _held(torch: Any, device: torch.device, known: Identities) -> list[Held]:
    """What is alive on `device`, with the identities that are known."""
    if device.type == "cuda":
        return _blocks(torch, device, known)
    sizes: dict[int, tuple[int, str]] = {}
    for tensor in objects_of(torch.Tensor):
        for part in (tensor, *_gradients(tensor)):
            for address, size in storages(torch, part, device):
                sizes[address] = (size, "x".join(map(str, part.shape)) or "scalar")
    return [
        Held(address, size, *known.get(address, (None, f"tensor {shape}")))
        for address, (size, shape) in sizes.items()
        if size
    ]


def _gradients(tensor: Any) -> list[Any]:
    # A gradient has no Python object of its own until someone asks for it.
    try:
        gradient = tensor.grad if tensor.is_leaf else None
    except (RuntimeError, NotImplementedError, AttributeError, ValueError):
        return []
    return [] if gradient is None or gradient is tensor else [gradient]


def _blocks(torch: Any, device: torch.device, known: Identities) -> list[Held]:
    """The allocator's blocks in use on a GPU: what lies within one is what it is."""
    index = device.index or 0
    blocks = sorted(
        (block["address"], block["size"])
        for segment in torch.cuda.memory_snapshot()
        if segment["device"] == index
        for block in segment["blocks"]
        if block["state"] != "inactive"
    )
    starts = [address for address, _ in blocks]
    named: dict[int, tuple[str, str]] = {}
    for address, what in known.items():
        at = bisect_right(starts, address) - 1
        if at >= 0 and address < blocks[at][0] + blocks[at][1]:
            named.setdefault(blocks[at][0], what)
    return [Held(a, size, *named.get(a, (None, f"block of {size} bytes"))) for a, size in blocks]


def _watch_modules(torch: Any, stack: ExitStack) -> None:
    """A span around each module's forward, named by the module's path."""
    # torch.compile warns of such hooks; they are ours, and gone after the pass.
    stack.enter_context(warnings.catch_warnings())
    warnings.filterwarnings(
        "ignore", r"Using `torch\.compile\(module\)` when there are global hooks"
    )
    hooks = torch.nn.modules.module
    names = {key: f"{MODULE}{path}" for key, (path, _) in module_paths().items()}
    spans: list[Any] = []

    def enter(module: Any, _args: object) -> None:
        name = names.get(id(module), f"{MODULE}{type(module).__name__}")
        span = torch.profiler.record_function(name)
        span.__enter__()
        spans.append(span)

    def leave(_module: Any, _args: object, _result: object) -> None:
        if spans:
            spans.pop().__exit__(None, None, None)

    stack.callback(hooks.register_module_forward_pre_hook(enter).remove)
    stack.callback(hooks.register_module_forward_hook(leave, always_call=True).remove)


def _watch_optimizers(
    torch: Any, stack: ExitStack, device: torch.device, seen: list[Identities]
) -> Callable[[Identities], None]:
    """Note gradients and state around each optimizer's step; what is returned notes any moment."""

    def note(found: Identities) -> None:
        with torch.profiler.record_function(f"{MARK}{len(seen)}"):
            seen.append(found)

    def around(optimizer: Any, _args: object, _kwargs: object) -> None:
        note(of_optimizer(device, optimizer))

    # torch.optim hides this module of its own as an attribute.
    hooks = import_module("torch.optim.optimizer")
    stack.callback(hooks.register_optimizer_step_pre_hook(around).remove)
    stack.callback(hooks.register_optimizer_step_post_hook(around).remove)
    return note
