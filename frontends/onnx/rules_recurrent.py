"""ONNX RNN, GRU and LSTM, unrolled: the length of the sequence must be known.

The products with the inputs of all steps are one matrix product before the recurrence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from ...core.symbolic import SymExpr
from ...dialects.graph import broadcasting as b
from ...dialects.graph import elementwise as e
from ...dialects.graph.linear import MatmulOp
from ...dialects.graph.shape import ConcatOp, TransposeOp
from .errors import ModelError, UnsupportedError
from .node import Node, Result, Rule, shape_of
from .rules_elementwise import softplus
from .rules_shape import part

STEP_LIMIT = 512
"""Longer sequences are not unrolled."""

Activation = Callable[[SSAValue], SSAValue]
Cell = Callable[["Direction", SSAValue, list[SSAValue]], list[SSAValue]]


def activation(node: Node, name: str, alpha: float, beta: float) -> Activation:
    """The function of an activation's name."""

    def affine(x: SSAValue) -> SSAValue:
        return node.emit(b.AddOp(node.emit(b.MulOp(x, node.constant(alpha, x))), node.constant(beta, x)))

    def hard_sigmoid(x: SSAValue) -> SSAValue:
        line = node.emit(b.MinOp(affine(x), node.constant(1, x)))
        return node.emit(b.MaxOp(line, node.constant(0, x)))

    def leaky(x: SSAValue) -> SSAValue:
        negative = node.emit(b.CompareOp(x, node.constant(0, x), "lt"))
        return node.emit(b.WhereOp(negative, node.emit(b.MulOp(x, node.constant(alpha, x))), x))

    found: dict[str, Activation] = {
        "sigmoid": lambda x: node.emit(e.SigmoidOp(x)),
        "tanh": lambda x: node.emit(e.TanhOp(x)),
        "relu": lambda x: node.emit(e.ReluOp(x)),
        "softplus": lambda x: softplus(node, x),
        "affine": affine,
        "hardsigmoid": hard_sigmoid,
        "leakyrelu": leaky,
    }
    if name.lower() not in found:
        raise UnsupportedError(f"activation {name}")
    return found[name.lower()]


_DEFAULTS = {"hardsigmoid": (0.2, 0.5), "leakyrelu": (0.01, 0.0), "affine": (1.0, 0.0)}


