"""The native runtime: parallel-for over a pool, thread counts, nesting, several callers, fork, allocation."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from tilewright.targets.llvm.codegen import CodegenError, Machine, compile_ir, host_machine
from tilewright.targets.llvm.jit import Context, LoadedCode, load_ir, load_objects
from tilewright.targets.llvm.runtime_ir import CONTEXT_VERSION, runtime_ir, runtime_object

# count adds one to data[i] for its iterations; nest runs another parallel loop from inside each iteration.
BODIES = """
%job = type { ptr, ptr, i64, ptr }

define void @count(ptr %data, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %p = getelementptr i64, ptr %data, i64 %i
  %v = load i64, ptr %p
  %w = add i64 %v, 1
  store i64 %w, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %exit
exit:
  ret void
}

define void @nest(ptr %job, i64 %begin, i64 %end) {
entry:
  %ctx = load ptr, ptr %job
  %data.p = getelementptr %job, ptr %job, i64 0, i32 1
  %data = load ptr, ptr %data.p
  %n.p = getelementptr %job, ptr %job, i64 0, i32 2
  %n = load i64, ptr %n.p
  %f.p = getelementptr i64, ptr %ctx, i64 1
  %f = load ptr, ptr %f.p
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %offset = mul i64 %i, %n
  %row = getelementptr i64, ptr %data, i64 %offset
  call void %f(ptr %ctx, ptr @count, ptr %row, i64 %n)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %exit
exit:
  ret void
}

define void @repeat(ptr %ctx, ptr %body, ptr %data, i64 %n, i64 %times) {
entry:
  %f.p = getelementptr i64, ptr %ctx, i64 1
  %f = load ptr, ptr %f.p
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void %f(ptr %ctx, ptr %body, ptr %data, i64 %n)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %loop, label %exit
exit:
  ret void
}

; Each part announces itself and waits until three have: this ends only if parts run at the same time.
define void @meet(ptr %data, i64 %begin, i64 %end) {
entry:
  %ignored = atomicrmw add ptr %data, i64 1 seq_cst
  br label %wait
wait:
  %count = load atomic i64, ptr %data seq_cst, align 8
  %all = icmp uge i64 %count, 3
  br i1 %all, label %exit, label %again
again:
  %yield = call i32 @sched_yield()
  br label %wait
exit:
  ret void
}
declare i32 @sched_yield()

