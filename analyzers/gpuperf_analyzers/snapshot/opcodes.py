"""Names of the pickle opcodes that are refused, and why each could do harm or is not needed."""

from __future__ import annotations

REFUSED: dict[int, tuple[str, str]] = {
    ord("c"): ("GLOBAL", "names a class or function"),
    0x93: ("STACK_GLOBAL", "names a class or function"),
    ord("i"): ("INST", "makes an object of a class"),
    ord("o"): ("OBJ", "makes an object of a class"),
    0x81: ("NEWOBJ", "makes an object of a class"),
    0x92: ("NEWOBJ_EX", "makes an object of a class"),
    ord("R"): ("REDUCE", "calls a function"),
    ord("b"): ("BUILD", "sets the state of an object"),
    0x82: ("EXT1", "names a registered class"),
    0x83: ("EXT2", "names a registered class"),
    0x84: ("EXT4", "names a registered class"),
    ord("P"): ("PERSID", "asks for an object from elsewhere"),
    ord("Q"): ("BINPERSID", "asks for an object from elsewhere"),
    0x97: ("NEXT_BUFFER", "asks for a buffer from elsewhere"),
    0x98: ("READONLY_BUFFER", "asks for a buffer from elsewhere"),
    0x8F: ("EMPTY_SET", "makes a set"),
    0x90: ("ADDITEMS", "makes a set"),
    0x91: ("FROZENSET", "makes a set"),
    0x96: ("BYTEARRAY8", "makes a bytearray"),
}
"""By opcode: its name in the standard library's ``pickletools``, and what it does."""
