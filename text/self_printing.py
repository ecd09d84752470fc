"""Operations that are printed by their own xDSL ``print`` method, which reads back through their own ``parse``.

Some of xDSL's print methods leave out attributes, properties or parts of regions. Here stands for each operation what
its method says, and where that is not all of an operation, the operation is printed in the generic form. An operation
that is not listed is generic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr
from xdsl.ir import Operation, Region

_SEGMENTS = frozenset({"operandSegmentSizes", "resultSegmentSizes"})
_SYMBOL = re.compile(r"\bs(\d+)\b")


@dataclass(frozen=True)
class Said:
    """What a print method says of an operation."""

    properties: frozenset[str] = frozenset()
    attributes: bool = False
    """Whether it prints the attribute dictionary."""
    holds: Callable[[Any], bool] | None = None
    """A condition on everything else."""

    def all_of(self, op: Operation) -> bool:
        """Whether the method says all of this operation."""
        known = op.get_irdl_definition().properties  # type: ignore[attr-defined]
        if not op.properties.keys() - _SEGMENTS <= self.properties:
            return False
        if op.attributes and (not self.attributes or not op.attributes.keys().isdisjoint(known)):
            return False
        return self.holds is None or self.holds(op)


def says_all(op: Operation) -> bool:
    """Whether an operation may be printed by its own method."""
    said = SAID.get(op.name)
    return said is not None and said.all_of(op)


def _said(*properties: str, attributes: bool = False, holds: Callable[[Any], bool] | None = None) -> Said:
    return Said(frozenset(properties), attributes, holds)


def _ends_plainly(region: Region, results: Any) -> bool:
    """Whether the terminator may be left out where there are no results, and no block has arguments."""
    if len(region.blocks) != 1 or region.block.args:
        return False
    last = region.block.last_op
    plain = last is not None and last.name.endswith(".yield") and not last.operands and not last.attributes
    return bool(results) or plain


def _affine_for(op: Any) -> bool:
    last = op.body.block.last_op
    plain = last is not None and last.name == "affine.yield" and not last.operands and not last.attributes
    return bool(op.inits) or plain


def _affine_access(op: Any) -> bool:
    """Whether the operands are numbered as they come: the text has names for them, which xDSL reads as symbols."""
    affine_map = op.map.data
    if affine_map.num_dims or len(set(op.indices)) != affine_map.num_symbols:
        return False
    found = dict.fromkeys(int(m) for m in _SYMBOL.findall(", ".join(map(str, affine_map.results))))
    return list(found) == list(range(affine_map.num_symbols))


def _minor_identity(op: Any) -> bool:
    """A map that is left out is that of the source's rank."""
    affine_map = op.permutation_map.data
    return not affine_map.is_minor_identity() or affine_map.num_dims == op.source.type.get_num_dims()


def _hidden_region(op: Any) -> bool:
    """Whether the body of a named linalg operation is the one that its name stands for."""
    if "indexing_maps" in op.get_irdl_definition().properties:
        usual = ArrayAttr([AffineMapAttr(m) for m in op.get_default_indexing_maps()])
        if op.properties.get("indexing_maps") != usual:
            return False
    expected = type(op).get_hidden_region(op.inputs, op.outputs)
    return bool(op.body.is_structurally_equivalent(expected))


_NAMED = (
    *("add", "conv_2d_nchw_fchw", "conv_2d_ngchw_fgchw", "conv_2d_ngchw_gfchw", "conv_2d_nhwc_fhwc"),
    *("conv_2d_nhwc_hwcf", "conv_2d_nhwgc_gfhwc", "copy", "exp", "fill", "log", "matmul", "max", "min", "mul"),
    *("pooling_nchw_max", "quantized_matmul", "select", "sqrt", "sub"),
)

SAID: Mapping[str, Said] = {
    "affine.apply": _said("map"),
    "affine.for": _said("lowerBoundMap", "upperBoundMap", "step", attributes=True, holds=_affine_for),
    "affine.load": _said("map", holds=_affine_access),
    "affine.min": _said("map"),
    "affine.store": _said("map", holds=_affine_access),
    "affine.vector_load": _said("map", holds=_affine_access),
    "affine.vector_store": _said("map", holds=_affine_access),
    "cf.switch": _said("case_values", "case_operand_segments", attributes=True),
    "linalg.generic": _said("indexing_maps", "iterator_types", "doc", "library_call", attributes=True),
    **{
        f"linalg.{n}": _said("strides", "dilations", "indexing_maps", attributes=True, holds=_hidden_region)
        for n in _NAMED
    },
    "linalg.reduce": _said("dimensions", holds=lambda op: len(op.region.blocks) == 1),
    "llvm.extractvalue": _said("position", attributes=True),
    "llvm.insertvalue": _said("position", attributes=True),
    "llvm.inline_asm": _said(
        *("asm_dialect", "asm_string", "constraints", "has_side_effects", "is_align_stack", "tail_call_kind"),
        attributes=True,
    ),
    "memref.alloca_scope": _said(attributes=True, holds=lambda op: bool(op.res) and _ends_plainly(op.scope, op.res)),
    "pdl.apply_native_rewrite": _said("name"),
    "pdl.operation": _said("opName", "attributeValueNames"),
    "pdl.pattern": _said("benefit", "sym_name"),
    "pdl.range": _said(),
    "pdl.results": _said("index"),
    "scf.execute_region": _said(holds=lambda op: _ends_plainly(op.region, op.outs)),
    "scf.index_switch": _said("cases", attributes=True, holds=lambda op: len(op.results) <= 1),
    "tensor.empty": _said(),
    "tensor.expand_shape": _said("reassociation", "static_output_shape", attributes=True),
    "vector.transfer_read": _said("permutation_map", "in_bounds", holds=_minor_identity),
    "vector.transfer_write": _said("permutation_map", "in_bounds", holds=_minor_identity),
}
