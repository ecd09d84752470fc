"""Many kernels to object code: the cache, this process, and worker processes behind one small class.

A `KernelCompiler` is given kernels one after another as they are lowered and hands out futures. Equal text
is compiled once. What the on-disk cache holds is not compiled at all. A handful of kernels is compiled in
this process, because a worker takes longer to start than they take to compile; from then on everything goes
to worker processes, which work while the caller lowers the next kernel. Code for another machine than this
one is always generated in a worker, since LLVM may abort on it.

    with KernelCompiler(machine, version) as compiler:
        futures = [compiler.submit(name, text) for name, text in kernels]
        compiler.finish()
        objects = [future.result() for future in futures]
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType

from .cache import KernelCache, cache_key
from .codegen import CodegenError, Machine, compile_ir, host_machine
from .workers import WorkerPool, usable_cpus

FEW_KERNELS = 4
"""Up to so many kernels are compiled in this process."""


@dataclass(frozen=True)
class CompileStats:
    """Where the objects came from: how many were asked for, found equal to another, in the cache, or
    compiled.
    """

    requested: int
    repeated: int
    cached: int
    compiled: int


class KernelCompiler:
    """Turns LLVM IR text into object code for one machine; close it (or use `with`) to end its processes."""

    def __init__(
        self,
        machine: Machine,
        compiler_version: str,
        cache: KernelCache | None = None,
        workers: int | None = None,
    ) -> None:
        """`workers=0` compiles in this process only; None uses one process per usable processor."""
        self.machine = machine
        self._version = compiler_version
        self._cache = cache if cache is not None else KernelCache()
        self._worker_count = usable_cpus() if workers is None else workers
        self._foreign = not _is_this_machine(machine)
        if self._foreign:
            self._worker_count = max(1, self._worker_count)
        self._pool: WorkerPool | None = None
        self._futures: dict[str, Future[bytes]] = {}
        self._held: list[tuple[str, str, str]] = []
        self._requested = self._cached = 0

    def submit(self, name: str, text: str) -> Future[bytes]:
        """Ask for the object code of one module; `name` appears in messages only."""
        self._requested += 1
        key = cache_key(text, self.machine, self._version)
        if (known := self._futures.get(key)) is not None:
            return known
        future: Future[bytes] = Future()
        self._futures[key] = future
        if (payload := self._cache.get(key)) is not None:
            self._cached += 1
            future.set_result(payload)
            return future
        self._held.append((key, name, text))
        if self._worker_count and (self._pool is not None or len(self._held) > FEW_KERNELS):
            self._send_held()
        return future

    def finish(self) -> None:
        """Compile what was held back; after it every future will be done without further calls."""
        if self._held and self._foreign:
            self._send_held()
        for key, name, text in self._held:
            future = self._futures[key]
            try:
                self._done(key, future, compile_ir(text, self.machine))
            except CodegenError as error:
                future.set_exception(CodegenError(f"kernel '{name}': {error}"))
        self._held.clear()

    def compile_all(self, kernels: list[tuple[str, str]]) -> list[bytes]:
        """Objects of (name, IR text) pairs, in order."""
        futures = [self.submit(name, text) for name, text in kernels]
        self.finish()
        return [future.result() for future in futures]

    @property
    def stats(self) -> CompileStats:
        distinct = len(self._futures)
        return CompileStats(self._requested, self._requested - distinct, self._cached, distinct - self._cached)

    def close(self) -> None:
        """Wait for what was submitted, end the processes, and bound the cache."""
        self.finish()
        if self._pool is not None:
            self._pool.close()
            self._pool = None
        if self.stats.compiled:
            self._cache.trim()

    def __enter__(self) -> KernelCompiler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._held.clear()
        self.close()

    def _send_held(self) -> None:
        if self._pool is None:
            self._pool = WorkerPool(self._worker_count)
        for key, name, text in self._held:
            self._pool.submit(name, text, self.machine).add_done_callback(self._receiver(key))
        self._held.clear()

    def _receiver(self, key: str) -> _Receiver:
        return _Receiver(self, key, self._futures[key])

    def _done(self, key: str, future: Future[bytes], payload: bytes) -> None:
        self._cache.put(key, payload)
        future.set_result(payload)


@dataclass(frozen=True)
class _Receiver:
    """Passes a worker's answer on to the caller's future and to the cache."""

    compiler: KernelCompiler
    key: str
    future: Future[bytes]

    def __call__(self, answer: Future[bytes]) -> None:
        error = answer.exception()
        if error is not None:
            self.future.set_exception(error)
        else:
            self.compiler._done(self.key, self.future, answer.result())


def _is_this_machine(machine: Machine) -> bool:
    """Whether code for the machine is what LLVM generates here every day, whatever spelling its triple has."""
    host = host_machine()
    return machine.cpu == host.cpu and machine.triple.partition("-")[0] == host.triple.partition("-")[0]
