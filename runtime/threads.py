"""The process's one thread pool, shared by every loaded model.

The pool is native code that each artefact carries; the first artefact loaded supplies it for the whole
process. It is never unloaded. Host programs and kernels reach it through a context table whose address every
entry is given.
"""

from __future__ import annotations

import ctypes
import operator
import os
import threading

from .errors import ArtefactError, ExecutionError
from .jit import LoadedCode

CONTEXT_VERSION = 1
_MOST = 1 << 30
"""Far more than the pool makes; keeps the number within 64 bits."""

_CREATE, _SET, _GET = "tw_context_create", "tw_context_set_threads", "tw_context_threads"


def set_num_threads(count: int) -> None:
    """How many threads a model may use, the caller included; 0 means one per processor. Takes effect at once."""
    count = operator.index(count)
    if count < 0:
        raise ValueError(f"number of threads is {count}, expected 0 or more")
    _POOL.set(min(count, _MOST))


def get_num_threads() -> int:
    """How many threads a model may use."""
    return _POOL.threads


class Pool:
    """The native context: created when the first model is loaded, kept until the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._code: LoadedCode | None = None
        self._address = 0
        self._asked = _asked_by_environment()

    def attach(self, image: bytes) -> int:
        """The address of the context table; ``image`` is the runtime's object code, used if there is none
        yet.
        """
        with self._lock:
            if not self._address:
                self._create(image)
            return self._address

    def set(self, count: int) -> None:
        with self._lock:
            self._asked = count
            if self._code is not None:
                self._code.function(_SET, None, ctypes.c_void_p, ctypes.c_int64)(self._address, count)

    @property
    def threads(self) -> int:
        with self._lock:
            if self._code is not None:
                return int(self._code.function(_GET, ctypes.c_int64, ctypes.c_void_p)(self._address))
            return self._asked if self._asked else _processors()

    def _create(self, image: bytes) -> None:
        code = LoadedCode([image], [_CREATE, _SET, _GET])
        address = code.function(_CREATE, ctypes.c_void_p, ctypes.c_int64)(self._asked)
        if not address:
            raise ExecutionError("no memory for the thread pool")
        version = ctypes.c_int64.from_address(address).value
        if version != CONTEXT_VERSION:
            raise ArtefactError(f"the thread pool has version {version}, expected {CONTEXT_VERSION}")
        self._code, self._address = code, address


def process_pool() -> Pool:
    """The pool of this process."""
    return _POOL


def _asked_by_environment() -> int:
    word = os.environ.get("TILEWRIGHT_NUM_THREADS", "")
    return min(int(word), _MOST) if word.isascii() and word.isdigit() else 0


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


_POOL = Pool()
