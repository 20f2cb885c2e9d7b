"""What a stretch of a critical path is, and what led the path from one thing to another."""

from __future__ import annotations

from enum import IntEnum


class PathClass(IntEnum):
    """The class of a stretch of time on the path."""

    COMPUTE = 0
    """A kernel that is not communication; on a CPU run an op."""
    COMM = 1
    """A communication kernel; on a CPU run a span of gloo."""
    MEMORY = 2
    """A copy or a fill on the device."""
    LAUNCH = 3
    """Starting work on the device: launch calls on the host, and from call to start."""
    CPU = 4
    """The host's own work: ops, other calls, and what runs between them."""
    SYNC = 5
    """A blocking call, from the end of what it waited for to its return."""
    UNKNOWN = 6
    """Waiting that nothing in the trace explains: never counted as covered."""


class Basis(IntEnum):
    """Why the path goes from one thing to the one before it."""

    NONE = 0
    """Nothing came before it in the trace."""
    STREAM = 1
    """Order on one stream."""
    LAUNCH = 2
    """The call that launched it."""
    EVENT = 3
    """A wait for a CUDA event, as ``cuda_sync`` recorded it."""
    WAIT_CALL = 4
    """A wait for some event, assumed to be for what ended last on another stream."""
    GRAPH = 5
    """An edge inside a graph, assumed to come from what ended last on another stream."""
    BY_TIME = 6
    """A wait for another stream of which the trace shows no call."""
    SHARED = 7
    """Waiting while other streams fill the device."""
    SYNC_EVENT = 8
    """A blocking call for what ``cuda_sync`` says."""
    SYNC_CALL = 9
    """A blocking call, assumed to wait for what ended last inside it."""
    THREAD = 10
    """A thread without events, assumed to wait for what another one finished meanwhile."""
    OVERLAP = 11
    """A kernel that starts before its predecessor on the stream ends."""


ASSUMED: dict[Basis, str] = {
    Basis.WAIT_CALL: "a stream's wait for an unnamed event was for what ended last on another one",
    Basis.GRAPH: "a node of a graph waited for the node on another stream that ended last",
    Basis.BY_TIME: "work that started late waited for what ended last on another stream",
    Basis.SHARED: "work that started late while other work ran waited for room to run",
    Basis.SYNC_CALL: "a blocking call waited for the activity that ended last inside it",
    Basis.THREAD: "a thread without events waited for what another one finished meanwhile",
    Basis.OVERLAP: "a kernel that started before its predecessor ended started because of it",
}
"""What each basis that the trace does not state rests on."""
