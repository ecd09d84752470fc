"""The reference interpreter on graph programs: symbols, kernels, recipes, calls in memory, messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.core.context import TilewrightContext, make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.verifier import verify
from tilewright.interp import Interpreter
from tilewright.interp.interpreter import evaluate_op
from tilewright.text import parse_module


def interpreter(text: str, context: TilewrightContext | None = None) -> Interpreter:
    context = context or make_context()
    module = parse_module(text, context=context)
    verify(module)
    return Interpreter(module, context)


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


def test_symbols_are_bound_and_checked() -> None:
    run = interpreter("""
        #n = #tw.enc<dims = [n]>
        #n2 = #tw.enc<dims = [n * 2]>
        #n3 = #tw.enc<dims = [n * 3]>
        func.func @main(%x: tensor<?xf32, #n> {tw.name = "x"}, %y: tensor<?xf32, #n2> {tw.name = "y"})
            -> tensor<?xf32, #n3> {
          %0 = graph.concat %x, %y {axis = 0} : (tensor<?xf32, #n>, tensor<?xf32, #n2>) -> tensor<?xf32, #n3>
          func.return %0 : tensor<?xf32, #n3>
        }
    """)
    np.testing.assert_array_equal(run.call("main", [floats(1), floats(2, 3)])[0], [1, 2, 3])
    with pytest.raises(DiagnosticError, match=r"'y' has size 3 in dimension 0, expected n \* 2 = 2"):
        run.call("main", [floats(1), floats(2, 3, 4)])
    with pytest.raises(DiagnosticError, match="'x' has rank 2, expected 1"):
        run.call("main", [np.zeros((1, 1), np.float32), floats(1)])
    with pytest.raises(DiagnosticError, match="'x' has element type float64, expected float32"):
        run.call("main", [np.zeros(1), floats(1)])
    with pytest.raises(DiagnosticError, match="takes 2 arguments, found 1"):
        run.call("main", [floats(1)])


def test_match_shape_binds_and_checks() -> None:
    run = interpreter("""
        #n = #tw.enc<dims = [n]>
        #m = #tw.enc<dims = [m]>
        func.func @main(%x: tensor<?xf32, #n>, %y: tensor<?x2xf32, #n>) -> tensor<?x2xf32, #m> {
          %0 = graph.match_shape %x : (tensor<?xf32, #n>) -> tensor<?xf32, #m>
          %1 = graph.match_shape %y : (tensor<?x2xf32, #n>) -> tensor<?x2xf32, #m>
          %2 = graph.match_shape %1 : (tensor<?x2xf32, #m>) -> tensor<4x2xf32>
          func.return %1 : tensor<?x2xf32, #m>
        }
    """)
    assert run.call("main", [np.zeros(4, np.float32), np.zeros((4, 2), np.float32)])[0].shape == (4, 2)
    with pytest.raises(DiagnosticError, match="operand has size 3 in dimension 0, expected 4"):
        run.call("main", [np.zeros(3, np.float32), np.zeros((3, 2), np.float32)])


def test_match_shape_without_a_value() -> None:
    run = interpreter("""
        #n = #tw.enc<dims = [n]>
        #m2 = #tw.enc<dims = [m * 2]>
        func.func @main(%x: tensor<?xf32, #n>) -> tensor<?xf32, #m2> {
          %0 = graph.match_shape %x : (tensor<?xf32, #n>) -> tensor<?xf32, #m2>
          func.return %0 : tensor<?xf32, #m2>
        }
    """)
    with pytest.raises(DiagnosticError, match=r"operand has size m \* 2 in dimension 0, but 'm' has no value"):
        run.call("main", [np.zeros(4, np.float32)])


def test_recipes_and_resources() -> None:
    context = make_context()
    context.resources.add(floats(1, 4, 9), "w")
    run = interpreter(
        """
        graph.recipe @root : tensor<3xf32> {
          %0 = graph.constant dense_resource<w> : tensor<3xf32>
          %1 = graph.sqrt %0 : (tensor<3xf32>) -> tensor<3xf32>
          graph.yield %1 : tensor<3xf32>
        }
        func.func @main() -> tensor<3xf32> {
          %0 = graph.constant @root : tensor<3xf32>
          func.return %0 : tensor<3xf32>
        }
        """,
        context,
    )
    np.testing.assert_array_equal(run.call("main", [])[0], [1, 2, 3])


def test_missing_resource() -> None:
    run = interpreter("""
        func.func @main() -> tensor<3xf32> {
          %0 = graph.constant dense_resource<nowhere> : tensor<3xf32>
          func.return %0 : tensor<3xf32>
        }
    """)
    with pytest.raises(DiagnosticError, match="names the resource 'nowhere', which the table does not have"):
        run.call("main", [])


def test_kernel_in_memory() -> None:
    """A kernel in destination-passing form sees physical layouts; main sees logical arrays."""
    layout = "#tw.enc<layout = (d0, d1) -> (d1, d0)>"
    run = interpreter(f"""
        func.func private @k(%x: memref<3x2xf32>, %out: memref<2x3xf32>) {{
          loop.for %i = 0 to 2 {{
            loop.for %j = 0 to 3 {{
              %v = loop.load %x[%j, %i] : memref<3x2xf32>
              loop.store %v, %out[%i, %j] : memref<2x3xf32>
            }}
          }}
          func.return
        }}
        func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
          %0 = graph.relayout %x : (tensor<2x3xf32>) -> tensor<2x3xf32, {layout}>
          %1 = graph.call @k(%0) : (tensor<2x3xf32, {layout}>) -> tensor<2x3xf32>
          func.return %1 : tensor<2x3xf32>
        }}
    """)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(run.call("main", [x])[0], x)


def test_indices_out_of_range_are_reported() -> None:
    run = interpreter("""
        func.func @main(%x: tensor<3xf32>, %i: tensor<2xi64>) -> tensor<2xf32> {
          %0 = graph.gather %x, %i {axis = 0} : (tensor<3xf32>, tensor<2xi64>) -> tensor<2xf32>
          func.return %0 : tensor<2xf32>
        }
    """)
    np.testing.assert_array_equal(run.call("main", [floats(1, 2, 3), np.array([-1, 0])])[0], [3, 1])
    with pytest.raises(DiagnosticError, match="index 3 is out of range for dimension of size 3"):
        run.call("main", [floats(1, 2, 3), np.array([0, 3])])


def test_evaluate_op() -> None:
    module = parse_module(
        """
        func.func @f(%x: tensor<2x2xf32>) {
          %0 = graph.reduce_max %x {axes = array<i64: 0>} : (tensor<2x2xf32>) -> tensor<2xf32>
          %1 = graph.slice %x {starts = #tw.exprs<[1, 1]>, sizes = #tw.exprs<[2, 1]>, steps = array<i64: -1, 1>}
            : (tensor<2x2xf32>) -> tensor<2x1xf32>
          func.return
        }
        """,
        context=make_context(),
    )
    first, second, _ = next(iter(module.body.block.ops)).regions[0].block.ops
    x = np.array([[1, 2], [3, 0]], np.float32)
    np.testing.assert_array_equal(evaluate_op(first, [x])[0], [3, 2])
    np.testing.assert_array_equal(evaluate_op(second, [x])[0], [[0], [2]])


def test_unknown_op_is_a_diagnostic() -> None:
    run = interpreter("""
        func.func @main(%p: memref<4xf32>) {
          memref.dealloc %p : memref<4xf32>
          func.return
        }
    """)
    with pytest.raises(DiagnosticError, match=r"'memref.dealloc' op has no interpretation"):
        run.call("main", [np.zeros(4, np.float32)])


def test_kernels_know_the_symbols_of_their_caller() -> None:
    run = interpreter("""
        func.func private @k(%x: tensor<?xf32, #tw.enc<dims = [n * 2]>>) -> tensor<?xf32, #tw.enc<dims = [n * 2]>>
            attributes {tw.kernel} {
          %0 = graph.relu %x : (tensor<?xf32, #tw.enc<dims = [n * 2]>>) -> tensor<?xf32, #tw.enc<dims = [n * 2]>>
          func.return %0 : tensor<?xf32, #tw.enc<dims = [n * 2]>>
        }
        func.func @main(%x: tensor<?xf32, #tw.enc<dims = [n]>>) -> tensor<?xf32, #tw.enc<dims = [n * 2]>> {
          %0 = graph.concat %x, %x {axis = 0 : i64} : (tensor<?xf32, #tw.enc<dims = [n]>>,
            tensor<?xf32, #tw.enc<dims = [n]>>) -> tensor<?xf32, #tw.enc<dims = [n * 2]>>
          %1 = graph.call @k(%0) : (tensor<?xf32, #tw.enc<dims = [n * 2]>>) -> tensor<?xf32, #tw.enc<dims = [n * 2]>>
          func.return %1 : tensor<?xf32, #tw.enc<dims = [n * 2]>>
        }
    """)
    np.testing.assert_array_equal(run.call("main", [np.array([-1, 2], np.float32)])[0], [0, 2, 0, 2])
