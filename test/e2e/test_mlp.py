"""A multi-layer perceptron over ``(n, 784)``: compiled once, run at several sizes, dumped, edited, resumed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.core.context import TilewrightContext, make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.pass_manager import run_pipeline
from tilewright.core.verifier import verify
from tilewright.runtime import InputError, Model
from tilewright.text import parse_module, print_module
from tilewright.tools.cli.main import main

X, H, Y = (f"tensor<?x{size}xf32, #tw.enc<dims = [n]>>" for size in (784, 32, 10))
TEXT = f"""
func.func @main(%x: {X} {{tw.name = "x"}}, %bias: {Y} {{tw.name = "bias"}}) -> ({Y} {{tw.name = "y"}}) {{
  %w1 = graph.constant dense_resource<w1> : tensor<784x32xf32>
  %b1 = graph.constant dense_resource<b1> : tensor<32xf32>
  %w2 = graph.constant dense_resource<w2> : tensor<32x10xf32>
  %0 = graph.matmul %x, %w1 : ({X}, tensor<784x32xf32>) -> {H}
  %1 = graph.add %0, %b1 : ({H}, tensor<32xf32>) -> {H}
  %2 = graph.relu %1 : ({H}) -> {H}
  %3 = graph.matmul %2, %w2 : ({H}, tensor<32x10xf32>) -> {Y}
  %4 = graph.add %3, %bias : ({Y}, {Y}) -> {Y}
  func.return %4 : {Y}
}}
"""
RANDOM = np.random.default_rng(0)
WEIGHTS = {
    name: (RANDOM.standard_normal(shape) * 0.1).astype(np.float32)
    for name, shape in {"w1": (784, 32), "b1": (32,), "w2": (32, 10)}.items()
}


def source() -> tuple[Any, TilewrightContext]:
    context = make_context()
    for name, array in WEIGHTS.items():
        assert context.resources.add(array, name) == name
    module = parse_module(TEXT, context=context)
    verify(module)
    return module, context


def inputs(n: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(n)
    return random.standard_normal((n, 784)).astype(np.float32), random.standard_normal((n, 10)).astype(np.float32)


def expected(x: np.ndarray, bias: np.ndarray) -> np.ndarray:
    hidden = np.maximum(x @ WEIGHTS["w1"] + WEIGHTS["b1"], 0)
    return np.asarray(hidden @ WEIGHTS["w2"] + bias)


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mlp")
    tilewright.compile(source(), output=folder / "model.twm", dump_ir=folder / "levels")
    return folder / "levels"


@pytest.fixture(scope="module")
def model(levels: Path) -> Model:
    return tilewright.load(levels.parent / "model.twm")


@pytest.mark.parametrize("n", [1, 7, 128])
def test_every_size_equals_numpy(model: Model, n: int) -> None:
    np.testing.assert_allclose(model(*inputs(n)), expected(*inputs(n)), rtol=1e-4, atol=1e-4)


def test_sizes_that_disagree_are_an_error_that_names_both(model: Model) -> None:
    message = "dimension 'n' disagrees: input 'bias' has 5 in dimension 0, input 'x' has 7 in dimension 0"
    with pytest.raises(InputError, match=message):
        model(inputs(7)[0], inputs(5)[1])
    with pytest.raises(InputError, match="input 'x' has 783 in dimension 1, expected 784"):
        model(inputs(7)[0][:, 1:], inputs(7)[1])


def test_every_level_prints_the_same_again_and_resumes_to_the_same_result(levels: Path, model: Model) -> None:
    files = sorted(levels.glob("*.ir"))
    assert [f.stem.split("_")[1] for f in files] == [
        *("import", "graph", "fused", "te", "loop", "schedule", "scheduled", "kernels", "host", "llvm")
    ]
    result = model(*inputs(7))
    for file in files:
        text = file.read_text()
        module = parse_module(text, filename=str(file), context=make_context())
        verify(module)
        assert print_module(module).rstrip("\n") + "\n" == text, file
        np.testing.assert_array_equal(tilewright.resume(file)(*inputs(7)), result, err_msg=str(file))


def test_a_dumped_schedule_gives_the_scheduled_loops(levels: Path) -> None:
    context = make_context()
    module = parse_module((levels / "05_schedule.ir").read_text(), context=context)
    run_pipeline(module, "apply-schedule", context)
    compiled = parse_module((levels / "06_scheduled.ir").read_text(), context=make_context())
    for one in (module, compiled):
        one.attributes.pop("tw.stage")
    assert print_module(module) == print_module(compiled)


def test_edits_of_a_level_are_compiled(levels: Path, tmp_path: Path) -> None:
    text = (levels / "01_graph.ir").read_text()
    assert text.count("graph.relu") == 1
    (tmp_path / "weights.safetensors").write_bytes((levels / "weights.safetensors").read_bytes())
    (tmp_path / "edited.ir").write_text(text.replace("graph.relu", "graph.neg"))
    x, bias = inputs(3)
    hidden = -(x @ WEIGHTS["w1"] + WEIGHTS["b1"])
    edited = tilewright.resume(tmp_path / "edited.ir")
    np.testing.assert_allclose(edited(x, bias), hidden @ WEIGHTS["w2"] + bias, rtol=1e-4, atol=1e-4)


def test_dumps_into_a_used_folder_have_their_own_weights(levels: Path, tmp_path: Path) -> None:
    for file in levels.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "weights.safetensors").write_bytes(b"of something else")
    tilewright.compile(source(), output=tmp_path / "m.twm", dump_ir=tmp_path)
    tilewright.resume(tmp_path / "02_fused.ir", output=tmp_path / "n.twm", dump_ir=tmp_path)
    given = inputs(2)
    for file in ("m.twm", "n.twm"):
        np.testing.assert_allclose(tilewright.load(tmp_path / file)(*given), expected(*given), rtol=1e-4, atol=1e-4)


def test_two_compiles_give_identical_bytes(levels: Path, tmp_path: Path) -> None:
    first = (levels.parent / "model.twm").read_bytes()
    tilewright.compile(source(), output=tmp_path / "again.twm")
    assert (tmp_path / "again.twm").read_bytes() == first
    script = "import sys, tilewright; tilewright.resume(sys.argv[1], output=sys.argv[2])"
    command = [sys.executable, "-c", script, str(levels / "00_import.ir"), str(tmp_path / "c.twm")]
    subprocess.run(command, check=True)
    assert (tmp_path / "c.twm").read_bytes() == first


def test_the_cache_does_not_change_the_bytes(
    levels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "")
    tilewright.compile(source(), output=tmp_path / "uncached.twm")
    assert (tmp_path / "uncached.twm").read_bytes() == (levels.parent / "model.twm").read_bytes()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the processors named are x86-64's")
def test_code_for_other_processors(tmp_path: Path) -> None:
    x, bias = inputs(3)
    for options in ({"mcpu": "x86-64-v2"}, {"mattr": "-avx512f,-avx2"}):
        model = tilewright.compile(source(), **options)
        assert "avx512f" not in model.manifest["target"]["features"]
        np.testing.assert_allclose(model(x, bias), expected(x, bias), rtol=1e-4, atol=1e-4)
    with pytest.raises(DiagnosticError, match="unknown cpu 'pentium'"):
        tilewright.compile(source(), mcpu="pentium")


def test_the_command_line_compiles_and_runs(levels: Path, tmp_path: Path) -> None:
    """Compile with the compiler, run where neither it nor any tool can be found."""
    output, given, written = tmp_path / "m.twm", tmp_path / "in.npz", tmp_path / "out.npz"
    assert main(["compile", str(levels / "01_graph.ir"), "-o", str(output), "--quiet", "--timing"]) == 0
    x, bias = inputs(5)
    np.savez(given, x=x, bias=bias)
    script = (
        "import sys\nfor name in ('xdsl', 'lark', 'onnx', 'rich', 'safetensors'): sys.modules[name] = None\n"
        "from tilewright.tools.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    words = ["run", str(output), "--inputs", str(given), "--outputs", str(written), "--threads", "2"]
    environment = {**os.environ, "PATH": ""}
    subprocess.run([sys.executable, "-c", script, *words], env=environment, check=True)
    with np.load(written) as outputs:
        np.testing.assert_allclose(outputs["y"], expected(x, bias), rtol=1e-4, atol=1e-4)


def test_two_models_on_four_threads(levels: Path, model: Model) -> None:
    other = tilewright.resume(levels / "04_loop.ir")
    wrong: list[int] = []

    def call(seed: int) -> None:
        for turn in range(20):
            given = inputs(1 + (seed + turn) % 9)
            for one in (model, other):
                if not np.allclose(one(*given), expected(*given), rtol=1e-4, atol=1e-4):
                    wrong.append(seed)

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_failed_compile_leaves_nothing_behind(levels: Path, tmp_path: Path) -> None:
    text = (levels / "08_host.ir").read_text()
    broken = text.replace("vm.call @matmul_add_relu(", "vm.call @none(", 1)
    assert broken != text
    (tmp_path / "broken.ir").write_text(broken)
    assert main(["compile", str(tmp_path / "broken.ir"), "-o", str(tmp_path / "m.twm")]) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["broken.ir"]