; Says at data[begin] which thread ran the part.
declare i64 @pthread_self()
define void @who(ptr %data, i64 %begin, i64 %end) {
  %p = getelementptr i64, ptr %data, i64 %begin
  %t = call i64 @pthread_self()
  store i64 %t, ptr %p
  ret void
}
"""


@pytest.fixture(scope="module")
def bodies() -> LoadedCode:
    return load_ir(BODIES, "count", "meet", "nest", "repeat", "who")


@pytest.fixture
def context() -> Iterator[Context]:
    with Context(2) as context:
        yield context


def _repeat(bodies: LoadedCode, context: Context, data: np.ndarray, times: int, body: str = "count") -> None:
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    function = bodies.function("repeat", None, pointer, pointer, pointer, integer, integer)
    function(context.address, bodies.address(body), data.ctypes.data, data.size, times)


def test_context_table(context: Context) -> None:
    assert context.version == CONTEXT_VERSION == 1
    assert context.threads == 2


def test_thread_count_defaults_and_bounds() -> None:
    with Context(0) as context:
        assert context.threads == len(os.sched_getaffinity(0))
        context.threads = 10_000
        assert context.threads == 256
        context.threads = -1
        assert context.threads == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 1001])
def test_every_iteration_runs_once_at_every_thread_count(bodies: LoadedCode, n: int) -> None:
    with Context(1) as context:
        data = np.zeros(n, np.int64)
        done = 0
        for threads in (1, 2, 4, 3, 1, 2):
            context.threads = threads
            _repeat(bodies, context, data, 25)
            done += 25
            assert (data == done).all()


def test_empty_loops_run_nothing(bodies: LoadedCode, context: Context) -> None:
    for n in (0, -5):
        context.parallel_for(context.address, bodies.address("count"), None, n)


def test_the_calling_thread_takes_part_and_parts_run_on_other_threads(bodies: LoadedCode, context: Context) -> None:
    context.threads = 3
    data = np.zeros(3, np.int64)
    _repeat(bodies, context, data, 1, "who")
    assert data[0] == threading.get_ident()
    assert len(set(data.tolist())) == 3


def test_parts_run_at_the_same_time(bodies: LoadedCode, context: Context) -> None:
    context.threads = 3
    for _ in range(3):
        data = np.zeros(3, np.int64)
        _repeat(bodies, context, data, 1, "meet")
        assert data[0] == 3
        threading.Event().wait(0.002)


def test_nested_loops_run_serially(bodies: LoadedCode, context: Context) -> None:
    class Job(ctypes.Structure):
        _fields_ = (
            ("context", ctypes.c_void_p),
            ("data", ctypes.c_void_p),
            ("n", ctypes.c_int64),
            ("body", ctypes.c_void_p),
        )

    data = np.zeros((5, 11), np.int64)
    job = Job(context.address, data.ctypes.data, 11, None)
    for _ in range(50):
        context.parallel_for(context.address, bodies.address("nest"), ctypes.addressof(job), 5)
    assert (data == 50).all()


def test_many_threads_call_at_once(bodies: LoadedCode, context: Context) -> None:
    rows = np.zeros((4, 100), np.int64)

    def call(row: np.ndarray) -> None:
        for _ in range(20):
            _repeat(bodies, context, row, 50)

    callers = [threading.Thread(target=call, args=(row,)) for row in rows]
    for caller in callers:
        caller.start()
    for turn in range(20):
        context.threads = turn % 3 + 1
    for caller in callers:
        caller.join()
    assert (rows == 1000).all()


def test_workers_that_sleep_wake_up(bodies: LoadedCode, context: Context) -> None:
    data = np.zeros(10, np.int64)
    for _ in range(5):
        _repeat(bodies, context, data, 1)
        threading.Event().wait(0.01)
    assert (data == 5).all()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_works_and_leaves_the_parent_alone(bodies: LoadedCode, context: Context) -> None:
    data = np.zeros(10, np.int64)
    _repeat(bodies, context, data, 3)
    block = context.allocate(context.address, 1000)
    context.release(context.address, block)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            mine = np.zeros(10, np.int64)
            _repeat(bodies, context, mine, 7)
            given = context.allocate(context.address, 1000)
            context.release(context.address, given)
            context.close()
            status = 0 if (mine == 7).all() else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    _repeat(bodies, context, data, 3)
    assert (data == 6).all()


def test_allocated_blocks_are_aligned_distinct_and_reused(context: Context) -> None:
    sizes = [0, 1, 64, 1000, 4096, 100_000, 9 << 20]
    blocks = [context.allocate(context.address, size) for size in sizes]
    assert all(block % 64 == 0 for block in blocks) and len(set(blocks)) == len(blocks)
    for block, size in zip(blocks, sizes, strict=True):
        ctypes.memset(block, 0xAB, size)
    for block in blocks:
        context.release(context.address, block)
    assert [context.allocate(context.address, size) for size in sizes[3:]] == blocks[3:]
    for block in blocks[3:]:
        context.release(context.address, block)


def test_more_released_blocks_than_slots(context: Context) -> None:
    for _ in range(3):
        blocks = [context.allocate(context.address, 5000 + 64 * i) for i in range(40)]
        assert len(set(blocks)) == 40
        for block in blocks:
            context.release(context.address, block)


def test_impossible_sizes_are_refused(context: Context) -> None:
    for size in (-1, 1 << 50, (1 << 46) - 1):
        assert context.allocate(context.address, size) is None
    context.release(context.address, None)


def test_runtime_for_other_machines() -> None:
    arm = runtime_object(Machine("aarch64-unknown-linux-gnu", "cortex-a72"))
    assert arm[18:20] == (183).to_bytes(2, "little")
    with pytest.raises(CodegenError, match="no native runtime for 'x86_64-pc-windows-msvc'"):
        runtime_ir("x86_64-pc-windows-msvc")


CALLER = """
declare double @g(double)
define double @f(double %x) {
  %y = call double @g(double %x)
  ret double %y
}
"""

CALLEE = """
declare double @cbrt(double)
@k = internal constant [2 x double] [double 1.0, double 2.0]
define double @g(double %x) {
  %p = getelementptr double, ptr @k, i64 1
  %k = load volatile double, ptr %p
  %y = call double @cbrt(double %x)
  %z = fmul double %y, %k
  ret double %z
}
"""


def test_objects_that_refer_to_each_other_and_to_libm_link() -> None:
    objects = [compile_ir(text, host_machine()) for text in (CALLER, CALLEE)]
    code = load_objects(objects, ["f"])
    assert code.function("f", ctypes.c_double, ctypes.c_double)(27.0) == pytest.approx(6.0)
