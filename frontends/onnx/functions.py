"""Operators that are functions: those of the model, and those that ONNX itself defines by a body of simpler
operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from .entries import Entry
from .errors import UnsupportedError

if TYPE_CHECKING:
    from onnx import FunctionProto, NodeProto

    from .importer import GraphImporter

NO_RULE = "no rule for this operator"


def expand_node(importer: GraphImporter, proto: NodeProto, local: FunctionProto | None) -> None:
    """Imports the body of a function in place of a node."""
    body = local if local is not None else _standard_body(importer, proto)
    if body is None:
        raise UnsupportedError(NO_RULE)
    from .importer import GraphImporter

    opsets = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in body.opset_import}
    inner = GraphImporter(importer.model, None, importer.block, {**importer.opsets, **opsets})
    for name, outer in zip(body.input, proto.input):
        if outer:
            inner.define(name, importer.resolve(outer))
    missing = set(body.input) - set(inner.entries)
    defaults = body.attribute_proto if local is not None else _schema_defaults(importer, proto)
    attributes = {a.name: a for a in defaults} | {a.name: a for a in proto.attribute}
    before = len(importer.model.problems)
    for node in body.node:
        inner.run_node(_bind(node, attributes, missing))
    if len(importer.model.problems) > before:
        inner_problems = importer.model.problems[before:]
        del importer.model.problems[before:]
        text = "; ".join(sorted({f"{n.op_type}: {why}" for n, why in inner_problems}))
        raise UnsupportedError(f"its definition needs {text}")
    for name, outer in zip(body.output, proto.output):
        if outer:
            importer.define(outer, inner.resolve(name))


def has_body(importer: GraphImporter, proto: NodeProto) -> bool:
    """Whether a node could be expanded, for messages about nodes whose inputs are not known."""
    schema = _schema(importer, proto)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def _bind(node: NodeProto, attributes: dict[str, Any], missing: set[str]) -> NodeProto:
    """The node with references to the function's attributes replaced, and absent optional inputs left out."""
    import onnx

    bound = onnx.NodeProto()
    bound.CopyFrom(node)
    del bound.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            bound.attribute.append(attribute)
        elif attribute.ref_attr_name in attributes:
            given = onnx.AttributeProto()
            given.CopyFrom(attributes[attribute.ref_attr_name])
            given.name = attribute.name
            bound.attribute.append(given)
    for i, name in enumerate(bound.input):
        if name in missing:
            bound.input[i] = ""
    return bound


def _schema(importer: GraphImporter, proto: NodeProto) -> Any:
    from onnx import defs

    domain = "" if proto.domain == "ai.onnx" else proto.domain
    try:
        return defs.get_schema(proto.op_type, importer.opsets.get(domain, 1), domain)
    except (defs.SchemaError, TypeError):
        return None


def _schema_defaults(importer: GraphImporter, proto: NodeProto) -> list[Any]:
    attributes = _schema(importer, proto).attributes.values()
    return [a.default_value for a in attributes if a.default_value.type]


def _standard_body(importer: GraphImporter, proto: NodeProto) -> FunctionProto | None:
    import onnx

    schema = _schema(importer, proto)
    if schema is None:
        return None
    version = importer.opsets.get(schema.domain, 1)
    if schema.has_function:
        body = onnx.FunctionProto()
        try:
            data = schema.get_function_with_opset_version(_closest(schema.function_opset_versions, version))
        except (RuntimeError, ValueError, IndexError):
            return None
        body.ParseFromString(data)
        return body
    if schema.has_context_dependent_function:
        types = [_type_proto(importer.resolve(name)) if name else b"" for name in proto.input]
        versions = schema.context_dependent_function_opset_versions
        data = schema.get_context_dependent_function_with_opset_version(
            _closest(versions, version), proto.SerializeToString(), types
        )
        if data:
            body = onnx.FunctionProto()
            body.ParseFromString(data)
            return body
    return None


def _closest(versions: list[int], wanted: int) -> int:
    below = [v for v in versions if v <= wanted]
    return max(below) if below else min(versions)


def _type_proto(entry: Entry | SSAValue) -> bytes:
    from onnx import TypeProto

    from ...interp.arith import numpy_dtype

    assert isinstance(entry, Entry)
    from onnx import helper

    proto = TypeProto()
    proto.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(numpy_dtype(entry.type))
    for dim in entry.shape:
        added = proto.tensor_type.shape.dim.add()
        if dim.is_const():
            added.dim_value = dim.const_value()
        else:
            added.dim_param = str(dim)
    return bytes(proto.SerializeToString())
