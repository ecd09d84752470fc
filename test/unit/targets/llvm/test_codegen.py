"""Object code from LLVM IR: options, determinism, errors, worker processes and the cache."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tilewright.targets.llvm.cache import KernelCache, cache_key
from tilewright.targets.llvm.codegen import (
    CodegenError,
    Machine,
    assembly,
    compile_ir,
    host_machine,
    optimised_ir,
)
from tilewright.targets.llvm.compiler import KernelCompiler
from tilewright.targets.llvm.workers import WorkerPool

AVX512 = Machine("x86_64-unknown-linux-gnu", "znver4", "")
CORTEX = Machine("aarch64-unknown-linux-gnu", "cortex-a72", "")

SCALE = """
define void @scale(ptr noalias %a, ptr noalias %b, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr float, ptr %a, i64 %i
  %q = getelementptr float, ptr %b, i64 %i
  %v = load float, ptr %p
  %w = fmul contract float %v, 3.0
  %x = fadd contract float %w, 1.0
  store float %x, ptr %q
  %next = add nsw i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %exit
exit:
  ret void
}
"""

# A scalable vector on a machine without any is something LLVM's instruction selection gives up on.
UNSELECTABLE = """
define <vscale x 4 x float> @f(<vscale x 4 x float> %a) {
  %b = fadd <vscale x 4 x float> %a, %a
  ret <vscale x 4 x float> %b
}
"""


def _kernel(number: int) -> str:
    return f"define i64 @k{number}(i64 %a) {{\n  %b = mul i64 %a, {number + 3}\n  ret i64 %b\n}}\n"


def test_object_code_is_deterministic() -> None:
    first = compile_ir(SCALE, host_machine())
    assert first.startswith(b"\x7fELF")
    assert first == compile_ir(SCALE, host_machine())


def test_llvm_does_not_vectorise_on_its_own() -> None:
    assert "x float>" not in optimised_ir(SCALE, AVX512)


def test_contraction_forms_fused_multiply_add() -> None:
    assert "vfmadd" in assembly(SCALE, AVX512)
    assert "vfmadd" not in assembly(SCALE.replace("contract ", ""), AVX512)


def test_code_for_another_machine() -> None:
    assert compile_ir(SCALE, CORTEX)[18:20] == (183).to_bytes(2, "little")


@pytest.mark.parametrize("text", ["define void @f() {", "define i32 @f() {\n  ret i64 0\n}"])
def test_bad_ir_is_an_error(text: str) -> None:
    with pytest.raises(CodegenError, match="invalid LLVM IR"):
        compile_ir(text, host_machine())


def test_unknown_machine_is_an_error() -> None:
    with pytest.raises(CodegenError, match="no target for 'pdp11"):
        compile_ir(SCALE, Machine("pdp11-dec-unix"))


def test_workers_agree_with_this_process() -> None:
    with WorkerPool(2) as pool:
        futures = [pool.submit(f"k{i}", _kernel(i), host_machine()) for i in range(6)]
        objects = [future.result(timeout=60) for future in futures]
    assert objects == [compile_ir(_kernel(i), host_machine()) for i in range(6)]


def test_dying_worker_becomes_an_error_and_the_rest_goes_on() -> None:
    with WorkerPool(1) as pool:
        before = pool.submit("before", _kernel(0), AVX512)
        dies = pool.submit("dies", UNSELECTABLE, AVX512)
        after = pool.submit("after", _kernel(1), AVX512)
        bad = pool.submit("bad", "define", AVX512)
        assert before.result(timeout=60) and after.result(timeout=60)
        with pytest.raises(CodegenError, match="LLVM stopped with signal 6 while compiling kernel 'dies'"):
            dies.result(timeout=60)
        with pytest.raises(CodegenError, match="kernel 'bad': invalid LLVM IR"):
            bad.result(timeout=60)


def test_compiler_compiles_equal_kernels_once_and_caches(tmp_path: Path) -> None:
    kernels = [(f"k{i}", _kernel(i % 3)) for i in range(9)]
    with KernelCompiler(host_machine(), "1", KernelCache(tmp_path / "c")) as cold:
        objects = cold.compile_all(kernels)
    assert (cold.stats.repeated, cold.stats.cached, cold.stats.compiled) == (6, 0, 3)
    with KernelCompiler(host_machine(), "1", KernelCache(tmp_path / "c")) as warm:
        assert warm.compile_all(kernels) == objects
    assert (warm.stats.cached, warm.stats.compiled) == (3, 0)
    with KernelCompiler(host_machine(), "2", KernelCache(tmp_path / "c")) as other_version:
        other_version.compile_all(kernels)
    assert other_version.stats.cached == 0


def test_compiler_uses_workers_for_many_and_for_other_machines(tmp_path: Path) -> None:
    kernels = [(f"k{i}", _kernel(i)) for i in range(7)]
    for machine in (host_machine(), CORTEX):
        with KernelCompiler(machine, "1", KernelCache(tmp_path / "c"), workers=2) as compiler:
            objects = compiler.compile_all(kernels)
        assert objects == [compile_ir(text, machine) for _, text in kernels]


def test_compiler_names_the_kernel_in_errors(tmp_path: Path) -> None:
    with KernelCompiler(host_machine(), "1", KernelCache(tmp_path / "c")) as compiler:
        future = compiler.submit("conv_7", "define")
        compiler.finish()
        with pytest.raises(CodegenError, match="kernel 'conv_7': invalid LLVM IR"):
            future.result()


def test_cache_is_private_bounded_and_survives_damage(tmp_path: Path) -> None:
    cache = KernelCache(tmp_path / "c", max_bytes=1000)
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o700
    cache.put("a", b"x" * 400)
    cache.put("b", b"y" * 400)
    os.utime(tmp_path / "c" / "b.o", (1, 1))
    cache.put("c", b"z" * 400)
    cache.trim()
    assert cache.get("a") == b"x" * 400 and cache.get("b") is None and cache.get("c") == b"z" * 400
    path = tmp_path / "c" / "a.o"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert cache.get("a") is None and not path.exists()


def test_cache_refuses_a_folder_of_links_and_can_be_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    cache = KernelCache(tmp_path / "link")
    cache.put("a", b"x")
    assert cache.get("a") is None and not list((tmp_path / "real").iterdir())
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "")
    assert KernelCache().folder is None


def test_cache_key_depends_on_everything() -> None:
    keys = {
        cache_key(text, machine, version)
        for text in (SCALE, SCALE + ";")
        for machine in (AVX512, CORTEX, Machine(AVX512.triple, "skylake"))
        for version in ("1", "2")
    }
    assert len(keys) == 12
