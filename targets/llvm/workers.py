"""Code generation in child processes.

llvmlite puts every call behind one lock, so threads do not compile side by side; processes do. A process
also keeps an abort inside LLVM from taking the compiler down: it becomes a CodegenError that names the
kernel.

`WorkerPool.submit` returns at once with a Future, so that the caller can lower the next kernel while this
one is compiled. Each worker process is driven by one thread that writes IR text to it and reads object code
back; no Python object crosses the border. Processes start with the first job that needs them and end with
`close`.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from types import TracebackType

from .codegen import CodegenError, Machine

_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from tilewright.targets.llvm.worker import main; main()"
)


@dataclass
class _Job:
    name: str
    text: str
    machine: Machine
    future: Future[bytes] = field(default_factory=Future)


class WorkerPool:
    """Up to `count` processes that turn IR text into object code."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count if count is not None else usable_cpus()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, name: str, text: str, machine: Machine) -> Future[bytes]:
        """Queue one module; the future holds the object code or a CodegenError that names the module."""
        job = _Job(name, text, machine)
        self._jobs.put(job)
        if len(self._threads) < self.count:
            thread = threading.Thread(target=self._drive, name="tilewright-codegen", daemon=True)
            self._threads.append(thread)
            thread.start()
        return job.future

    def close(self) -> None:
        """Finish the queued jobs and end the processes."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drive(self) -> None:
        process = _Process()
        try:
            while (job := self._jobs.get()) is not None:
                if not job.future.set_running_or_notify_cancel():
                    continue
                try:
                    job.future.set_result(process.compile(job))
                except BaseException as error:
                    job.future.set_exception(error)
        finally:
            process.stop()


class _Process:
    """One child process, started when first used and again after it died."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process

    def compile(self, job: _Job) -> bytes:
        child = self._child if self._child is not None else self._start()
        assert child.stdin is not None and child.stdout is not None
        text = job.text.encode()
        head = {**asdict(job.machine), "bytes": len(text)}
        try:
            child.stdin.write(json.dumps(head).encode() + b"\n" + text)
            child.stdin.flush()
            line = child.stdout.readline()
            reply = json.loads(line)
            payload = child.stdout.read(reply["bytes"])
        except (OSError, ValueError, KeyError):
            raise CodegenError(self._death(job)) from None
        if not reply["ok"]:
            raise CodegenError(f"kernel '{job.name}': {payload.decode()}")
        return payload

    def stop(self) -> None:
        child, self._child = self._child, None
        if child is not None and child.stdin is not None and child.stdout is not None:
            child.stdin.close()
            child.wait()
            child.stdout.close()
        self._errors.close()

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors.seek(0)
        self._errors.truncate()
        self._child = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        return self._child

    def _death(self, job: _Job) -> str:
        child, self._child = self._child, None
        assert child is not None and child.stdin is not None and child.stdout is not None
        child.stdout.close()
        with contextlib.suppress(OSError):
            child.stdin.close()
        try:
            status = child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            child.kill()
            status = child.wait()
        self._errors.seek(0)
        said = [line for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]
        reason = f": {said[0].strip()}" if said else ""
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        return f"LLVM stopped with {how} while compiling kernel '{job.name}' for {job.machine.triple}{reason}"


def usable_cpus() -> int:
    """How many processors this process may use."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:
        return max(1, os.cpu_count() or 1)
