"""``transform_layout``: a buffer is stored in another physical order.

    W: memref<64x128xf32>                      W: memref<4x128x16xf32>
    loop.load %W[%o, %k]              -->      loop.load %W[%o floordiv 16, %k, %o mod 16]

For a buffer that the kernel allocates, all its accesses change. For an argument that is a constant of the model
(listed in the kernel's ``constant_args``) the argument's type changes too, and the kernel's attribute
``packed`` records ``[argument, map]``: the constant is packed once, when the artefact is written; padding lanes
are zero.

Refused: other arguments, a map that does not take the buffer's rank or that cannot be inverted on its shape, an
argument that is packed already (compose the maps instead).
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FunctionType, IntegerAttr, MemRefType, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, SSAValue

from ....core.attributes import IndexMapAttr, memref_shape_exprs, memref_type
from ....dialects.loop.ops import BlockOp
from ..errors import refuse
from ..index import IndexSpace
from ..nest import accesses, alloc_of, buffer_name, read_buffers, written_buffers


def transform_layout(space: IndexSpace, block: BlockOp, access: str, number: int, map: IndexMapAttr) -> None:
    """Store the buffer that is read or write ``number`` of ``block`` by ``map`` (logical to physical index)."""
    buffers = read_buffers(block) if access == "read" else written_buffers(block)
    if not 0 <= number < len(buffers):
        refuse(block, f"has no {access} number {number}, it has {len(buffers)}")
    buffer = buffers[number]
    type_ = buffer.type
    assert isinstance(type_, MemRefType)
    shape = memref_shape_exprs(type_)
    if map.num_inputs != len(shape):
        refuse(block, f"the map takes {map.num_inputs} indices, '{buffer_name(buffer)}' has rank {len(shape)}")
    try:
        map.inverse(shape)
    except ValueError as error:
        refuse(block, f"the map cannot be inverted on '{buffer_name(buffer)}': {error}")
    if alloc_of(buffer) is None:
        _record_packing(space.kernel, block, buffer, map)
    physical: MemRefType[Attribute] = memref_type(type_.element_type, map.image_shape(shape))
    for op in accesses(buffer):
        index = map.apply(space.read(op, "map"))
        space.write(op, map=[space.simplify(e) for e in index])
    _set_type(buffer, physical)


def _record_packing(kernel: FuncOp, block: BlockOp, buffer: SSAValue, map: IndexMapAttr) -> None:
    assert isinstance(buffer, BlockArgument)
    if buffer.index not in constant_args(kernel):
        refuse(block, f"'{buffer_name(buffer)}' is an argument of the kernel that is not constant")
    packed = kernel.attributes.get("packed")
    entries = list(packed) if isinstance(packed, ArrayAttr) else []
    if any(isinstance(e, ArrayAttr) and e.data[0] == IntegerAttr(buffer.index, i64) for e in entries):
        refuse(block, f"'{buffer_name(buffer)}' is packed already")
    kernel.attributes["packed"] = ArrayAttr([*entries, ArrayAttr([IntegerAttr(buffer.index, i64), map])])


def constant_args(kernel: FuncOp) -> list[int]:
    """The numbers of the arguments that are constants of the model at every call."""
    attr = kernel.attributes.get("constant_args")
    if isinstance(attr, DenseArrayBase):
        return [int(v) for v in attr.get_values()]
    return [a.value.data for a in attr if isinstance(a, IntegerAttr)] if isinstance(attr, ArrayAttr) else []


def _set_type(buffer: SSAValue, type_: MemRefType[Attribute]) -> None:
    buffer._type = type_  # xDSL's values have no setter for a type that changes in place
    if isinstance(buffer, BlockArgument):
        kernel = buffer.block.parent_op()
        assert isinstance(kernel, FuncOp)
        results = kernel.function_type.outputs.data
        kernel.function_type = FunctionType.from_lists([a.type for a in buffer.block.args], list(results))