@dataclass
class Direction:
    """One pass over the sequence: parameters of one direction, and helpers that emit."""

    node: Node
    hidden: int
    recurrence: SSAValue
    """``hidden x gates * hidden``."""
    recurrence_bias: SSAValue | None
    peepholes: SSAValue | None
    activations: list[Activation]
    clip: float

    def gate(self, gates: SSAValue, index: int) -> SSAValue:
        """One gate's columns."""
        return part(self.node, gates, 1, index * self.hidden, self.hidden)

    def recur(self, state: SSAValue) -> SSAValue:
        """``state @ R + Rb`` for all gates."""
        return self.plus(self.node.emit(MatmulOp(state, self.recurrence)), self.recurrence_bias)

    def plus(self, x: SSAValue, y: SSAValue | None) -> SSAValue:
        return x if y is None else self.node.emit(b.AddOp(x, y))

    def times(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.node.emit(b.MulOp(x, y))

    def one_minus(self, x: SSAValue) -> SSAValue:
        return self.node.emit(b.SubOp(self.node.constant(1, x), x))

    def activate(self, index: int, x: SSAValue) -> SSAValue:
        if self.clip:
            low = self.node.emit(b.MaxOp(x, self.node.constant(-self.clip, x)))
            x = self.node.emit(b.MinOp(low, self.node.constant(self.clip, x)))
        return self.activations[index](x)

    def peep(self, x: SSAValue, cell: SSAValue, index: int) -> SSAValue:
        """``x + p * cell`` with the peephole weights of a gate."""
        if self.peepholes is None:
            return x
        weights = part(self.node, self.peepholes, 0, index * self.hidden, self.hidden)
        return self.plus(x, self.times(weights, cell))


def _rnn_cell(d: Direction, x: SSAValue, state: list[SSAValue]) -> list[SSAValue]:
    """h = f(x + R h)"""
    return [d.activate(0, d.plus(x, d.recur(state[0])))]


def _gru_cell(d: Direction, x: SSAValue, state: list[SSAValue]) -> list[SSAValue]:
    """z, r = f(x + R h); n = g(x_n + R_n (r h)) or g(x_n + r (R_n h)); h = (1 - z) n + z h"""
    h = state[0]
    gates = d.recur(h)
    z = d.activate(0, d.plus(d.gate(x, 0), d.gate(gates, 0)))
    r = d.activate(0, d.plus(d.gate(x, 1), d.gate(gates, 1)))
    if d.node.attr("linear_before_reset", 0):
        candidate = d.times(r, d.gate(gates, 2))
    else:
        weights = part(d.node, d.recurrence, 1, 2 * d.hidden, d.hidden)
        candidate = d.node.emit(MatmulOp(d.times(r, h), weights))
        if d.recurrence_bias is not None:
            candidate = d.plus(candidate, part(d.node, d.recurrence_bias, 0, 2 * d.hidden, d.hidden))
    n = d.activate(1, d.plus(d.gate(x, 2), candidate))
    return [d.plus(d.times(d.one_minus(z), n), d.times(z, h))]


def _lstm_cell(d: Direction, x: SSAValue, state: list[SSAValue]) -> list[SSAValue]:
    """i, o, f, c in ONNX's order; c = f c + i g(..); h = o h(c)"""
    h, c = state
    gates = d.plus(x, d.recur(h))
    i = d.activate(0, d.peep(d.gate(gates, 0), c, 0))
    forget = d.one_minus(i) if d.node.attr("input_forget", 0) else d.activate(0, d.peep(d.gate(gates, 2), c, 2))
    cell = d.plus(d.times(forget, c), d.times(i, d.activate(1, d.gate(gates, 3))))
    o = d.activate(0, d.peep(d.gate(gates, 1), cell, 1))
    return [d.times(o, d.activations[2](cell)), cell]


def _rule(cell: Cell, gates: int, states: int, names: Sequence[str]) -> Rule:
    """A rule for a kind of cell: number of gates, of states, and the default activations."""

    def rule(node: Node) -> list[Result]:
        batch_first = bool(node.attr("layout", 0))
        x = node.emit(TransposeOp(node[0], [1, 0, 2])) if batch_first else node[0]
        steps, batch, _ = shape_of(x)
        _check(node, steps)
        kind = node.attr("direction", "forward")
        backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(kind)
        if backwards is None:
            raise ModelError(f"direction '{kind}' does not exist")
        hidden = _hidden_size(node, gates)
        outputs: list[SSAValue] = []
        finals: list[list[SSAValue]] = []
        for i, back in enumerate(backwards):
            direction = _direction(node, i, hidden, gates, names)
            inputs = _input_gates(node, x, i, gates * hidden)
            state = [_initial(node, 5 + k, i, batch, hidden, x, batch_first) for k in range(states)]
            hs, state = _run(direction, cell, inputs, state, steps.const_value(), back)
            outputs.append(_stack(node, hs, (steps, 1, batch, hidden)))
            finals.append(state)
        y = outputs[0] if len(outputs) == 1 else node.emit(ConcatOp(outputs, 1))
        ends = [_stack(node, [f[k] for f in finals], (len(finals), batch, hidden)) for k in range(states)]
        if batch_first:
            y = node.emit(TransposeOp(y, [2, 0, 1, 3]))
            ends = [node.emit(TransposeOp(v, [1, 0, 2])) for v in ends]
        return [y, *ends]

    return rule


def _check(node: Node, steps: SymExpr) -> None:
    if not steps.is_const() or not 0 < steps.const_value() <= STEP_LIMIT:
        raise UnsupportedError(f"a sequence of {steps} steps")
    if node.has(4) and (node.array(4, "lengths of sequences") != steps.const_value()).any():
        raise UnsupportedError("sequences of different lengths")


def _hidden_size(node: Node, gates: int) -> int:
    rows = node.entry(2).shape[1]
    if not rows.is_const():
        raise UnsupportedError("weights of unknown size")
    return rows.const_value() // gates


def _of_direction(node: Node, value: SSAValue, index: int) -> SSAValue:
    return node.reshape(part(node, value, 0, index, 1), shape_of(value)[1:])


def _direction(node: Node, index: int, hidden: int, gates: int, names: Sequence[str]) -> Direction:
    count = len(names)
    given = [n.decode() if isinstance(n, bytes) else n for n in node.attr("activations", [])] or list(names) * 2
    alphas, betas = iter(node.attr("activation_alpha", [])), iter(node.attr("activation_beta", []))
    chosen: list[Activation] = []
    for name in given[: count * (index + 1)]:
        alpha, beta = _DEFAULTS.get(name.lower(), (0.0, 0.0))
        if name.lower() in _DEFAULTS:
            alpha = next(alphas, alpha)
            beta = next(betas, beta) if name.lower() != "leakyrelu" else beta
        chosen.append(activation(node, name, alpha, beta))
    recurrence = node.emit(TransposeOp(_of_direction(node, node[2], index), [1, 0]))
    bias = None
    if node.has(3):
        bias = part(node, _of_direction(node, node[3], index), 0, gates * hidden, gates * hidden)
    peepholes = _of_direction(node, node[7], index) if node.has(7) else None
    clip = float(node.attr("clip", 0.0))
    return Direction(node, hidden, recurrence, bias, peepholes, chosen[count * index :], clip)


def _input_gates(node: Node, x: SSAValue, index: int, width: int) -> SSAValue:
    """``x @ W + Wb`` for all steps: ``steps x batch x gates * hidden``."""
    weights = node.emit(TransposeOp(_of_direction(node, node[1], index), [1, 0]))
    gates = node.emit(MatmulOp(x, weights))
    if not node.has(3):
        return gates
    return node.emit(b.AddOp(gates, part(node, _of_direction(node, node[3], index), 0, 0, width)))


def _initial(node: Node, at: int, index: int, batch: SymExpr, hidden: int, x: SSAValue, batch_first: bool) -> SSAValue:
    if not node.has(at):
        return node.broadcast(node.constant(np.zeros(()), x), (batch, hidden))
    value = node.emit(TransposeOp(node[at], [1, 0, 2])) if batch_first else node[at]
    return node.claim(_of_direction(node, value, index), (batch, hidden))


def _run(
    direction: Direction, cell: Cell, inputs: SSAValue, state: list[SSAValue], steps: int, back: bool
) -> tuple[list[SSAValue], list[SSAValue]]:
    node = direction.node
    outputs: list[SSAValue] = []
    for step in reversed(range(steps)) if back else range(steps):
        x = node.reshape(part(node, inputs, 0, step, 1), shape_of(inputs)[1:])
        state = cell(direction, x, state)
        outputs.append(state[0])
    return (list(reversed(outputs)) if back else outputs), state


def _stack(node: Node, values: Sequence[SSAValue], shape: Sequence[SymExpr | int]) -> SSAValue:
    joined = values[0] if len(values) == 1 else node.emit(ConcatOp(values, 0))
    return node.reshape(joined, shape)


RECURRENT_RULES: dict[str, Rule] = {
    "RNN": _rule(_rnn_cell, 1, 1, ["Tanh"]),
    "GRU": _rule(_gru_cell, 3, 1, ["Sigmoid", "Tanh"]),
    "LSTM": _rule(_lstm_cell, 4, 2, ["Sigmoid", "Tanh", "Tanh"]),
}
"""Operator to rule."""
