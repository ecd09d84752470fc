"""Reducing in process: what stays is what the test asks for, and little else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tilewright.core.context import TilewrightContext, make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.verifier import verify
from tilewright.text import parse_module, print_module
from tilewright.tools.reduce import Reducer, reduce
from tilewright.tools.reduce.measure import measure, op_count

MLP = """
func.func @unused(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = graph.exp %a : (tensor<3xf32>) -> tensor<3xf32>
  func.return %0 : tensor<3xf32>
}
func.func @main(%x: tensor<?x6xf32, #tw.enc<dims = [n]>>) -> (tensor<?x3xf32, #tw.enc<dims = [n]>> {tw.name = "y"}) {
  %w = graph.constant dense_resource<w> : tensor<6x5xf32>
  %b = graph.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xf32>
  %v = graph.constant dense<0.25> : tensor<5x3xf32>
  %0 = graph.matmul %x, %w : (tensor<?x6xf32, #tw.enc<dims = [n]>>, tensor<6x5xf32>)
      -> tensor<?x5xf32, #tw.enc<dims = [n]>>
  %1 = graph.add %0, %b : (tensor<?x5xf32, #tw.enc<dims = [n]>>, tensor<5xf32>)
      -> tensor<?x5xf32, #tw.enc<dims = [n]>>
  %2 = graph.relu %1 : (tensor<?x5xf32, #tw.enc<dims = [n]>>) -> tensor<?x5xf32, #tw.enc<dims = [n]>>
  %3 = graph.matmul %2, %v : (tensor<?x5xf32, #tw.enc<dims = [n]>>, tensor<5x3xf32>)
      -> tensor<?x3xf32, #tw.enc<dims = [n]>>
  func.return %3 : tensor<?x3xf32, #tw.enc<dims = [n]>>
}
"""

LOOPS = """
func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = graph.call @k(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  func.return %0 : tensor<8x4xf32>
}
func.func private @k(%x: memref<8x4xf32>, %out: memref<8x4xf32>) attributes {tw.kernel, constant_args = [],
    num_inputs = 1 : i64, num_outputs = 1 : i64, symbols = []} {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 4 {
      loop.block "b" spatial(%vi in 8 = %i, %vj in 4 = %j) {
        %a = loop.load %x[%vi, %vj] : memref<8x4xf32>
        %e = math.exp %a : f32
        %t = math.tanh %e : f32
        loop.store %t, %out[%vi, %vj] : memref<8x4xf32>
      }
    }
  }
  func.return
}
"""


def load(text: str) -> tuple[ModuleOp, TilewrightContext]:
    context = make_context()
    context.resources.add(np.arange(30, dtype=np.float32).reshape(6, 5), "w")
    module = parse_module(text, context=context)
    verify(module)
    return module, context


def has(name: str) -> Callable[[ModuleOp], bool]:
    return lambda module: any(op.name == name for op in module.walk())


def reduced(text: str, test: Callable[[ModuleOp], bool]) -> ModuleOp:
    module, context = load(text)
    before = print_module(module)
    result = reduce(module, test, context)
    assert print_module(module) == before
    verify(result)
    again = parse_module(print_module(result), context=context)
    assert test(again)
    assert print_module(again) == print_module(result)
    return result


@pytest.mark.parametrize("name", ["graph.relu", "graph.matmul", "graph.constant", "graph.exp", "func.return"])
def test_only_what_the_test_wants_is_left(name: str) -> None:
    result = reduced(MLP, has(name))
    assert op_count(result) <= 3 + (name == "graph.matmul")
    assert "dense_resource" not in print_module(result)


def test_shapes_shrink_together_and_symbols_become_numbers() -> None:
    text = print_module(reduced(MLP, has("graph.matmul")))
    assert "tensor<1x1xf32>" in text
    assert "tw.enc" not in text


def test_constants_are_cut_with_their_shapes() -> None:
    """The test needs the array's values, so that it stays a resource, of fewer elements."""

    def wants_resource(module: ModuleOp) -> bool:
        return "dense_resource" in print_module(module)

    module, context = load(MLP)
    result = reduce(module, wants_resource, context)
    name = print_module(result).partition("dense_resource<")[2].partition(">")[0]
    assert context.resources[name].shape == (1, 1)
    assert context.resources[name][0, 0] == context.resources["w"][0, 0]


@pytest.mark.parametrize(("name", "left"), [("math.exp", 4), ("loop.for", 3), ("loop.block", 3), ("loop.store", 4)])
def test_regions_are_hoisted(name: str, left: int) -> None:
    assert op_count(reduced(LOOPS, has(name))) <= left


def test_values_of_two_places_keep_what_connects_them() -> None:
    def adds_product(module: ModuleOp) -> bool:
        sums = [op for op in module.walk() if op.name == "graph.add"]
        return any(getattr(op.operands[0].owner, "name", "") == "graph.matmul" for op in sums)

    assert op_count(reduced(MLP, adds_product)) <= 5


def test_unused_results_and_arguments_go_with_those_of_calls() -> None:
    text = """
    func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
      %0:2 = func.call @f(%x, %y) : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
      func.return %0#1 : tensor<3xf32>
    }
    func.func private @f(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
      %0 = graph.exp %x : (tensor<3xf32>) -> tensor<3xf32>
      %1 = graph.tanh %y : (tensor<3xf32>) -> tensor<3xf32>
      func.return %0, %1 : tensor<3xf32>, tensor<3xf32>
    }
    """

    def calls_what_computes(module: ModuleOp) -> bool:
        results = {op.name: list(op.results) for op in module.walk()}
        return bool(results.get("func.call")) and "graph.tanh" in results

    text = print_module(reduced(text, calls_what_computes))
    assert "graph.exp" not in text
    assert "-> (tensor" not in text


def test_equal_reductions_give_equal_text() -> None:
    texts = {print_module(reduced(LOOPS, has("math.tanh"))) for _ in range(2)}
    assert len(texts) == 1


def test_unregistered_operations_are_reduced_too() -> None:
    context = make_context(allow_unregistered=True)
    text = '"x.a"() ({ %0 = "x.b"() : () -> i32\n "x.c"(%0, %0) {k = 1 : i32} : (i32, i32) -> () }) : () -> ()'
    module = parse_module(text, context=context)
    result = reduce(module, lambda m: '"x.c"' in print_module(m), context)
    assert op_count(result) <= 2
    assert "k =" not in print_module(result)


def test_what_is_not_interesting_is_an_error() -> None:
    module, context = load(MLP)
    with pytest.raises(DiagnosticError, match="not interesting"):
        reduce(module, has("graph.tanh"), context)


def test_every_candidate_is_valid_and_changes_to_it_do_no_harm() -> None:
    module, context = load(MLP)
    seen: list[str] = []

    def test(candidate: ModuleOp) -> bool:
        verify(candidate)
        seen.append(print_module(candidate))
        found = has("graph.add")(candidate)
        for op in list(candidate.body.block.ops):
            op.detach()
        return found

    assert has("graph.add")(reduce(module, test, context))
    assert len(seen) == len(set(seen))


def test_limits_and_diagnostics_of_the_test() -> None:
    module, context = load(MLP)
    reducer = Reducer(module, has("graph.relu"), context, max_tests=5)
    reducer.run()
    assert reducer.tests == 5
    count = 0

    def fails_later(candidate: ModuleOp) -> bool:
        nonlocal count
        count += 1
        if count > 1:
            raise DiagnosticError(())
        return True

    assert print_module(reduce(module, fails_later, context)) == print_module(module)


def test_an_interrupt_leaves_the_best_so_far() -> None:
    module, context = load(MLP)
    count = 0

    def interrupted(candidate: ModuleOp) -> bool:
        nonlocal count
        count += 1
        if count == 10:
            raise KeyboardInterrupt
        return has("graph.relu")(candidate)

    reducer = Reducer(module, interrupted, context)
    with pytest.raises(KeyboardInterrupt):
        reducer.run()
    verify(reducer.best)
    assert has("graph.relu")(reducer.best)
    assert measure(reducer.best) < measure(module)


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_the_command_line_writes_its_best_when_interrupted(tmp_path: Path) -> None:
    (tmp_path / "in.ir").write_text(MLP.replace("dense_resource<w>", "dense<1.0>"))
    test = tmp_path / "test.sh"
    test.write_text(f'#!/bin/sh\necho x >> {tmp_path}/count\nsleep 0.05\n! grep -q relu "$1"\n')
    test.chmod(0o755)
    command = [sys.executable, "-m", "tilewright.tools.reduce.main", "in.ir", "-o", "out.ir", "--test", str(test)]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        if (tmp_path / "count").exists() and len((tmp_path / "count").read_text()) >= 10:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "interrupted" in said
    text = (tmp_path / "out.ir").read_text()
    verify(parse_module(text, context=make_context()))
    assert "relu" in text
    assert not list(tmp_path.glob(".*tmp"))


def test_a_signal_counts_as_shells_count_it(tmp_path: Path) -> None:
    from tilewright.tools.reduce.command import CommandTest, Outcome

    module, context = load(MLP)

    def holds(command: list[str], outcome: Outcome) -> bool:
        return CommandTest(command, context, outcome, "in.ir", 0.5)(module)

    assert holds(["sh", "-c", "kill -SEGV $$", "{}"], Outcome(139))
    assert holds(["sh", "-c", "echo wrong; exit 3", "{}"], Outcome(match="wrong"))
    assert not holds(["sh", "-c", "echo wrong; exit 3", "{}"], Outcome(match="right"))
    assert not holds(["sh", "-c", "exit 3", "{}"], Outcome(4))
    assert holds(["sh", "-c", "exit 0", "{}"], Outcome(0))
    assert not holds(["sh", "-c", "sleep 5; exit 1", "{}"], Outcome())
