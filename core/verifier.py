"""The verifier: xDSL's definitions plus what they lack.

Added here: SSA dominance, isolation, terminators, types along branches and yields, symbolic extents of tensor types,
and diagnostics with a location for every failure. One walk without recursion, so depth of nesting is no limit.

    model.ir:4:3: error: 'arith.addi' op operand #0 does not dominate this use
    model.ir:5:3: note: operand defined here
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import MemRefType, StringAttr, TensorType
from xdsl.ir import Attribute, Block, ErasedSSAValue, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator, SymbolTable
from xdsl.utils.exceptions import VerifyException

from .attributes import DimsLayoutAttr, EncodingAttr, memref_shape_exprs, shape_exprs
from .control_flow import check_edges
from .diagnostics import Diagnostic, DiagnosticError, error
from .dominance import RegionDominance

GRAPH_REGIONS = frozenset({"builtin.module"})
"""Ops whose regions have no order: any value of the block is visible everywhere in it."""


def verify(op: Operation) -> None:
    """Check ``op`` and everything in it; ``DiagnosticError`` with the first fault of each op directly inside."""
    diagnostics: list[Diagnostic] = []
    checker = _Checker()
    if op.name not in GRAPH_REGIONS:
        checker.run(op, diagnostics)
    else:
        # Functions are checked on their own, so that one faulty function does not hide the next.
        checker.run(op, diagnostics, nested=False)
        for region in op.regions:
            for block in region.blocks:
                for child in block.ops:
                    checker.run(child, diagnostics)
    if diagnostics:
        raise DiagnosticError(diagnostics)


_Frame = tuple[Iterator[Operation], set[int], list[int]]


class _Fault(Exception):
    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class _Checker:
    def __init__(self) -> None:
        self._types: dict[int, Attribute] = {}
        self._isolated: dict[type[Operation], bool] = {}

    def run(self, op: Operation, diagnostics: list[Diagnostic], nested: bool = True) -> None:
        try:
            self._check_before(op)
            if nested:
                self._check_nested(op)
            self._check_after(op)
        except _Fault as fault:
            diagnostics.append(fault.diagnostic)

    def _check_nested(self, top: Operation) -> None:
        """Visit all ops below ``top`` in dominator order; an op's own verifier runs after those of its regions.

        ``scope`` is the set of visible values (by id). A frame is an iterator over ops and what it made visible.
        """
        visible: set[int] = set()
        if not self._is_isolated(top):
            visible.update(map(id, _values_used_from_outside(top)))
        frames: list[_Frame] = []
        self._enter(top, visible, frames)
        while frames:
            ops, scope, made = frame = frames[-1]
            for op in ops:
                for number, operand in enumerate(op._operands):
                    if id(operand) not in scope:
                        self._explain_operand(op, number, operand)
                self._check_before(op)
                if op.regions:
                    frames.append((self._leave(op, scope, made), scope, []))
                    self._enter(op, set() if self._is_isolated(op) else scope, frames)
                    break
                self._check_after(op)
                for result in op.results:
                    scope.add(id(result))
                    made.append(id(result))
            if frames[-1] is frame:
                frames.pop()
                scope.difference_update(made)

    def _leave(self, op: Operation, scope: set[int], made: list[int]) -> Iterator[Operation]:
        """What happens once the regions of ``op`` are done, as a frame without ops."""
        self._check_after(op)
        for result in op.results:
            scope.add(id(result))
            made.append(id(result))
        yield from ()

    def _enter(self, op: Operation, scope: set[int], frames: list[_Frame]) -> None:
        """Push the regions of ``op``, last first."""
        for region in reversed(op.regions):
            first = region.blocks.first
            if first is None:
                continue
            self._check_blocks(op, region)
            if first.next_block is None:
                made = [id(a) for a in first.args]
                if op.name in GRAPH_REGIONS:
                    made += [id(r) for child in first.ops for r in child.results]
                frames.append((_ops_of(first, scope, made), scope, made))
            else:
                own = set(scope)
                frames.append((_ops_in_dominator_order(region, own), own, []))

    def _check_blocks(self, op: Operation, region: Region) -> None:
        """Blocks end in a terminator; a single block may be free of one by trait."""
        blocks = region.blocks
        single = len(blocks) == 1
        if single and op.has_trait(NoTerminator):
            return
        for block in blocks:
            last = block.last_op
            if last is None:
                if single and op.name in GRAPH_REGIONS:
                    continue
                raise _Fault(error(op, "has an empty block, expected at least a terminator"))
            if not last.has_trait(IsTerminator, value_if_unregistered=True):
                raise _Fault(error(last, "ends a block, but is no terminator"))

    def _check_before(self, op: Operation) -> None:
        """What can be checked before the regions of ``op`` are."""
        if op._successors:
            self._check_successors(op)
        for result in op.results:
            self._check_type(op, result.type)
        for region in op.regions:
            for block in region.blocks:
                for arg in block.args:
                    self._check_type(op, arg.type)
        if op.regions and op.has_trait(SymbolTable, value_if_unregistered=False):
            _check_symbols(op)

    def _check_after(self, op: Operation) -> None:
        """The op's own definition, traits and verifier, and its control flow edges."""
        try:
            op.verify_()
            message = check_edges(op)
        except VerifyException as problem:
            message = _one_line(str(problem))
        except DiagnosticError as problem:
            raise _Fault(problem.diagnostics[0]) from None
        except Exception as problem:
            # Verifiers of other dialects index and assert before they check.
            message = _one_line(f"does not verify: {problem or type(problem).__name__}")
        if message is not None:
            raise _Fault(error(op, message))

    def _check_successors(self, op: Operation) -> None:
        block = op.parent
        region = None if block is None else block.parent
        if block is None or region is None or block.last_op is not op:
            raise _Fault(error(op, "has successors, but does not end a block"))
        for successor in op._successors:
            if successor.parent is not region:
                raise _Fault(error(op, "branches to a block of another region"))
            if successor is region.blocks.first:
                raise _Fault(error(op, "branches to the entry block of its region"))

    def _check_type(self, op: Operation, type: Attribute) -> None:
        if id(type) in self._types:
            return
        self._types[id(type)] = type
        try:
            if isinstance(type, TensorType) and isinstance(type.encoding, EncodingAttr):
                shape = shape_exprs(type)
                layout = type.encoding.layout
                if layout is not None and layout.num_inputs != len(shape):
                    raise VerifyException(f"layout of {type} takes {layout.num_inputs} indices, expected {len(shape)}")
            elif isinstance(type, MemRefType) and isinstance(type.layout, DimsLayoutAttr):
                memref_shape_exprs(type)
        except VerifyException as problem:
            raise _Fault(error(op, str(problem))) from None

    def _is_isolated(self, op: Operation) -> bool:
        found = self._isolated.get(op.__class__)
        if found is None:
            found = self._isolated[op.__class__] = op.has_trait(IsolatedFromAbove, value_if_unregistered=False)
        return found

    def _explain_operand(self, op: Operation, number: int, operand: SSAValue) -> None:
        """``operand`` is not visible at ``op``: say why."""
        if isinstance(operand, ErasedSSAValue):
            raise _Fault(error(op, "uses a value that was erased"))
        block = op.parent
        region = None if block is None else block.parent
        if region is not None and block is not None and not RegionDominance(region).is_reachable(block):
            return
        barrier = _isolation_between(op, operand)
        note = "operand defined here" if isinstance(operand.owner, Operation) else "operand is an argument of this op"
        if barrier is not None:
            message = f"operand #{number} is defined outside of '{barrier.name}', which is isolated from above"
            raise _Fault(error(op, message, [(operand, note)]))
        raise _Fault(error(op, f"operand #{number} does not dominate this use", [(operand, note)]))


