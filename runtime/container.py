"""The file format of an artefact, ``model.twm``: a header, sections, and a manifest, all under checksums.

The container knows nothing of models. It is shared by the side that writes (``tools/``) and the side that
loads (``model.py``), so that the two cannot drift apart. Layout, little endian::

    0    64 bytes  header: magic, format version, place and checksum of the manifest, file size, header checksum
    64   ...       sections, each aligned as it asks (weights to a page, so that they can be mapped)
    ...  ...       manifest: JSON, sorted keys; its ``sections`` table gives name, kind, offset and size of each

Everything between header and manifest, padding included, is covered by CRC-32 checksums of fixed-size chunks
that the manifest lists. The bytes are a function of the contents alone: no time, no path, no random number.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import threading
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from .errors import ArtefactError
from .files import OutputFile
from .manifest import container_fault

MAGIC = b"TWMODEL\n"
FORMAT_VERSION = 1
PAGE = 4096
CHUNK = 8 << 20

_HEADER = struct.Struct("<8sIIQQQI16xI")
_HEADER_BYTES = 64
_MAX_MANIFEST = 1 << 30

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Section:
    """A named run of bytes. Its kind says how to use it: ``object``, ``runtime``, ``weights``, ``source``..."""

    name: str
    kind: str
    offset: int
    size: int


class ArtefactWriter:
    """Writes an artefact section by section; the file appears under its name only when it is complete.

    ::

        with ArtefactWriter(path) as writer:
            writer.add("kernels", "object", [image])
            writer.add("weights", "weights", chunks, align=PAGE)
            writer.finish(manifest)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._output = OutputFile(path)
        self._file = self._output.file
        self._checksums: list[int] = []
        self._sections: list[Section] = []
        self._file.write(bytes(_HEADER_BYTES))
        self._position = _HEADER_BYTES

    def add(self, name: str, kind: str, chunks: Iterable[Buffer], align: int = 64) -> Section:
        """Append a section; its bytes are taken from ``chunks`` one after another."""
        self._write(bytes(-self._position % align))
        start = self._position
        for chunk in chunks:
            self._write(chunk)
        section = Section(name, kind, start, self._position - start)
        self._sections.append(section)
        return section

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Add the section table and the checksums to the manifest, write it and the header, and name the
        file.
        """
        start = self._position
        table = [vars(section) for section in self._sections]
        sums = {"chunk": CHUNK, "crc32": self._checksums}
        payload = json.dumps(
            {**manifest, "sections": table, "checksums": sums}, sort_keys=True, separators=(",", ":")
        ).encode()
        header = _header(start, len(payload), zlib.crc32(payload))
        try:
            self._file.write(payload)
            self._file.seek(0)
            self._file.write(header)
        except OSError as error:
            raise self._output.failure(error) from None
        self._output.commit()

    def _write(self, data: Buffer) -> None:
        view = memoryview(data).cast("B") if not isinstance(data, bytes) else memoryview(data)
        while view:
            within = (self._position - _HEADER_BYTES) % CHUNK
            part = view[: CHUNK - within]
            if within == 0:
                self._checksums.append(0)
            self._checksums[-1] = zlib.crc32(part, self._checksums[-1])
            try:
                self._file.write(part)
            except OSError as error:
                raise self._output.failure(error) from None
            self._position += len(part)
            view = view[len(part) :]

    def __enter__(self) -> ArtefactWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.discard()


class Artefact:
    """An artefact mapped into memory, its header and manifest checked. Nothing is copied."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._map = _map_file(self.path)
        start, size = self._read_header()
        payload = self._map[start : start + size]
        if zlib.crc32(payload) != self._manifest_crc:
            raise self._damaged("the manifest does not match its checksum")
        try:
            self.manifest: dict[str, Any] = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise self._damaged(f"the manifest cannot be read ({error})") from None
        self.refuse(container_fault(self.manifest))
        self.sections = tuple(
            Section(entry["name"], entry["kind"], entry["offset"], entry["size"]) for entry in self.manifest["sections"]
        )
        self._manifest_start = start
        for section in self.sections:
            if section.size < 0 or section.offset < _HEADER_BYTES or section.offset + section.size > start:
                raise self._damaged(f"section '{section.name}' lies outside of the file")

    def of_kind(self, kind: str) -> list[Section]:
        """All sections of a kind, in file order."""
        return [section for section in self.sections if section.kind == kind]

    def read(self, section: Section) -> bytes:
        """A copy of a section's bytes."""
        return self._map[section.offset : section.offset + section.size]

    def refuse(self, fault: str | None) -> None:
        """ArtefactError for a fault of the manifest, nothing for ``None``."""
        if fault is not None:
            raise self._damaged(f"the manifest cannot be used ({fault})")

    @property
    def buffer(self) -> mmap.mmap:
        """The mapped file."""
        return self._map

    def verify(self, start: int = 0, end: int | None = None) -> None:
        """Compare the checksums of the chunks that overlap the byte range; large ranges use several threads."""
        sums = self.manifest["checksums"]
        chunk, expected = sums["chunk"], sums["crc32"]
        stop = self._manifest_start
        covered = -(-(stop - _HEADER_BYTES) // chunk)
        if len(expected) != covered:
            raise self._damaged(f"{len(expected)} checksums for {covered} chunks")
        last = stop if end is None else min(end, stop)
        chunks = range(max(0, start - _HEADER_BYTES) // chunk, -(-(last - _HEADER_BYTES) // chunk))

        def check(indices: range) -> None:
            with memoryview(self._map) as view:
                for index in indices:
                    begin = _HEADER_BYTES + index * chunk
                    with view[begin : min(begin + chunk, stop)] as part:
                        if zlib.crc32(part) != expected[index]:
                            bad.append(begin)

        bad: list[int] = []
        workers = [threading.Thread(target=check, args=(chunks[k::4],)) for k in range(1, min(4, len(chunks)))]
        for worker in workers:
            worker.start()
        check(chunks[::4] if workers else chunks)
        for worker in workers:
            worker.join()
        if bad:
            raise self._damaged(f"the bytes from {min(bad)} on do not match their checksum")

    def _read_header(self) -> tuple[int, int]:
        found = len(self._map)
        if found < _HEADER_BYTES or self._map[:8] != MAGIC:
            raise ArtefactError(f"'{self.path}' is not a tilewright model")
        header = self._map[:_HEADER_BYTES]
        _, version, _, start, size, total, self._manifest_crc, crc = _HEADER.unpack(header)
        if version != FORMAT_VERSION:
            raise ArtefactError(
                f"'{self.path}' has format version {version}, expected {FORMAT_VERSION}: compile the model again"
            )
        if crc != zlib.crc32(header[:-4]):
            raise self._damaged("the header does not match its checksum")
        if total != found:
            raise self._damaged(f"the file has {found} bytes, expected {total}")
        if start + size != total or size > _MAX_MANIFEST or start < _HEADER_BYTES:
            raise self._damaged("the manifest lies outside of the file")
        return start, size

    def _damaged(self, reason: str) -> ArtefactError:
        return ArtefactError(f"'{self.path}' is damaged: {reason}")


def _header(start: int, size: int, manifest_crc: int) -> bytes:
    packed = _HEADER.pack(MAGIC, FORMAT_VERSION, 0, start, size, start + size, manifest_crc, 0)
    return packed[:-4] + struct.pack("<I", zlib.crc32(packed[:-4]))


def _map_file(path: Path) -> mmap.mmap:
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError as error:
        reason = error if "\0" in str(path) else "the file is empty"
        raise ArtefactError(f"'{path}' is not a tilewright model: {reason}") from None
    except OSError as error:
        raise ArtefactError(f"cannot read '{path}': {error.strerror}") from None
