"""What a file is packed in, found by its first bytes, never by its name: bytes in, text out.

Plain, gzip (several members too), zip, zstd, bzip2 and xz; each read in chunks, so that memory
does not follow the size. Damage is kept as :attr:`Unpacked.problem`, after every whole byte
before it was handed out.
"""

from __future__ import annotations

import bz2
import contextlib
import importlib
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any

from gpuperf_analyzers.trace.bounds import KIB, Bounds
from gpuperf_analyzers.trace.model import TraceError

_fast_zlib: Any
try:
    from isal import isal_zlib

    _fast_zlib = isal_zlib
except ImportError:  # no wheel for this machine: three times slower, no less right
    _fast_zlib = zlib

_READ = 64 * KIB
_USUAL_RATIO = 15
"""Times that a packed trace inflates, rather less than more."""
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


class Unpacked:
    """The text bytes of one open file.

    Attributes
    ----------
    kind
        ``plain``, ``gzip``, …
    problem
        Why the text ended early, "" where it did not; set when the last chunk was read.
    expected
        About how many bytes of text there are, by the file's size; 0 where that is not known.
    """

    def __init__(self, file: IO[bytes], name: str, bounds: Bounds) -> None:
        self.name = name
        self.problem = ""
        self._file = file
        self._bounds = bounds
        self._packed = 0
        self._given = 0
        head = file.read(512)
        self.kind = _kind(head)
        self.expected = _size(file) * (1 if self.kind == "plain" else _USUAL_RATIO)
        if self.kind == "zip":
            file.seek(0)
            self._chunks = self._zip()
        elif self.kind == "gzip":
            self._chunks = self._gzip(head)
        elif self.kind == "plain":
            self._chunks = self._plain(head)
        else:
            self._chunks = self._stream(head, _decompressor(self.kind, name))

    def __iter__(self) -> Iterator[bytes]:
        bounds = self._bounds
        for chunk in self._chunks:
            self._given += len(chunk)
            if self._given > bounds.inflated:
                raise TraceError(
                    f"{self.name}: more than {bounds.inflated >> 20} MiB of text: "
                    "split the trace, or raise the bound"
                )
            if (
                self._given > bounds.ratio_from
                and self.kind != "plain"
                and self._given > bounds.ratio * max(self._packed, 1)
            ):
                raise TraceError(
                    f"{self.name}: inflates more than {bounds.ratio} times, which no trace does: "
                    "a decompression bomb is not read"
                )
            if chunk:
                yield chunk

    def _read(self, size: int = _READ) -> bytes:
        data = self._file.read(size)
        self._packed += len(data)
        return data

    def _plain(self, head: bytes) -> Iterator[bytes]:
        yield head
        while data := self._file.read(self._bounds.block):
            yield data

    def _gzip(self, head: bytes) -> Iterator[bytes]:
        data = head
        self._packed = len(head)
        while True:
            inflate = _fast_zlib.decompressobj(31)
            begun = self._packed - len(data)
            member = 0
            while not inflate.eof:
                ended = not data and not (data := self._read())
                try:
                    out = inflate.decompress(data, self._bounds.block)
                except (zlib.error, _fast_zlib.error) as error:
                    yield from self._last_of_member(begun, member, str(error))
                    return
                if ended and not out and not inflate.eof:
                    self.problem = f"the gzip stream is cut off at byte {self._packed} of the file"
                    return
                data = inflate.unconsumed_tail
                member += len(out)
                yield out
            data = (inflate.unused_data or data).lstrip(b"\0")
            while not data:
                more = self._read()
                if not more:
                    return
                data = more.lstrip(b"\0")
            if len(data) < 2:
                data += self._read()
            if data[:2] != _GZIP:
                at = self._packed - len(data)
                self.problem = f"byte {at} of the file: not gzip any more"
                return

    def _last_of_member(self, begun: int, given: int, reason: str) -> Iterator[bytes]:
        """Text of a damaged gzip member after its first `given` bytes, up to the damage.

        The fast decompressor drops what it made in the call that failed; zlib, fed byte by
        byte where it fails, gives the last whole one.
        """
        self._file.seek(begun)
        inflate = zlib.decompressobj(31)
        at, skip = begun, given
        while data := self._file.read(_READ):
            before = inflate.copy()
            try:
                out = inflate.decompress(data)
            except zlib.error:
                out, read = _bytewise(before, data)
                at += read
                data = b""
            out, skip = out[skip:], max(0, skip - len(out))
            yield out
            if not data:
                break
            at += len(data)
        self.problem = f"the gzip stream is damaged near byte {at} of the file ({_short(reason)})"

    def _stream(self, head: bytes, inflate: Any) -> Iterator[bytes]:
        data = head
        self._packed = len(head)
        while True:
            try:
                out = inflate.decompress(data, self._bounds.block)
            except Exception as error:  # noqa: BLE001  # each codec raises its own type
                self.problem = f"the {self.kind} stream is damaged ({_short(str(error))})"
                return
            yield out
            if inflate.eof:
                return
            data = b""
            if inflate.needs_input and not (data := self._read()):
                self.problem = (
                    f"the {self.kind} stream is cut off at byte {self._packed} of the file"
                )
                return

    def _zip(self) -> Iterator[bytes]:
        try:
            archive = zipfile.ZipFile(self._file)
        except zipfile.BadZipFile as error:
            raise TraceError(
                f"{self.name}: a damaged zip archive ({error}): copy it again"
            ) from None
        with archive:
            member = self._only_member(archive)
            try:
                with archive.open(member) as text:
                    # Sizes in the directory are not trusted: what is read is what counts.
                    self._packed = member.compress_size
                    while data := text.read(self._bounds.block):
                        yield data
            except (zipfile.BadZipFile, zlib.error, EOFError, lzma.LZMAError, OSError) as error:
                self.problem = f"the zip member is damaged ({_short(str(error))})"
            except (NotImplementedError, RuntimeError) as error:
                raise TraceError(f"{self.name}: {error}: unpack it first") from None

    def _only_member(self, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
        members = [m for m in archive.infolist() if not m.is_dir()]
        traces = [m for m in members if m.filename.endswith((".json", ".json.gz"))]
        if any(m.filename.endswith("data.pkl") for m in members):
            raise TraceError(
                f"{self.name}: a saved PyTorch model, not a trace: "
                "give the file that prof.export_chrome_trace wrote"
            )
        chosen = traces or members
        if len(chosen) != 1:
            raise TraceError(
                f"{self.name}: a zip archive of {len(chosen)} files: unpack it and read the folder"
            )
        if chosen[0].filename.endswith(".gz"):
            raise TraceError(f"{self.name}: a zip archive of a gzip file: unpack the archive")
        return chosen[0]


def _kind(head: bytes) -> str:
    if head.startswith(_GZIP):
        return "gzip"
    if head.startswith(_ZSTD):
        return "zstd"
    if head.startswith(b"PK\x03\x04"):
        return "zip"
    if head.startswith(b"BZh"):
        return "bzip2"
    if head.startswith(b"\xfd7zXZ\0"):
        return "xz"
    return "plain"


def _decompressor(kind: str, name: str) -> Any:
    if kind == "bzip2":
        return bz2.BZ2Decompressor()
    if kind == "xz":
        return lzma.LZMADecompressor(memlimit=256 * 2**20)
    for module in ("compression.zstd", "backports.zstd"):  # Python 3.14's own, or its backport
        with contextlib.suppress(ImportError):
            return importlib.import_module(module).ZstdDecompressor()
    raise TraceError(
        f"{name}: packed with zstd: unpack it with `zstd -d`, or pip install 'pytest-gpuperf[zstd]'"
    )


def _bytewise(inflate: Any, data: bytes) -> tuple[bytes, int]:
    """What `inflate` gives of `data` before it fails, and how many bytes that took."""
    out = bytearray()
    taken = 0
    with contextlib.suppress(zlib.error):
        for byte in data:
            out += inflate.decompress(bytes((byte,)))
            taken += 1
    return bytes(out), taken


def _short(text: str) -> str:
    return text.splitlines()[0][:80] if text else "no reason given"


def _size(file: IO[bytes]) -> int:
    """Bytes of an open file; 0 where it is no file of this machine."""
    try:
        return os.fstat(file.fileno()).st_size
    except (OSError, AttributeError, ValueError):
        return 0
