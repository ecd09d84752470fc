"""Operations of the ``loop`` dialect: plain loop nests whose leaves are *blocks*, over memrefs.

Every index, bound, predicate and block binding is a quasi-affine expression
(:class:`~tilewright.core.attributes.IndexMapAttr` over the op's index ``args``), so that transformations stay exact.
Arithmetic chains on indices appear only in a target's final lowering. Element arithmetic is ``arith`` and ``math``.

A kernel is a ``func.func`` whose arguments are memrefs (inputs, then outputs, then workspaces) followed by one
``index`` per free symbol, sorted by name; its ``symbols`` attribute lists these names. Loops are normalised:
from 0, step 1. Read and write regions of a block are derived from its body, never stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IndexType, MemRefType, StringAttr, VectorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_region_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import NoTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import IndexMapAttr

LOOP_KINDS = ("serial", "parallel", "vectorized", "unrolled")
SCOPES = ("global", "local")
ITER_KINDS = ("spatial", "reduce")


@irdl_op_definition
class ForOp(IRDLOperation):
    """``for i in 0..extent``: runs the body for each value of its region argument (an ``index``).

    ``extent`` is one expression over ``args`` (symbol arguments of the kernel, outer loop variables). ``kind``
    says how it runs: ``serial``; ``parallel`` (iterations are independent, run by several threads);
    ``vectorized`` (iterations are the lanes of vectors); ``unrolled``. Further annotations are discardable
    attributes.

    Example: ``loop.for %i = 0 to %n * 2 parallel { ... }``
    """

    name = "loop.for"
    args = var_operand_def(IndexType)
    extent = prop_def(IndexMapAttr)
    kind = prop_def(StringAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(
        self,
        extent: IndexMapAttr,
        args: Sequence[SSAValue] = (),
        body: Region | None = None,
        kind: str = "serial",
    ) -> None:
        super().__init__(
            operands=[args],
            properties={"extent": extent, "kind": StringAttr(kind)},
            regions=[Region(Block(arg_types=[IndexType()])) if body is None else body],
        )

    @property
    def var(self) -> SSAValue:
        """The loop variable."""
        return self.body.block.args[0]

    def verify_(self) -> None:
        if self.kind.data not in LOOP_KINDS:
            raise VerifyException(f"unknown loop kind '{self.kind.data}', expected one of {', '.join(LOOP_KINDS)}")
        _verify_map(self, "extent", self.extent, self.args)
        if len(self.extent.results) != 1:
            raise VerifyException("extent must be one expression over the arguments")
        if len(self.body.block.args) != 1 or not isinstance(self.body.block.args[0].type, IndexType):
            raise VerifyException("body must have one index argument")


@irdl_op_definition
class BlockOp(IRDLOperation):
    """The unit of work of a schedule: a named body over block iterators that the surrounding loops bind.

    ``bindings`` gives each iterator's value as an expression over ``args``; ``domains`` its extent (iterators
    run from 0); ``iters`` its kind: ``spatial`` (points are independent) or ``reduce``. Both regions have one
    ``index`` argument per iterator. ``where`` holds pairs (lhs, rhs): the block runs only where every lhs <
    rhs. ``init`` runs first where all reduce iterators are 0.

    Example::

        loop.block "C" spatial(%vi in 128 = %i, %vj in 64 = %jo * 8 + %ji) reduce(%vk in 256 = %k) init {
          loop.store %zero, %C[%vi, %vj] : memref<128x64xf32>
        } {
          %a = loop.load %A[%vi, %vk] : memref<128x256xf32>
          ...
          loop.store %s, %C[%vi, %vj] : memref<128x64xf32>
        }
    """

    name = "loop.block"
    args = var_operand_def(IndexType)
    block_name = prop_def(StringAttr)
    iters = prop_def(ArrayAttr[StringAttr])
    bindings = prop_def(IndexMapAttr)
    domains = prop_def(IndexMapAttr)
    where = opt_prop_def(IndexMapAttr)
    init = opt_region_def("single_block")
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(
        self,
        block_name: str,
        iters: Sequence[str],
        args: Sequence[SSAValue],
        bindings: IndexMapAttr,
        domains: IndexMapAttr,
        body: Region,
        init: Region | None = None,
        where: IndexMapAttr | None = None,
    ) -> None:
        super().__init__(
            operands=[args],
            properties={
                "block_name": StringAttr(block_name),
                "iters": ArrayAttr([StringAttr(i) for i in iters]),
                "bindings": bindings,
                "domains": domains,
                "where": where,
            },
            regions=[[] if init is None else [init], body],
        )

    @property
    def iter_kinds(self) -> tuple[str, ...]:
        """Kind of each iterator."""
        return tuple(k.data for k in self.iters)

    def verify_(self) -> None:
        count = len(self.iters)
        for kind in self.iter_kinds:
            if kind not in ITER_KINDS:
                raise VerifyException(f"unknown iterator kind '{kind}', expected one of {', '.join(ITER_KINDS)}")
        for what, attr in (("bindings", self.bindings), ("domains", self.domains), ("where", self.where)):
            _verify_map(self, what, attr, self.args)
            if what != "where" and attr is not None and len(attr.results) != count:
                raise VerifyException(f"{len(attr.results)} {what} for {count} iterators")
        for region in self.regions:
            if len(region.block.args) != count:
                raise VerifyException(f"region has {len(region.block.args)} arguments for {count} iterators")
        if self.init is not None and "reduce" not in self.iter_kinds:
            raise VerifyException("an init region needs a reduce iterator")


def _verify_map(op: Operation, what: str, map: IndexMapAttr | None, args: Sequence[SSAValue]) -> None:
    """Expressions are over the op's arguments and the symbols of the kernel around it, and nothing else."""
    if map is None:
        return
    if map.num_inputs != len(args):
        raise VerifyException(f"{what} takes {map.num_inputs} inputs, found {len(args)} arguments")
    inputs = {f"d{number}" for number in range(len(args))}
    for result in map.results:
        unknown = result.symbols() - inputs
        if unknown and not unknown <= _kernel_symbols(op, unknown):
            name = min(unknown - _kernel_symbols(op, unknown))
            raise VerifyException(f"{what} names '{name}', which is neither an argument nor a symbol of the kernel")
    if what == "where" and len(map.results) % 2:
        raise VerifyException("where must hold pairs of expressions")


