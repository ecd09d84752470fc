"""Nodes against ONNX's own definition of their operator: counts of inputs and outputs, names and types of attributes.

The ``onnx`` package knows each operator at each version of the operator set; what it refuses, no import rule needs to
expect. Nodes that hold graphs are left out, since their bodies may name values from outside, which a check of one
node does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .errors import ModelError

if TYPE_CHECKING:
    from onnx import NodeProto


def check_node(proto: NodeProto, opsets: Mapping[str, int]) -> None:
    """Raises ``ModelError`` where the node is not what its operator's definition says."""
    from onnx import AttributeProto
    from onnx.checker import ValidationError
    from onnx.checker import check_node as check

    if any(a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for a in proto.attribute):
        return
    try:
        check(proto, _context(tuple(sorted(opsets.items()))))
    except ValidationError as problem:
        raise ModelError(str(problem).splitlines()[0].strip()) from None


@lru_cache(maxsize=8)
def _context(opsets: tuple[tuple[str, int], ...]) -> Any:
    from onnx import IR_VERSION
    from onnx.checker import C

    context = C.CheckerContext()
    context.ir_version = IR_VERSION
    context.opset_imports = dict(opsets)
    return context
