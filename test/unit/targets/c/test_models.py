"""Whole models through the C target: the digits model, symbolic sizes, checks, and what the header says."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.core.diagnostics import DiagnosticError
from tilewright.examples.digits import demo
from tilewright.testing.c_model import STRICT, CModel, CompilerError, compile_library

DIGITS = Path(demo.__file__).parent
X = "tensor<?x4xf32, #tw.enc<dims = [n]>>"
FLAT = "tensor<?xf32, #tw.enc<dims = [n * 4]>>"
# (x + y) @ w flattened; n is the size of both inputs.
TEXT = f"""
func.func @main(%x: {X} {{tw.name = "x"}}, %y: {X} {{tw.name = "the /* other */"}})
    -> ({FLAT} {{tw.name = "flat"}}, {X}) {{
  %w = graph.constant dense_resource<w> : tensor<4x4xf32>
  %0 = graph.add %x, %y : ({X}, {X}) -> {X}
  %1 = graph.matmul %0, %w : ({X}, tensor<4x4xf32>) -> {X}
  %2 = graph.reshape %1 {{shape = #tw.exprs<[n * 4]>}} : ({X}) -> {FLAT}
  func.return %2, %0 : {FLAT}, {X}
}}
"""
WEIGHT = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "digits.c"
    tilewright.compile(DIGITS / "digits.onnx", target="c", output=path, dump_ir=path.parent / "ir")
    return path


@pytest.mark.parametrize(
    "flags", [("-O0",), ("-O2",), ("-g", "-fsanitize=undefined", "-fno-sanitize-recover=undefined", "-static-libubsan")]
)
def test_digits_has_the_labels_and_scores_of_the_llvm_target(gcc: str, digits: Path, flags: tuple[str, ...]) -> None:
    with np.load(DIGITS / "test.npz") as data:
        images, labels = data["images"], data["labels"]
    model = CModel.compile(digits, flags)
    (scores,) = model(images)
    assert model.workspace_size(2) > 0 == model.workspace_size(-2)
    expected = np.asarray(tilewright.compile(DIGITS / "digits.onnx")(images))  # type: ignore[operator]
    assert (scores.argmax(1) == expected.argmax(1)).all()
    assert np.abs(scores - expected).max() <= 1e-5 * np.abs(expected).max()
    assert (scores.argmax(1) == labels).mean() >= 0.97


def test_digits_under_the_address_sanitizer(gcc: str, digits: Path) -> None:
    """As a program: the sanitizer has to be there before anything else."""
    main = digits.with_name("main.c")
    main.write_text(
        '#include "digits.h"\n#include <stdio.h>\n#include <stdlib.h>\n'
        "int main(void) {\n  float image[3 * 64] = {0.5f};\n  float scores[3 * 10];\n"
        "  void *workspace = malloc(digits_workspace_size(3));\n"
        "  int32_t code = digits_run(image, scores, workspace, 3);\n  free(workspace);\n"
        '  printf("%d %.9g %.9g\\n", (int)code, (double)scores[0], (double)scores[29]);\n  return 0;\n}\n'
    )
    program = digits.with_name("program")
    sanitize = ("-fsanitize=undefined,address", "-fno-sanitize-recover=all", "-g", "-O1")
    subprocess.run([gcc, *STRICT, *sanitize, str(digits), str(main), "-o", str(program), "-lm"], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    images = np.zeros((3, 1, 8, 8), np.float32)
    images.flat[0] = 0.5
    expected = np.asarray(tilewright.compile(DIGITS / "digits.onnx")(images))  # type: ignore[operator]
    code, first, last = done.stdout.split()
    assert code == "0"
    np.testing.assert_allclose([float(first), float(last)], expected.flat[[0, 29]], rtol=1e-5, atol=1e-5)


def test_header_is_cplusplus_too(gcc: str, digits: Path) -> None:
    command = [
        gcc,
        "-x",
        "c++",
        "-std=c++11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        str(digits.with_suffix(".h")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cc1plus" in done.stderr:
        pytest.skip("this gcc has no C++ compiler")
    assert done.returncode == 0, done.stderr


def test_every_level_resumes_to_the_same_files(digits: Path, tmp_path: Path) -> None:
    for level in sorted(digits.with_name("ir").glob("*.ir")):
        tilewright.resume(level, output=tmp_path / "digits.c")
        for name in ("digits.c", "digits.h"):
            assert (tmp_path / name).read_bytes() == digits.with_name(name).read_bytes(), level.name


def test_symbolic_sizes(gcc: str, compile_text: Callable[..., Path]) -> None:
    model = CModel.compile(compile_text(TEXT, {"w": WEIGHT}))
    for n in (1, 5, 64):
        x, y = np.random.default_rng(n).standard_normal((2, n, 4)).astype(np.float32)
        flat, total = model(x, y)
        np.testing.assert_array_equal(total, x + y)
        np.testing.assert_allclose(flat, ((x + y) @ WEIGHT).reshape(-1), rtol=1e-5, atol=1e-6)


def test_sizes_that_disagree_are_an_error_that_names_both(gcc: str, compile_text: Callable[..., Path]) -> None:
    model = CModel.compile(compile_text(TEXT, {"w": WEIGHT}))
    x = np.zeros((2, 4), np.float32)
    code, _ = model.run(x, x[:1])
    message = model.error(code)
    assert code > 1 and message is not None
    assert "'x'" in message and "other_dim0" in message and "'n'" in message
    assert model.error(0) == "done" and model.error(99) is None


def test_null_pointers_and_negative_sizes_are_refused(gcc: str, compile_text: Callable[..., Path]) -> None:
    import ctypes

    model = CModel.compile(compile_text(TEXT, {"w": WEIGHT}))
    run = model.library["model_run"]
    arrays = [np.zeros(64, np.float32) for p in model.parameters if p.role != "dimension"]
    good = [*(a.ctypes.data_as(ctypes.c_void_p) for a in arrays), ctypes.c_int64(1), ctypes.c_int64(1)]
    assert run(*good) == 0
    assert run(None, *good[1:]) == 1
    assert run(*good[:-1], ctypes.c_int64(-1)) == 1


def test_equal_bytes_each_time(compile_text: Callable[..., Path]) -> None:
    path = compile_text(TEXT, {"w": WEIGHT})
    first = path.read_bytes(), path.with_suffix(".h").read_bytes()
    compile_text(TEXT, {"w": WEIGHT})
    assert first == (path.read_bytes(), path.with_suffix(".h").read_bytes())


def test_a_workspace_of_fixed_size_is_a_macro(gcc: str, compile_text: Callable[..., Path]) -> None:
    text = TEXT.replace("tensor<?x4xf32, #tw.enc<dims = [n]>>", "tensor<3x4xf32>").replace(
        "tensor<?xf32, #tw.enc<dims = [n * 4]>>", "tensor<12xf32>"
    )
    path = compile_text(text.replace("n * 4", "12"), {"w": WEIGHT})
    header = path.with_suffix(".h").read_text()
    model = CModel.compile(path)
    if "workspace" in header:
        assert f"#define MODEL_WORKSPACE_SIZE {model.workspace_size()}" in header
    x = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(model(x, x)[1], 2 * x)


def test_weights_are_exact(gcc: str, compile_text: Callable[..., Path]) -> None:
    """Of all kinds: subnormal, infinite, not a number, the largest and the smallest."""
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4e38, 0.1, -1.5, 1 / 3], np.float32)
    big = np.array([-(2**63), 2**63 - 1, 0], np.int64)
    text = """
func.func @main(%x: tensor<9xf32> {tw.name = "x"}, %k: tensor<3xi64> {tw.name = "k"})
    -> (tensor<9xf32>, tensor<3xi64>) {
  %a = graph.constant dense_resource<a> : tensor<9xf32>
  %b = graph.constant dense_resource<b> : tensor<3xi64>
  %0 = graph.mul %x, %a : (tensor<9xf32>, tensor<9xf32>) -> tensor<9xf32>
  %1 = graph.add %k, %b : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  func.return %0, %1 : tensor<9xf32>, tensor<3xi64>
}
"""
    model = CModel.compile(compile_text(text, {"a": special, "b": big}))
    found, integers = model(np.ones(9, np.float32), np.zeros(3, np.int64))
    np.testing.assert_array_equal(found, special)
    assert np.signbit(found[3])
    np.testing.assert_array_equal(integers, big)


def test_a_warning_is_an_error(gcc: str, tmp_path: Path) -> None:
    """The flags do what these tests rely on."""
    path = tmp_path / "bad.c"
    path.write_text("int f(long x);\nint f(long x) { return x; }\n")
    with pytest.raises(CompilerError, match="conversion"):
        compile_library(path)


V = "tensor<?xf32, #tw.enc<dims = [n]>>"
# if (f) r = relu(x) else r = x; then k times r = r + x.
CONTROL = f"""
func.func @main(%f: tensor<i1> {{tw.name = "f"}}, %x: {V} {{tw.name = "x"}}, %k: tensor<i64> {{tw.name = "k"}})
    -> {V} {{
  %c = tensor.extract %f[] : tensor<i1>
  %r = scf.if %c -> ({V}) {{
    %a = graph.relu %x : ({V}) -> {V}
    scf.yield %a : {V}
  }} else {{
    scf.yield %x : {V}
  }}
  %zero = graph.constant dense<0> : tensor<i64>
  %one = graph.constant dense<1> : tensor<i64>
  %i, %p = scf.while (%i0 = %zero, %p0 = %r) : (tensor<i64>, {V}) -> (tensor<i64>, {V}) {{
    %less = graph.compare %i0, %k {{predicate = "lt"}} : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %go = tensor.extract %less[] : tensor<i1>
    scf.condition(%go) %i0, %p0 : tensor<i64>, {V}
  }} do {{
  ^bb0(%i1: tensor<i64>, %p1: {V}):
    %i2 = graph.add %i1, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %s = graph.add %p1, %x : ({V}, {V}) -> {V}
    scf.yield %i2, %s : tensor<i64>, {V}
  }}
  func.return %p : {V}
}}
"""


def test_branches_and_loops_over_tensors(gcc: str, compile_text: Callable[..., Path]) -> None:
    model = CModel.compile(compile_text(CONTROL))
    for flag in (True, False):
        for steps in (0, 1, 5):
            x = np.random.default_rng(steps).standard_normal(9).astype(np.float32)
            (found,) = model(np.array(flag), x, np.array(steps))
            np.testing.assert_allclose(found, (np.maximum(x, 0) if flag else x) + steps * x, rtol=1e-5)


def test_outputs_and_options_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    model = DIGITS / "digits.onnx"
    with pytest.raises(DiagnosticError, match=r"expected an output such as model\.c, found '.*model\.twm'"):
        tilewright.compile(model, target="c", output=tmp_path / "model.twm")
    with pytest.raises(DiagnosticError, match="--mcpu is for the compiler that you give it to"):
        tilewright.compile(model, target="c", mcpu="haswell", output=tmp_path / "model.c")
    with pytest.raises(DiagnosticError, match=r"cannot write '.*nowhere/model\.c'"):
        tilewright.compile(model, target="c", output=tmp_path / "nowhere" / "model.c")
    assert not list(tmp_path.iterdir())


def test_a_type_that_c_lacks_is_refused_with_the_node(compile_text: Callable[..., Path]) -> None:
    text = """
func.func @main(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = graph.add %x, %x : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16> loc("node_7")
  func.return %0 : tensor<4xbf16>
}
"""
    with pytest.raises(DiagnosticError) as caught:
        compile_text(text)
    found = str(caught.value)
    assert "'loop.load' op has a value of type bf16, which portable C lacks" in found and "node_7" in found
