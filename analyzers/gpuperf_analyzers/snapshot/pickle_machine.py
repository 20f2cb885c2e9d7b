"""The stack machine that a pickle is a program for; only its harmless half exists.

There is no instruction to import, to call or to make an object of a class, so there is nothing to
restrict: what such an instruction would do is told in an error. Everything that could grow is
limited.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuperf_analyzers.snapshot.opcodes import REFUSED
from gpuperf_analyzers.snapshot.pickle_operands import LONGEST_INTEGER, Operands, PlainPickleError

_NEWEST_PROTOCOL = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """What a pickle may ask for at most.

    Attributes
    ----------
    values
        Instructions, and with them values and memo entries; a run of references to values that
        were given before counts as one, up to a thousand.
    containers
        Dicts, lists and tuples; and no more than 100,000 and one for every 8 bytes of the pickle.
        The memo is limited so too. The smallest block or event of a snapshot takes 24 bytes for
        each of its containers and memo entries.
    depth
        Containers within each other.
    waiting
        Values that are in no container yet; pickle writes containers by the thousand.
    """

    values: int = 100_000_000
    containers: int = 20_000_000
    depth: int = 64
    waiting: int = 1_000_000

    def memory(self, size: int) -> int:
        """Containers, and memo entries, of a pickle of `size` bytes.

        One byte can ask for 50 to 130 bytes of memory.
        """
        return min(self.containers, 100_000 + size // 8)


def run_pickle(data: bytes | memoryview, limits: Limits) -> Any:
    """What the program `data` leaves on top when it stops, containers of any depth.

    Raises
    ------
    PlainPickleError
        It is damaged, asks for too much, or for an instruction that is not here.
    """
    return _Machine(data, limits).run()


class _Machine(Operands):
    """The stack, the marks and the memo; a method for each instruction."""

    __slots__ = ("_containers", "_limits", "_marks", "_memo", "_most", "_stack")

    def __init__(self, data: bytes | memoryview, limits: Limits) -> None:
        super().__init__(data)
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._containers = 0
        self._limits = limits
        self._most = limits.memory(self._end)

    def run(self) -> Any:
        """The value on top when the program stops."""
        data, end, handlers = self._data, self._end, _HANDLERS
        values = self._limits.values
        for count in range(values):
            if count & _LOOK == 0:
                self._check_memory()
            at = self._at
            if at >= end:
                raise PlainPickleError("it is truncated: the data ends without its STOP")
            code = data[at]
            self._at = at + 1
            if code == _STOP and self._stack:
                return self._pop()
            handler = handlers[code]
            if handler is None:
                raise PlainPickleError(_why_refused(code, at))
            try:
                handler(self)
            except IndexError:
                raise PlainPickleError(
                    f"it is damaged: an instruction at byte {at:,} lacks what it works on"
                ) from None
        raise PlainPickleError(f"it holds more than {values:,} values")

    def _check_memory(self) -> None:
        """Refuse what takes memory by values that no container and no later instruction needs."""
        waiting = len(self._stack) + sum(map(len, self._marks))
        if waiting > self._limits.waiting:
            raise PlainPickleError(
                f"more than {self._limits.waiting:,} values of it are in no container"
            )
        if len(self._memo) > self._most:
            raise PlainPickleError(f"it keeps more than {self._most:,} values for later")

    def _pop(self) -> Any:
        return self._stack.pop()

    def _to_mark(self) -> list[Any]:
        """What was pushed since the last mark, which is gone then."""
        items = self._stack
        self._stack = self._marks.pop()
        return items

    def _push_container(self, made: Any) -> None:
        self._containers += 1
        if self._containers > self._most:
            raise PlainPickleError(f"it holds more than {self._most:,} containers")
        self._stack.append(made)

    # Instructions.

    def proto(self) -> None:
        version = self._take(1)[0]
        if version > _NEWEST_PROTOCOL:
            raise PlainPickleError(f"it is of pickle protocol {version}, newer than 5")

    def frame(self) -> None:
        if (size := self._unsigned(8)) > self._end - self._at:
            raise PlainPickleError(f"it is truncated: a frame of {size:,} bytes goes past the end")

    def mark(self) -> None:
        if len(self._marks) >= self._limits.depth:
            raise PlainPickleError(
                f"containers lie more than {self._limits.depth} deep within each other"
            )
        self._marks.append(self._stack)
        self._stack = []

    def pop(self) -> None:
        self._pop()

    def pop_mark(self) -> None:
        self._to_mark()

    def dup(self) -> None:
        self._stack.append(self._stack[-1])

    def none(self) -> None:
        self._stack.append(None)

    def true(self) -> None:
        self._stack.append(True)

    def false(self) -> None:
        self._stack.append(False)

    def integer4(self) -> None:
        self._stack.append(int.from_bytes(self._take(4), "little", signed=True))

    def integer1(self) -> None:
        self._stack.append(self._take(1)[0])

    def integer2(self) -> None:
        self._stack.append(self._unsigned(2))

    def long1(self) -> None:
        self._long(self._take(1)[0])

    def long4(self) -> None:
        self._long(self._unsigned(4))

    def _long(self, width: int) -> None:
        if width > LONGEST_INTEGER:
            raise PlainPickleError(f"an integer of {width:,} bytes is no size and no address")
        self._stack.append(int.from_bytes(self._take(width), "little", signed=True))

    def integer_line(self) -> None:
        line = self._line()
        if line in (b"00", b"01"):
            self._stack.append(line == b"01")
        else:
            self._stack.append(self._number(line, int))

    def long_line(self) -> None:
        self._stack.append(self._number(self._line().removesuffix(b"L"), int))

    def float_line(self) -> None:
        self._stack.append(self._number(self._line(), float))

    def float8(self) -> None:
        self._stack.append(struct.unpack(">d", self._take(8))[0])

    def text1(self) -> None:
        # The commonest instruction: no more calls than it takes.
        at = self._at
        stop = at + 1 + self._data[at]
        if stop > self._end:
            self._take(stop - at)
        self._at = stop
        self._stack.append(str(self._data[at + 1 : stop], "utf-8", "replace"))

    def text4(self) -> None:
        self._text(self._unsigned(4))

    def text8(self) -> None:
        self._text(self._unsigned(8))

    def _text(self, width: int) -> None:
        self._stack.append(str(self._take(width), "utf-8", "replace"))

    def text_line(self) -> None:
        self._stack.append(str(self._line(), "raw_unicode_escape", "replace"))

    def quoted_line(self) -> None:
        line = self._line().strip()
        if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
            raise PlainPickleError("it is damaged: a text without its quotes")
        self._stack.append(str(line[1:-1], "latin-1"))

    def bytes1(self) -> None:
        self._stack.append(self._take(self._take(1)[0]))

    def bytes4(self) -> None:
        self._stack.append(self._take(self._unsigned(4)))

    def bytes8(self) -> None:
        self._stack.append(self._take(self._unsigned(8)))

    def old_text1(self) -> None:
        self._stack.append(str(self._take(self._take(1)[0]), "latin-1"))

    def old_text4(self) -> None:
        self._stack.append(str(self._take(self._unsigned(4)), "latin-1"))

    def empty_list(self) -> None:
        self._push_container([])

    def empty_dict(self) -> None:
        self._push_container({})

    def empty_tuple(self) -> None:
        self._push_container(())

    def list_to_mark(self) -> None:
        self._push_container(self._to_mark())

    def tuple_to_mark(self) -> None:
        self._push_container(tuple(self._to_mark()))

    def dict_to_mark(self) -> None:
        items = self._to_mark()
        made: dict[str, Any] = {}
        _set_items(made, items)
        self._push_container(made)

    def tuple1(self) -> None:
        self._tuple(1)

    def tuple2(self) -> None:
        self._tuple(2)

    def tuple3(self) -> None:
        self._tuple(3)

    def _tuple(self, count: int) -> None:
        if len(self._stack) < count:
            raise IndexError
        items = tuple(self._stack[-count:])
        del self._stack[-count:]
        self._push_container(items)

    def append(self) -> None:
        value = self._pop()
        self._target(list).append(value)

    def appends(self) -> None:
        items = self._to_mark()
        self._target(list).extend(items)

    def set_item(self) -> None:
        value, key = self._pop(), self._pop()
        _set_items(self._target(dict), [key, value])

    def set_items(self) -> None:
        items = self._to_mark()
        _set_items(self._target(dict), items)

    def _target(self, kind: type) -> Any:
        target = self._stack[-1]
        if type(target) is not kind:
            raise PlainPickleError(
                f"it is damaged: items for a {kind.__name__} are given to a {type(target).__name__}"
            )
        return target

    def put1(self) -> None:
        self._put(self._take(1)[0])

    def put4(self) -> None:
        self._put(self._unsigned(4))

    def put_line(self) -> None:
        self._put(int(self._number(self._line(), int)))

    def memoize(self) -> None:
        memo = self._memo
        memo[len(memo)] = self._stack[-1]

    def _put(self, index: int) -> None:
        # A dict, so that a large index costs an entry and not an array.
        self._memo[index] = self._stack[-1]

    def get1(self) -> None:
        at = self._at
        self._at = at + 1
        self._get(self._data[at])

    def get4(self) -> None:
        # Most of a long history is these: the frames of stacks are shared. A run at once.
        run = _RUN_OF_GETS.match(self._data, self._at - 1)
        if run is None:
            self._take(4)  # says what is wrong
            return
        memo = self._memo
        try:
            self._stack += [memo[index] for (index,) in _GET4.iter_unpack(run.group())]
        except KeyError as missing:
            raise PlainPickleError(_not_given(int(missing.args[0]))) from None
        self._at = run.end()

    def get_line(self) -> None:
        self._get(int(self._number(self._line(), int)))

    def _get(self, index: int) -> None:
        try:
            self._stack.append(self._memo[index])
        except KeyError:
            raise PlainPickleError(_not_given(index)) from None


def _set_items(target: dict[str, Any], items: list[Any]) -> None:
    if len(items) % 2:
        raise IndexError
    keys = items[::2]
    for key in keys:
        # Text only: deep tuples hash recursively, and chosen integers collide.
        if type(key) is not str:
            raise PlainPickleError(f"a key is {type(key).__name__}, and only text is a key")
    target.update(zip(keys, items[1::2], strict=True))


def _not_given(index: int) -> str:
    return f"it is damaged: value {index} is referred to before it is given"


def _why_refused(code: int, at: int) -> str:
    if code in REFUSED:
        name, does = REFUSED[code]
        return (
            f"refused: its instruction {name} at byte {at:,} {does}, and a snapshot is "
            "containers, text and numbers only"
        )
    return f"it is no pickle, or damaged: byte {at:,} ({code:#04x}) is no instruction"


_STOP = ord(".")
_LOOK = 2**12 - 1
"""Instructions between two looks at the memory, a power of 2 less 1."""
_RUN_OF_GETS = re.compile(rb"(?:j.{4}){1,1000}", re.DOTALL)
_GET4 = struct.Struct("<xI")
_M = _Machine
_BY_CODE: dict[int, Callable[[_Machine], None]] = {
    0x80: _M.proto, 0x95: _M.frame,
    ord("("): _M.mark, ord("0"): _M.pop, ord("1"): _M.pop_mark, ord("2"): _M.dup,
    ord("N"): _M.none, 0x88: _M.true, 0x89: _M.false,
    ord("J"): _M.integer4, ord("K"): _M.integer1, ord("M"): _M.integer2,
    0x8A: _M.long1, 0x8B: _M.long4, ord("I"): _M.integer_line, ord("L"): _M.long_line,
    ord("F"): _M.float_line, ord("G"): _M.float8,
    0x8C: _M.text1, ord("X"): _M.text4, 0x8D: _M.text8, ord("V"): _M.text_line,
    ord("S"): _M.quoted_line, ord("U"): _M.old_text1, ord("T"): _M.old_text4,
    ord("C"): _M.bytes1, ord("B"): _M.bytes4, 0x8E: _M.bytes8,
    ord("]"): _M.empty_list, ord("}"): _M.empty_dict, ord(")"): _M.empty_tuple,
    ord("l"): _M.list_to_mark, ord("t"): _M.tuple_to_mark, ord("d"): _M.dict_to_mark,
    0x85: _M.tuple1, 0x86: _M.tuple2, 0x87: _M.tuple3,
    ord("a"): _M.append, ord("e"): _M.appends, ord("s"): _M.set_item, ord("u"): _M.set_items,
    ord("q"): _M.put1, ord("r"): _M.put4, ord("p"): _M.put_line, 0x94: _M.memoize,
    ord("h"): _M.get1, ord("j"): _M.get4, ord("g"): _M.get_line,
}  # fmt: skip
_HANDLERS: list[Callable[[_Machine], None] | None] = [_BY_CODE.get(code) for code in range(256)]
