"""ONNX control flow: If and Loop become scf.if and scf.while over tensors.

A Loop that collects outputs, and every Scan, is unrolled: their number of steps must be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import i1, i64
from xdsl.dialects.tensor import ExtractOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from ...core.attributes import shape_exprs, tensor_type
from ...dialects.graph import broadcasting as b
from ...dialects.graph.base import Tensor, tensor_of
from ...dialects.graph.shape import ConcatOp
from ...dialects.graph.structure import MatchShapeOp
from .entries import Entry
from .errors import UnsupportedError
from .node import Node, Result, Rule
from .rules_shape import part

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

    from .importer import GraphImporter


def _scalar(node: Node, value: SSAValue) -> SSAValue:
    """The one element of a tensor as a scalar value."""
    return node.emit(ExtractOp(node.reshape(value, ()), [], tensor_of(value).element_type))


def _subgraph(node: Node, graph: GraphProto, block: Block) -> GraphImporter:
    from .importer import GraphImporter

    inner = GraphImporter(node.importer.model, node.importer, block, node.importer.opsets)
    inner.add_initializers(graph)
    return inner


def _finish(inner: GraphImporter, graph: GraphProto) -> list[SSAValue]:
    """Imports the nodes of a subgraph; gives its outputs."""
    inner.run(graph.node)
    if any(inner.is_poisoned(o.name) for o in graph.output):
        raise UnsupportedError("a branch that is not supported")
    emitter = Node(inner, _empty(), 0, inner.model.location)
    values = [emitter.value(inner.resolve(o.name)) for o in graph.output]
    inner.block.add_ops(emitter.ops)
    return values


def _empty() -> NodeProto:
    from onnx import NodeProto

    return NodeProto()


def _if(node: Node) -> Sequence[Result]:
    branches = [node.attr("then_branch"), node.attr("else_branch")]
    condition = node.entry(0).array
    if condition is not None:
        chosen = branches[0] if bool(condition.reshape(-1)[0]) else branches[1]
        return _inline(node, chosen)
    flag = _scalar(node, node[0])
    blocks, results = [], []
    for graph in branches:
        block = Block()
        results.append(_finish(_subgraph(node, graph, block), graph))
        blocks.append(block)
    types = [_common_type(node, a, c) for a, c in zip(*results)]
    for block, values in zip(blocks, results):
        yields = [_as_type(block, v, t) for v, t in zip(values, types)]
        block.add_op(scf.YieldOp(*yields))
    op = scf.IfOp(flag, types, Region(blocks[0]), Region(blocks[1]))
    node.emit_without_result(op)
    return list(op.results)


def _inline(node: Node, graph: GraphProto) -> Sequence[Result]:
    node.flush()
    inner = _subgraph(node, graph, node.importer.block)
    inner.run(graph.node)
    if any(inner.is_poisoned(o.name) for o in graph.output):
        raise UnsupportedError("a branch that is not supported")
    return [inner.resolve(o.name) for o in graph.output]


def _common_type(node: Node, a: SSAValue, c: SSAValue) -> Tensor:
    """A type for both branches: dimensions that differ become a fresh symbol."""
    left, right = tensor_of(a), tensor_of(c)
    if left == right:
        return left
    if left.element_type != right.element_type or left.get_num_dims() != right.get_num_dims():
        raise UnsupportedError(f"branches with results of types {left} and {right}")
    dims = [x if x == y else node.fresh_symbol("branch") for x, y in zip(shape_exprs(left), shape_exprs(right))]
    return tensor_type(left.element_type, dims)


def _as_type(block: Block, value: SSAValue, type: Tensor) -> SSAValue:
    if value.type == type:
        return value
    op = MatchShapeOp(value, shape_exprs(type))
    block.add_op(op)
    return op.result


def _loop(node: Node) -> Sequence[Result]:
    """``while (i < trip count && condition)``; the carried values keep their types."""
    body: GraphProto = node.attr("body")
    carried = [node[i] for i in range(2, len(node.proto.input))]
    if len(body.output) - 1 != len(carried):
        return _unrolled_loop(node, body)
    start = node.constant(np.int64(0))
    proceed = node.reshape(node[1], ()) if node.has(1) else node.constant(np.ones((), bool))
    limit = node.reshape(node[0], ()) if node.has(0) else None
    types: list[Attribute] = [tensor_type(i64, []), tensor_type(i1, []), *(v.type for v in carried)]
    before = _loop_condition(node, types, limit)
    after = Block(arg_types=types)
    inner = _subgraph(node, body, after)
    for info, arg in zip(body.input, after.args):
        inner.define(info.name, Entry(value=arg, name=info.name))
    results = _finish(inner, body)
    for value, type in zip(results[1:], types[2:]):
        if value.type != type:
            raise UnsupportedError(f"a loop that changes a value's type from {type} to {value.type}")
    _loop_end(node, after, results)
    op = scf.WhileOp([start, proceed, *carried], types, Region(before), Region(after))
    node.emit_without_result(op)
    return list(op.results[2:])


UNROLL_LIMIT = 256
"""Loops of more steps are not unrolled."""


def _unrolled_loop(node: Node, body: GraphProto) -> Sequence[Result]:
    """A loop with scan outputs: needs a constant trip count and a condition that the importer can evaluate."""
    count = int(node.array(0, "the trip count of a loop that collects outputs").reshape(-1)[0]) if node.has(0) else None
    if count is None or count > UNROLL_LIMIT:
        raise UnsupportedError("scan outputs of a loop without a small constant trip count")
    carried = [node.entry(i) for i in range(2, len(node.proto.input))]
    collected: list[list[Result]] = []
    first = node.array(1, "the condition of a loop that collects outputs") if node.has(1) else np.array(True)
    proceed = Entry(array=first)
    for step in range(count):
        if not _is_true(proceed):
            break
        proceed, *values = _run_step(node, body, [Entry(array=np.array(step, np.int64)), proceed, *carried])
        carried = values[: len(carried)]
        collected.append(list(values[len(carried) :]))
    if not collected:
        raise UnsupportedError("scan outputs of a loop without steps")
    return [*carried, *(_stack(node, parts, 0) for parts in zip(*collected))]


def _is_true(condition: Entry) -> bool:
    if condition.array is None:
        raise UnsupportedError("a condition that depends on data, in a loop that collects outputs")
    return bool(condition.array.reshape(-1)[0])


def _run_step(node: Node, body: GraphProto, inputs: Sequence[Entry]) -> list[Entry]:
    """One step, imported into the surrounding block."""
    node.flush()
    inner = _subgraph(node, body, node.importer.block)
    for info, entry in zip(body.input, inputs):
        inner.define(info.name, entry)
    inner.run(body.node)
    if any(inner.is_poisoned(o.name) for o in body.output):
        raise UnsupportedError("a body that is not supported")
    return [inner.resolve(o.name) for o in body.output]


def _stack(node: Node, parts: Sequence[Result], axis: int) -> SSAValue:
    """Parts side by side along a new dimension."""
    values = [node.value(p if isinstance(p, Entry | SSAValue) else Entry(array=p)) for p in parts]
    shape = shape_exprs(values[0].type)
    rows = [node.reshape(v, (*shape[:axis], 1, *shape[axis:])) for v in values]
    return rows[0] if len(rows) == 1 else node.emit(ConcatOp(rows, axis))


def _scan(node: Node) -> Sequence[Result]:
    """Opset 9 on: every step takes one slice of each scan input."""
    if node.opset < 9:
        raise UnsupportedError("this version of the operator")
    body: GraphProto = node.attr("body")
    scanned = node.attr("num_scan_inputs")
    states = len(node.proto.input) - scanned
    carried = [node.entry(i) for i in range(states)]
    sources = [node[i] for i in range(states, states + scanned)]
    ranks = [len(shape_exprs(v.type)) for v in sources]
    axes = [a % r for a, r in zip(node.attr("scan_input_axes", [0] * scanned), ranks)]
    length = shape_exprs(sources[0].type)[axes[0]]
    if not length.is_const() or not 0 < length.const_value() <= UNROLL_LIMIT:
        raise UnsupportedError(f"a scan over {length} steps")
    steps = length.const_value()
    backwards = node.attr("scan_input_directions", [0] * scanned)
    collected: list[list[Entry]] = []
    for step in range(steps):
        slices = [
            Entry(value=_step_of(node, v, axis, steps - 1 - step if back else step))
            for v, axis, back in zip(sources, axes, backwards)
        ]
        values = _run_step(node, body, [*carried, *slices])
        carried = values[:states]
        collected.append(values[states:])
    return [*carried, *_scan_outputs(node, collected)]


def _step_of(node: Node, value: SSAValue, axis: int, step: int) -> SSAValue:
    shape = shape_exprs(value.type)
    return node.reshape(part(node, value, axis, step, 1), (*shape[:axis], *shape[axis + 1 :]))


def _scan_outputs(node: Node, collected: Sequence[Sequence[Entry]]) -> list[SSAValue]:
    count = len(collected[0])
    axes = node.attr("scan_output_axes", [0] * count)
    backwards = node.attr("scan_output_directions", [0] * count)
    outputs: list[SSAValue] = []
    for parts, axis, back in zip(zip(*collected), axes, backwards):
        rank = parts[0].rank + 1
        outputs.append(_stack(node, list(reversed(parts)) if back else list(parts), axis % rank))
    return outputs


def _loop_condition(node: Node, types: Sequence[Attribute], limit: SSAValue | None) -> Block:
    block = Block(arg_types=types)
    inner = Node(node.importer, node.proto, node.opset, node.location)
    flag: SSAValue = block.args[1]
    if limit is not None:
        flag = inner.emit(b.AndOp(flag, inner.emit(b.CompareOp(block.args[0], limit, "lt"))))
    scalar = _scalar(inner, flag)
    block.add_ops(inner.ops)
    block.add_op(scf.ConditionOp(scalar, *block.args))
    return block


def _loop_end(node: Node, block: Block, results: Sequence[SSAValue]) -> None:
    inner = Node(node.importer, node.proto, node.opset, node.location)
    following = inner.emit(b.AddOp(block.args[0], inner.constant(np.int64(1))))
    flag = inner.reshape(results[0], ())
    block.add_ops(inner.ops)
    block.add_op(scf.YieldOp(following, flag, *results[1:]))


CONTROL_RULES: dict[str, Rule] = {"If": _if, "Loop": _loop, "Scan": _scan}
"""Operator to rule."""
