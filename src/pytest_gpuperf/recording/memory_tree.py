"""The profiler's events of some steps as allocations with their phase and place.

Read from the tree that torch's own memory profile is made of: each allocation with its address,
each op with the storages that it read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gpuperf_analyzers.memory_categories import Event, Phase
from pytest_gpuperf.recording.memory_identity import Identities

MARK = "gpuperf::mark "
"""Begins the name of a span that marks a moment; its number follows."""
MODULE = "gpuperf::module "
"""Begins the name of a span around a module's forward; the module's path follows."""
OUTSIDE = "(outside ops)"
_NODE = "autograd::engine::evaluate_function: "
_COMPILED = ("Torch-Compiled Region", "CompiledFunction", "## Call CompiledFxGraph")


@dataclass(slots=True)
class Walked:
    """What the tree tells.

    ``read`` are addresses that ops of a forward pass read, ``marks`` the time of each mark by its
    number, ``accumulated`` what may have become a gradient, and when its node had ended: what
    lives on then has.
    """

    events: list[Event] = field(default_factory=list)
    backward_ns: list[int] = field(default_factory=list)
    marks: dict[int, int] = field(default_factory=dict)
    read: set[int] = field(default_factory=set)
    accumulated: list[tuple[int, Identities]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Context:
    phase: Phase = "forward"
    module: str = ""
    op: str = ""
    from_parameters: bool = False


def walk(roots: Iterable[Any], device: Any, parameters: Iterable[int]) -> Walked:
    """Every allocation on `device` in the trees `roots`, in order of time.

    Parameters
    ----------
    roots
        ``kineto_results.experimental_event_tree()``.
    device
        A ``torch.device``.
    parameters
        Addresses of parameters: what is made from them is told apart from what is not.
    """
    walked = Walked()
    made: set[int] = set(parameters)
    untouched: dict[int, Event] = {}
    waiting = [(root, _Context()) for root in sorted(roots, key=_start, reverse=True)]
    while waiting:
        event, context = waiting.pop()
        tag = event.tag.name
        if tag == "Allocation":
            _allocation(event, context, device, walked, made, untouched)
        elif tag == "TorchOp":
            inside = _entered(event, context, walked, made, untouched)
            waiting += [(child, inside) for child in reversed(event.children)]
        else:
            waiting += [(child, context) for child in reversed(event.children)]
    walked.events.sort(key=lambda e: e.time_ns)
    walked.backward_ns.sort()
    return walked


def _start(event: Any) -> int:
    start: int = event.start_time_ns
    return start


def _allocation(
    event: Any,
    context: _Context,
    device: Any,
    walked: Walked,
    made: set[int],
    untouched: dict[int, Event],
) -> None:
    fields = event.extra_fields
    if fields.device.type != device.type or fields.device.index not in (None, -1, device.index):
        return
    place = ": ".join(part for part in (context.module, context.op) if part) or OUTSIDE
    found = Event(event.start_time_ns, fields.ptr, fields.alloc_size, context.phase, place,
                  context.from_parameters)  # fmt: skip
    walked.events.append(found)
    made.discard(fields.ptr)
    if context.phase != "forward":
        if fields.alloc_size > 0:
            made.add(fields.ptr)  # gradients and state come from parameters
        return
    untouched.pop(fields.ptr, None)
    if fields.alloc_size > 0:
        if context.from_parameters:
            made.add(fields.ptr)
        else:
            untouched[fields.ptr] = found


def _entered(
    event: Any, context: _Context, walked: Walked, made: set[int], untouched: dict[int, Event]
) -> _Context:
    """The context inside `event`."""
    name: str = event.name
    known = _marked(event, name, context, walked)
    if known is not None:
        return known
    if context.phase != "forward":
        return context if context.op else _Context(context.phase, context.module, name)
    addresses = list(_addresses(event.extra_fields.inputs))
    walked.read.update(addresses)
    derived = context.from_parameters or not made.isdisjoint(addresses)
    if derived:
        for address in untouched.keys() & addresses:
            untouched[address].read_by_model = True
        if name.endswith("_"):
            # In place: what was written holds what was made from parameters.
            made.update(addresses[:1])
    return _Context("forward", context.module, context.op or name, derived)


def _marked(event: Any, name: str, context: _Context, walked: Walked) -> _Context | None:
    """The context inside a span or a node that is known by its name; None of any other op."""
    if name.startswith(MODULE):
        # A module called in a backward pass computes its forward pass again.
        phase: Phase = "forward" if context.phase == "backward" else context.phase
        return _Context(phase, name.removeprefix(MODULE), "", context.from_parameters)
    if name.startswith(MARK):
        walked.marks[int(name.removeprefix(MARK))] = event.start_time_ns
        return context
    if name.startswith("Optimizer."):
        return _Context("optimizer", "", name.partition("#")[2] or name)
    if name.startswith(_NODE):
        walked.backward_ns.append(event.start_time_ns)
        if name.endswith("AccumulateGrad"):
            walked.accumulated.append((event.end_time_ns, _adopted(event)))
        return _Context("backward", "", name.removeprefix(_NODE))
    if name.startswith(_COMPILED):
        return _Context(context.phase, context.module, context.op or name.partition(":")[0], True)
    if event.extra_fields.scope.name == "USER_SCOPE":
        return context
    return None


def _adopted(node: Any) -> Identities:
    """What a node that accumulates a gradient was given, or made: one of it may be the gradient."""
    found: Identities = {}
    waiting = list(node.children)
    while waiting:
        event = waiting.pop()
        waiting += event.children
        if event.tag.name == "Allocation":
            found[event.extra_fields.ptr] = ("gradient", "")
        elif event.name == "torch::autograd::AccumulateGrad":
            found |= dict.fromkeys(_addresses(event.extra_fields.inputs), ("gradient", ""))
    return found


def _addresses(inputs: Iterable[Any]) -> Iterator[int]:
    for each in inputs:
        if isinstance(each, list):
            yield from _addresses(each)
        else:
            address = getattr(each, "storage_data_ptr", None)
            if address:
                yield address