def _check_symbols(table: Operation) -> None:
    """A symbol is defined once in its table."""
    seen: dict[str, Operation] = {}
    for block in table.regions[0].blocks:
        for op in block.ops:
            name = op.properties.get("sym_name") or op.attributes.get("sym_name")
            if isinstance(name, StringAttr):
                first = seen.setdefault(name.data, op)
                if first is not op:
                    raise _Fault(error(op, f"redefines symbol '@{name.data}'", [(first, "first defined here")]))


def _ops_in_dominator_order(region: Region, scope: set[int]) -> Iterator[Operation]:
    """The ops of a region with several blocks. ``scope`` holds what dominating blocks define."""
    dominance = RegionDominance(region)
    tree = dominance.children()
    stack: list[tuple[Block, list[int] | None]] = [(dominance.order[0], None)]
    while stack:
        block, made = stack.pop()
        if made is not None:
            scope.difference_update(made)
            continue
        scope.update(id(a) for a in block.args)
        yield from block.ops
        stack.append((block, [*(id(a) for a in block.args), *(id(r) for op in block.ops for r in op.results)]))
        stack.extend((child, None) for child in reversed(tree.get(id(block), [])))
    # Dominance says nothing about blocks that nothing branches to: only their ops are checked.
    unreachable = [block for block in region.blocks if not dominance.is_reachable(block)]
    for block in unreachable:
        scope.update(id(a) for a in block.args)
        scope.update(id(r) for op in block.ops for r in op.results)
    for block in unreachable:
        yield from block.ops


def _ops_of(block: Block, scope: set[int], made: list[int]) -> Iterator[Operation]:
    scope.update(made)
    yield from block.ops


def _values_used_from_outside(top: Operation) -> Iterator[SSAValue]:
    """Operands inside of ``top`` that are defined outside of it: whether they dominate is the caller's affair."""
    inside: set[int] = set()
    used: list[SSAValue] = []
    for op in top.walk():
        inside.update(id(r) for r in op.results)
        inside.update(id(a) for region in op.regions for block in region.blocks for a in block.args)
        used.extend(op.operands)
    inside.difference_update(id(r) for r in top.results)
    return (value for value in used if id(value) not in inside)


def _isolation_between(op: Operation, operand: SSAValue) -> Operation | None:
    """The isolated op around ``op`` that the operand's definition is outside of."""
    owner = operand.owner
    home = owner.parent if isinstance(owner, Operation) else owner
    block = op.parent
    barrier: Operation | None = None
    while block is not None and block is not home:
        parent = block.parent_op()
        if parent is None:
            return barrier
        if home is not None and parent.parent is not None and home.parent is block.parent:
            return barrier
        if barrier is None and parent.has_trait(IsolatedFromAbove, value_if_unregistered=False):
            barrier = parent
        block = parent.parent
    return barrier if block is home else None


def _one_line(text: str) -> str:
    return ": ".join(line.strip().rstrip(":") for line in text.splitlines() if line.strip())
