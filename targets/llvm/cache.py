"""The on-disk cache of compiled kernels.

A second compile of the same kernel for the same machine costs one file read. The key is a hash of the IR
text, the machine, and the versions of compiler and LLVM (`cache_key`), so an entry never has to be
invalidated. The cache is a convenience: whatever goes wrong with it (no home folder, no space, a damaged
file, a folder that others may write) is a miss, never an error.

The folder is private (mode 0700): object code that is loaded into a process must not come from a place
where somebody else may put it. A file is written under a temporary name and renamed, so that readers see
whole entries only. Entries carry a checksum. When the total size passes a bound, the entries that were used
longest ago go first.

`TILEWRIGHT_CACHE_DIR` names another folder; set to the empty string it switches the cache off.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from pathlib import Path

from .codegen import Machine, codegen_version

MAX_BYTES = 512 * 1024 * 1024
_MAGIC = b"TWK1"
_DIGEST_BYTES = 32


def cache_key(text: str, machine: Machine, compiler_version: str) -> str:
    """The name of an entry: a hash of everything the object code depends on."""
    digest = hashlib.sha256()
    for part in (machine.triple, machine.cpu, machine.features, compiler_version, codegen_version(), text):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class KernelCache:
    """Object code by key, in a private folder; without a usable folder every lookup is a miss."""

    def __init__(self, folder: Path | None = None, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.folder = _private_folder(folder if folder is not None else default_folder())

    def get(self, key: str) -> bytes | None:
        """The entry's bytes, or None if there is none or it is damaged."""
        if self.folder is None:
            return None
        path = self.folder / f"{key}.o"
        try:
            data = path.read_bytes()
        except OSError:
            return None
        payload = data[len(_MAGIC) + _DIGEST_BYTES :]
        if data != _sealed(payload):
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return payload

    def put(self, key: str, payload: bytes) -> None:
        """Store an entry; a failure to write leaves the cache as it was."""
        if self.folder is None:
            return
        temporary = None
        try:
            handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=".new-")
            with os.fdopen(handle, "wb") as file:
                file.write(_sealed(payload))
            os.replace(temporary, self.folder / f"{key}.o")
        except OSError:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)

    def trim(self) -> None:
        """Remove the entries used longest ago until the rest fits; called once after a batch of `put`."""
        if self.folder is None:
            return
        entries: list[tuple[float, int, Path]] = []
        try:
            for path in self.folder.iterdir():
                with contextlib.suppress(OSError):
                    status = path.stat()
                    entries.append((status.st_mtime, status.st_size, path))
        except OSError:
            return
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.max_bytes:
                return
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size


def default_folder() -> Path | None:
    """`$TILEWRIGHT_CACHE_DIR/kernels`, else `~/.cache/tilewright/kernels`; None when caching is off."""
    named = os.environ.get("TILEWRIGHT_CACHE_DIR")
    if named is not None:
        return Path(named) / "kernels" if named else None
    try:
        return Path.home() / ".cache" / "tilewright" / "kernels"
    except RuntimeError:
        return None


def _private_folder(folder: Path | None) -> Path | None:
    """The folder, made if need be, if it is ours and nobody else can write there."""
    if folder is None:
        return None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return None
        if status.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError:
        return None
    return folder


def _sealed(payload: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(payload).digest() + payload