def _kernel_symbols(op: Operation, otherwise: AbstractSet[str]) -> AbstractSet[str]:
    """The names in the ``symbols`` attribute of the function around an op; ``otherwise`` if it is in none yet."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        parent = parent.parent_op()
    if parent is None:
        return otherwise
    symbols = parent.attributes.get("symbols")
    names = symbols.data if isinstance(symbols, ArrayAttr) else ()
    return {name.data for name in names if isinstance(name, StringAttr)}


def _verify_access(op: LoadOp | StoreOp) -> MemRefType[Attribute]:
    type_, map = op.memref.type, op.map
    assert isinstance(type_, MemRefType)
    _verify_map(op, "map", map, op.args)
    _verify_map(op, "where", op.where, op.args)
    if len(map.results) != len(type_.get_shape()):
        raise VerifyException(f"{len(map.results)} index expressions for a memref of rank {len(type_.get_shape())}")
    return type_


@irdl_op_definition
class LoadOp(IRDLOperation):
    """``%v = loop.load %A[%i * 16 + %j] : memref<128xf32>``: one element, or (vector result) consecutive
    elements of the innermost dimension starting there.

    A guarded load, ``loop.load %A[%i - 1] where (%i > 0) else %zero``, gives ``default`` and touches no memory where a
    ``where`` pair (lhs, rhs) does not hold lhs < rhs. Data-dependent indices are ``args`` like any other.
    """

    name = "loop.load"
    memref = operand_def(MemRefType)
    args = var_operand_def(IndexType)
    default = opt_operand_def()
    map = prop_def(IndexMapAttr)
    where = opt_prop_def(IndexMapAttr)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        memref: SSAValue,
        args: Sequence[SSAValue],
        map: IndexMapAttr,
        where: IndexMapAttr | None = None,
        default: SSAValue | None = None,
        result_type: Attribute | None = None,
    ) -> None:
        assert isinstance(memref.type, MemRefType)
        super().__init__(
            operands=[memref, args, [] if default is None else [default]],
            properties={"map": map, "where": where},
            result_types=[memref.type.element_type if result_type is None else result_type],
        )

    def verify_(self) -> None:
        type_ = _verify_access(self)
        found = self.result.type
        element = found.element_type if isinstance(found, VectorType) else found
        if element != type_.element_type:
            raise VerifyException(f"result is {found}, expected {type_.element_type} or a vector of it")
        if (self.where is None) != (self.default is None):
            raise VerifyException("a guarded load needs both where and default")
        if self.default is not None and self.default.type != found:
            raise VerifyException(f"default has type {self.default.type}, expected {found}")


@irdl_op_definition
class StoreOp(IRDLOperation):
    """``loop.store %v, %A[%i] : memref<128xf32>``: stores one element, or (vector value) consecutive elements of the
    innermost dimension. A ``where`` pair (lhs, rhs) that does not hold lhs < rhs suppresses the store."""

    name = "loop.store"
    value = operand_def()
    memref = operand_def(MemRefType)
    args = var_operand_def(IndexType)
    map = prop_def(IndexMapAttr)
    where = opt_prop_def(IndexMapAttr)

    def __init__(
        self,
        value: SSAValue,
        memref: SSAValue,
        args: Sequence[SSAValue],
        map: IndexMapAttr,
        where: IndexMapAttr | None = None,
    ) -> None:
        super().__init__(operands=[value, memref, args], properties={"map": map, "where": where})

    def verify_(self) -> None:
        type_ = _verify_access(self)
        found = self.value.type
        element = found.element_type if isinstance(found, VectorType) else found
        if element != type_.element_type:
            raise VerifyException(f"value is {found}, expected {type_.element_type} or a vector of it")


@irdl_op_definition
class IndexOp(IRDLOperation):
    """The value of an index expression: ``%v = loop.index %i * 2 + %j``; result ``index``.

    With a vector result, lane number l holds the value plus l: ``%v = loop.index %i * 16 : vector<16xindex>``."""

    name = "loop.index"
    args = var_operand_def(IndexType)
    map = prop_def(IndexMapAttr)
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, args: Sequence[SSAValue], map: IndexMapAttr, result_type: Attribute | None = None) -> None:
        super().__init__(
            operands=[args],
            properties={"map": map},
            result_types=[IndexType() if result_type is None else result_type],
        )

    def verify_(self) -> None:
        _verify_map(self, "map", self.map, self.args)
        if len(self.map.results) != 1:
            raise VerifyException("loop.index takes one expression over its arguments")


@irdl_op_definition
class IfOp(IRDLOperation):
    """Runs the body where every ``where`` pair (lhs, rhs) holds lhs < rhs: ``loop.if (%i * 16 + %j < 109) { ... }``."""

    name = "loop.if"
    args = var_operand_def(IndexType)
    where = prop_def(IndexMapAttr)
    body = region_def("single_block")
    orelse = opt_region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(
        self, args: Sequence[SSAValue], where: IndexMapAttr, body: Region, orelse: Region | None = None
    ) -> None:
        super().__init__(
            operands=[args],
            properties={"where": where},
            regions=[body, [] if orelse is None else [orelse]],
        )

    def verify_(self) -> None:
        _verify_map(self, "where", self.where, self.args)


@irdl_op_definition
class AllocOp(IRDLOperation):
    """A buffer that lives in the enclosing region: ``%C = loop.alloc "C" local : memref<2x14x16xf32>``.

    ``scope``: ``global`` (main memory; before code generation these become workspace arguments of the kernel)
    or ``local`` (private to a thread: stack, and registers after unrolling). Symbolic sizes are in the type's
    ``#tw.dims`` layout.
    """

    name = "loop.alloc"
    buffer_name = prop_def(StringAttr)
    scope = prop_def(StringAttr)
    result = result_def(MemRefType)

    def __init__(self, buffer_name: str, type: MemRefType[Attribute], scope: str = "global") -> None:
        super().__init__(
            properties={"buffer_name": StringAttr(buffer_name), "scope": StringAttr(scope)},
            result_types=[type],
        )

    def verify_(self) -> None:
        if self.scope.data not in SCOPES:
            raise VerifyException(f"unknown scope '{self.scope.data}', expected one of {', '.join(SCOPES)}")


@irdl_op_definition
class LanesOp(IRDLOperation):
    """The vector form of a scalar operation that ``arith`` restricts to scalars (comparisons, select, casts).

    ``scalar`` is the operation's name, ``parameters`` its properties; it is applied to each lane. All operands and the
    result are vectors of one length; :meth:`scalar_op` gives the operation that one lane runs.

    Example: ``%m = loop.lanes "arith.cmpf" %a, %b {predicate = 2 : i64} : vector<8xf32>, vector<8xf32> ->
    vector<8xi1>``
    """

    name = "loop.lanes"
    args = var_operand_def(VectorType)
    scalar = prop_def(StringAttr)
    parameters = prop_def(DictionaryAttr)
    result = result_def(VectorType)
    traits = traits_def(Pure())

    def __init__(
        self, scalar: str, args: Sequence[SSAValue], parameters: DictionaryAttr, result_type: Attribute
    ) -> None:
        super().__init__(
            operands=[args],
            properties={"scalar": StringAttr(scalar), "parameters": parameters},
            result_types=[result_type],
        )

    def scalar_op(self, operands: Sequence[SSAValue]) -> Operation:
        """The operation of one lane, on scalar operands."""
        assert isinstance(self.result.type, VectorType)
        return LANE_OPS[self.scalar.data].create(
            operands=list(operands),
            result_types=[self.result.type.element_type],
            properties=dict(self.parameters.data),
        )

    def verify_(self) -> None:
        if self.scalar.data not in LANE_OPS:
            raise VerifyException(f"'{self.scalar.data}' has no lane form")
        types = [v.type for v in (*self.args, self.result)]
        if any(not isinstance(t, VectorType) or t.get_shape() != types[-1].get_shape() for t in types):  # type: ignore[attr-defined]
            raise VerifyException("operands and result must be vectors of one length")


LANE_OPS: dict[str, type[Operation]] = {
    op.name: op
    for op in (
        arith.CmpfOp,
        arith.CmpiOp,
        arith.SelectOp,
        arith.IndexCastOp,
        arith.ExtSIOp,
        arith.ExtUIOp,
        arith.TruncIOp,
        arith.ExtFOp,
        arith.TruncFOp,
        arith.SIToFPOp,
        arith.UIToFPOp,
        arith.FPToSIOp,
        arith.FPToUIOp,
        arith.BitcastOp,
    )
}
"""Operations that ``loop.lanes`` can apply."""

LOOP = Dialect("loop", [ForOp, BlockOp, LoadOp, StoreOp, IndexOp, IfOp, AllocOp, LanesOp])
