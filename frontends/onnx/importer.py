"""ONNX models to graph-level modules.

``import_model`` walks the nodes in order, runs each through the rule of its operator (``table.py``) and infers shapes
on the way. Initialisers become constants by reference, ``dim_param`` become symbols (at least 1), shape arithmetic is
evaluated while importing. Operators without a rule are expanded by ONNX's own function bodies where they have one.
Whatever is left is reported in one message that names every unsupported node.

Elsewhere: control flow in ``control.py``, expansion of functions in ``functions.py``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, LocationAttr, ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import tensor_type
from ...core.context import TilewrightContext
from ...core.diagnostics import Diagnostic, DiagnosticError, Severity, file_location, name_location
from ...core.symbolic import ExprLike, as_expr
from ...dialects.graph.structure import ConstantOp
from .entries import Entry
from .errors import ModelError, UnsupportedError, UnsupportedNodesError, ValueNeededError
from .folding import fold_node
from .functions import expand_node
from .load import load_model
from .node import Node, Result, as_results
from .schema import check_node
from .symbolic_rules import SYMBOLIC_RULES
from .symbols import SymbolNames
from .table import find_rule
from .tensors import constant_attribute, element_type, tensor_array

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

Array = npt.NDArray[Any]
Shapes = Mapping[str, Sequence[int | str | None]]


def import_model(
    model: ModelProto | bytes | str | Path,
    context: Context,
    *,
    shapes: Shapes | None = None,
    values: Mapping[str, Array] | None = None,
) -> ModuleOp:
    """The graph-level module of an ONNX model, with one public function ``main``.

    ``shapes`` replaces the shapes of inputs: integers fix a dimension, strings name a symbol, ``None`` makes a fresh
    one. ``values`` fixes inputs: they become constants and are no arguments any more. Weights go to the context's table
    of resources. Anything wrong with the model is a ``DiagnosticError``.
    """
    if not isinstance(context, TilewrightContext):
        raise TypeError("import_model needs a context made by tilewright.core.context.make_context")
    proto, name, folder = load_model(model)
    importer = ModelImporter(proto, context, file_location(name, 0, 0), folder, shapes or {}, values or {})
    return importer.run()


class ModelImporter:
    """State of one import."""

    def __init__(
        self,
        proto: ModelProto,
        context: TilewrightContext,
        location: LocationAttr,
        folder: Path | None,
        shapes: Shapes,
        values: Mapping[str, Array],
    ) -> None:
        self.proto = proto
        self.context = context
        self.location = location
        self.folder = folder
        self.shapes = shapes
        self.values = values
        self.symbols = SymbolNames()
        self.opsets = {o.domain.replace("ai.onnx", "") if o.domain == "ai.onnx" else o.domain: o.version
                       for o in proto.opset_import}  # fmt: skip
        self.functions: dict[tuple[str, str], FunctionProto] = {(f.domain, f.name): f for f in proto.functions}
        self.constants: list[Operation] = []
        self.constant_arrays: dict[SSAValue, Array] = {}
        self.problems: list[tuple[NodeProto, str]] = []
        self.needed: set[str] = set()
        self._arguments: dict[SSAValue, str] = {}

    def run(self) -> ModuleOp:
        """Imports the main graph."""
        graph = self.proto.graph
        initializers = {t.name: t for t in graph.initializer}
        inputs = [i for i in graph.input if i.name not in initializers]
        self._check_names(inputs)
        fixed = [i.name for i in inputs if i.name in self.values]
        inputs = [i for i in inputs if i.name not in self.values]
        types = [self._input_type(i) for i in inputs]
        block = Block(arg_types=types)
        main = GraphImporter(self, None, block, self.opsets)
        for info, arg in zip(inputs, block.args):
            arg.location = name_location(info.name, self.location)
            set_hint(arg, info.name)
            main.define(info.name, Entry(value=arg, name=info.name))
            self._arguments[arg] = info.name
        for name in fixed:
            main.define(name, Entry(array=self.values[name], name=name))
        main.add_initializers(graph)
        main.run(graph.node)
        self._report()
        outputs = [self._output(main, o) for o in graph.output]
        block.add_op(func.ReturnOp(*outputs))
        used = [op for op in self.constants if op.results[0].first_use is not None]
        if used and block.first_op is not None:
            block.insert_ops_before(used, block.first_op)
        return self._module(block, [i.name for i in inputs], [o.name for o in graph.output], outputs)

    def small_inputs(self, value: SSAValue) -> list[str]:
        """The model inputs that a value is computed from, if all of them are small tensors."""
        found: dict[str, None] = {}
        seen: set[SSAValue] = set()
        pending = [value]
        while pending:
            current = pending.pop()
            if current in seen:
                continue
            seen.add(current)
            if isinstance(current.owner, Operation):
                pending.extend(current.owner.operands)
            elif current not in self._arguments or not _is_small(current.type):
                return []
            else:
                found[self._arguments[current]] = None
        return list(found)

    def _check_names(self, inputs: Sequence[ValueInfoProto]) -> None:
        known = {i.name for i in inputs}
        for name in (*self.shapes, *self.values):
            if name not in known:
                raise self.failure(f"the model has no input '{name}', its inputs are {', '.join(sorted(known))}")

    def _input_type(self, info: ValueInfoProto) -> Attribute:
        if info.type.WhichOneof("value") != "tensor_type":
            kind = info.type.WhichOneof("value") or "nothing"
            raise self.failure(f"input '{info.name}' is a {kind}, which is not supported")
        tensor = info.type.tensor_type
        try:
            element = element_type(tensor.elem_type)
        except (UnsupportedError, ModelError) as problem:
            raise self.failure(f"input '{info.name}': {problem}") from None
        given = self.shapes.get(info.name)
        if given is None:
            if not tensor.HasField("shape"):
                raise self.failure(f"input '{info.name}' has no shape, give one in 'shapes'")
            given = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim]
        dims = [self._dim(d, f"{info.name}_{i}") for i, d in enumerate(given)]
        return tensor_type(element, dims)

    def _dim(self, dim: int | str | None, hint: str) -> ExprLike:
        if isinstance(dim, str):
            return int(dim) if dim.isdigit() else self.symbols.named(dim, hint)
        if dim is None or dim < 0:
            return self.symbols.fresh(hint, maybe_zero=False)
        return as_expr(dim)

    def _output(self, main: GraphImporter, info: ValueInfoProto) -> SSAValue:
        try:
            entry = main.resolve(info.name)
        except ModelError as problem:
            raise self.failure(str(problem)) from None
        collector = Node(main, _empty_node(), 0, self.location)
        value = collector.value(entry)
        main.block.add_ops(collector.ops)
        return value

    def _module(
        self, block: Block, inputs: Sequence[str], outputs: Sequence[str], values: Sequence[SSAValue]
    ) -> ModuleOp:
        types = ([a.type for a in block.args], [v.type for v in values])
        main = func.FuncOp("main", types, Region(block))
        main.arg_attrs = ArrayAttr([DictionaryAttr({"tw.name": StringAttr(n)}) for n in inputs])
        main.res_attrs = ArrayAttr([DictionaryAttr({"tw.name": StringAttr(n)}) for n in outputs])
        main.location = self.location
        module = ModuleOp([main])
        module.location = self.location
        return module

    def failure(self, message: str, location: LocationAttr | None = None) -> DiagnosticError:
        """An error about the model."""
        return DiagnosticError(Diagnostic(Severity.ERROR, message, location or self.location))

    def _report(self) -> None:
        """One error for all nodes that could not be imported."""
        if not self.problems:
            return
        count = len(self.problems)
        notes = tuple(
            Diagnostic(Severity.NOTE, describe_node(n, self.opsets, why), self.location) for n, why in self.problems
        )
        names = sorted({n.op_type for n, _ in self.problems})
        message = f"{count} node{'s are' if count > 1 else ' is'} not supported: {', '.join(names)}"
        raise UnsupportedNodesError(Diagnostic(Severity.ERROR, message, self.location, notes), self.needed)


class GraphImporter:
    """One graph (the main one, a branch, a loop body, a function's body): names to entries, and the block being
    filled.
    """

    def __init__(
        self, model: ModelImporter, parent: GraphImporter | None, block: Block, opsets: Mapping[str, int]
    ) -> None:
        self.model = model
        self.parent = parent
        self.block = block
        self.opsets = opsets
        self.entries: dict[str, Entry] = {}
        self.poisoned: set[str] = set()

    @property
    def symbols(self) -> SymbolNames:
        return self.model.symbols

    def define(self, name: str, entry: Entry) -> None:
        self.entries[name] = entry

    def resolve(self, name: str) -> Entry:
        """The entry of a value, from this graph or one around it."""
        found = self.entries.get(name)
        if found is not None:
            return found
        if self.parent is not None:
            return self.parent.resolve(name)
        raise ModelError(f"value '{name}' is used but not defined")

    def is_poisoned(self, name: str) -> bool:
        if name in self.poisoned:
            return True
        return name not in self.entries and self.parent is not None and self.parent.is_poisoned(name)

    def constant(self, array: Array, hint: str) -> SSAValue:
        """A constant op at the top of the function."""
        op = ConstantOp(constant_attribute(array, self.model.context.resources, hint))
        op.location = name_location(hint, self.model.location)
        set_hint(op.results[0], hint)
        self.model.constants.append(op)
        self.model.constant_arrays[op.result] = array
        return op.result

    def add_initializers(self, graph: GraphProto) -> None:
        if graph.sparse_initializer:
            raise self.model.failure("sparse initialisers are not supported")
        for tensor in graph.initializer:
            self.define(tensor.name, Entry(array=self.tensor(tensor), name=tensor.name))

    def tensor(self, proto: TensorProto) -> Array:
        try:
            return tensor_array(proto, self.model.folder)
        except (ModelError, UnsupportedError) as problem:
            raise self.model.failure(f"initialiser '{proto.name}': {problem}") from None

    def run(self, nodes: Sequence[NodeProto]) -> None:
        """Imports nodes in their order, which is topological in a valid model."""
        for proto in nodes:
            self.run_node(proto)

    def run_node(self, proto: NodeProto) -> None:
        """Imports one node; what is not supported is noted, and poisons everything that depends on it."""
        if any(self.is_poisoned(name) for name in proto.input if name):
            self._note_if_unknown(proto)
            self.poisoned.update(proto.output)
            return
        label = proto.name or (proto.output[0] if proto.output else proto.op_type)
        location = name_location(label, self.model.location)
        try:
            self._import_node(proto, location)
        except UnsupportedError as problem:
            self.model.problems.append((proto, str(problem)))
            if isinstance(problem, ValueNeededError):
                self.model.needed.update(problem.names)
            self.poisoned.update(proto.output)
        except (ModelError, VerifyException) as problem:
            text = str(problem).strip()
            raise self.model.failure(f"node '{label}' ({proto.op_type}): {text}", location) from None

    def _import_node(self, proto: NodeProto, location: LocationAttr) -> None:
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        local = self.model.functions.get((proto.domain, proto.op_type))
        rule = None if local is not None else find_rule(domain, proto.op_type)
        if rule is None:
            expand_node(self, proto, local)
            return
        check_node(proto, self.opsets)
        node = Node(self, proto, self.opsets.get(domain, 1), location)
        symbolic = SYMBOLIC_RULES.get(proto.op_type) if domain == "" else None
        known = symbolic(node) if symbolic is not None else None
        if known is not None:
            self.define(proto.output[0], known)
            return
        results = as_results(rule(node))
        folded = fold_node(node, results)
        if folded is None:
            self.block.add_ops(node.ops)
        else:
            results = folded
        if len(proto.output) > len(results) and any(proto.output[len(results) :]):
            raise UnsupportedError(f"output {len(results)}")
        for name, result in zip(proto.output, results):
            if name:
                self.define(name, self._as_entry(result, name))

    def _as_entry(self, result: Result, name: str) -> Entry:
        if isinstance(result, Entry):
            return result
        if isinstance(result, SSAValue):
            set_hint(result, name)
            return Entry(value=result, array=self.model.constant_arrays.get(result), name=name)
        return Entry(array=result, name=name)

    def _note_if_unknown(self, proto: NodeProto) -> None:
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        known = find_rule(domain, proto.op_type) or (proto.domain, proto.op_type) in self.model.functions
        if not known:
            from .functions import has_body

            if not has_body(self, proto):
                self.model.problems.append((proto, "no rule for this operator"))


def _is_small(type: Attribute) -> bool:
    assert isinstance(type, TensorType)
    shape = type.get_shape()
    return all(d >= 0 for d in shape) and math.prod(shape) <= 64


def set_hint(value: SSAValue, name: str) -> None:
    """Names an SSA value like the model's value, for readers."""
    hint = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    if hint and not hint[0].isdigit() and value.name_hint is None:
        value.name_hint = hint


def describe_node(proto: NodeProto, opsets: Mapping[str, int], reason: str) -> str:
    """``Attention 'attn0' (com.microsoft, opset 1): no rule for this operator``."""
    domain = proto.domain or "ai.onnx"
    version = opsets.get("" if domain == "ai.onnx" else domain, 1)
    label = proto.name or (proto.output[0] if proto.output else "")
    return f"{proto.op_type} '{label}' ({domain}, opset {version}): {reason}"


def _empty_node() -> NodeProto:
    from onnx import NodeProto

    return NodeProto()
