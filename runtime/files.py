"""Files that appear under their name when they are complete, and not at all when something fails before.

Both sides of an artefact use this: what is written lies under a temporary name beside the file until ``commit``.
Devices and pipes (``/dev/null``) are written in place, since a rename would put a file where the device was; a
symbolic link stays, and the file that it points to is replaced.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from .errors import ArtefactError


class OutputFile:
    """A file being written; leaving ``with`` commits it, an exception on the way discards it.

    ::

        with OutputFile("out.npz") as output:
            output.file.write(data)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._target = Path(os.path.realpath(path))
        self._temporary: Path | None = None
        try:
            self.file: BinaryIO = self._open()
        except (OSError, ValueError) as error:
            raise self.failure(error) from None

    def commit(self) -> None:
        """The file is complete: give it its name."""
        try:
            self.file.close()
            if self._temporary is not None:
                os.replace(self._temporary, self._target)
                self._temporary = None
        except OSError as error:
            self.discard()
            raise self.failure(error) from None

    def discard(self) -> None:
        """Leave nothing behind; after ``commit`` this does nothing."""
        with contextlib.suppress(OSError):
            self.file.close()
        if self._temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._temporary)
            self._temporary = None

    def stream(self) -> Any:
        """The file for one who asks for positions: a device gives none that mean anything, so it has only ``write``."""
        return self.file if self._temporary is not None else _WriteOnly(self.file)

    def failure(self, error: OSError | ValueError) -> ArtefactError:
        """What a failed write is to the user: the file is the one that was asked for, not a temporary one."""
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        return ArtefactError(f"cannot write '{self.path}': {reason}")

    def _open(self) -> BinaryIO:
        if self.path.exists() and not stat.S_ISREG(os.stat(self.path).st_mode):
            return open(self.path, "wb")
        for name in _temporary_names(self._target.name):
            candidate = self._target.with_name(name)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            try:
                handle = os.open(candidate, flags, 0o666)
            except FileExistsError:
                continue
            self._temporary = candidate
            return os.fdopen(handle, "wb")
        raise FileExistsError(0, "no free temporary name beside it")

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
            return
        self.discard()
        if isinstance(error, OSError):
            raise self.failure(error) from None


class _WriteOnly:
    def __init__(self, file: BinaryIO) -> None:
        self.write, self.flush = file.write, file.flush


def _temporary_names(name: str) -> Iterator[str]:
    return (f".{name[:40]}.{os.getpid()}-{attempt}.tmp" for attempt in range(1000))
