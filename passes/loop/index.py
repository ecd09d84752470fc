"""Index expressions by name: what every loop transformation computes with.

In the IR an index expression is an ``IndexMapAttr`` over the op's ``args``: exact, but positional, so that two
ops cannot be compared. An :class:`IndexSpace` gives every index value of a kernel a name (the kernel's argument
for symbol ``n`` is called ``n``, as in memref types), reads attributes as expressions over names, and writes
expressions back as attribute and operands. It knows the range of each name, so everything that it writes is
simplified.

Regions and proofs over these expressions are in ``regions``, the structure of nests in ``nest``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, StringAttr, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from ...core.attributes import IndexMapAttr
from ...core.symbolic import ExprLike, Interval, SymExpr, as_expr, bounds, simplify, sym
from ...dialects.loop.ops import BlockOp, ForOp, IfOp, IndexOp, LoadOp, StoreOp

Exprs = tuple[SymExpr, ...]

INDEX_ATTRS: dict[type[Operation], tuple[str, ...]] = {
    ForOp: ("extent",),
    BlockOp: ("bindings", "domains", "where"),
    LoadOp: ("map", "where"),
    StoreOp: ("map", "where"),
    IndexOp: ("map",),
    IfOp: ("where",),
}
"""Which properties of an op are index expressions over its ``args``."""


class IndexSpace:
    """Names, ranges and extents of the index values of one kernel. Make a new one after foreign changes to the
    kernel."""

    def __init__(self, kernel: FuncOp) -> None:
        self.kernel = kernel
        self.ranges: dict[str, Interval] = {}
        self.extents: dict[str, SymExpr] = {}
        self._names: dict[SSAValue, str] = {}
        self._values: dict[str, SSAValue] = {}
        self._read: dict[tuple[IndexMapAttr, tuple[SSAValue, ...]], Exprs] = {}
        self.symbols = kernel_symbols(kernel)
        args = kernel.body.block.args
        for symbol, arg in zip(self.symbols, args[len(args) - len(self.symbols) :]):
            self._bind(symbol, arg, (0, None))

    def _bind(self, name: str, value: SSAValue, interval: Interval) -> None:
        self._names[value] = name
        self._values[name] = value
        self.ranges[name] = interval

    def name(self, value: SSAValue) -> str:
        """The name of an index value."""
        found = self._names.get(value)
        if found is None:
            extent = self._extent_of(value)  # which may name other values, so it comes before counting them
            found = f"v${len(self._names)}"
            self._bind(found, value, (None, None) if extent is None else self._interval(extent))
            if extent is not None:
                self.extents[found] = extent
        return found

    def _extent_of(self, value: SSAValue) -> SymExpr | None:
        """Loop variables and block iterators run from 0 to an extent; other values are data-dependent."""
        if not isinstance(value, BlockArgument):
            return None
        owner = value.block.parent_op()
        if isinstance(owner, ForOp):
            return self.extent(owner)
        if isinstance(owner, BlockOp):
            return self.read(owner, "domains")[value.index]
        return None

    def _interval(self, extent: SymExpr) -> Interval:
        if extent.is_const():
            return 0, max(extent.const_value() - 1, 0)
        high = bounds(extent, self.ranges)[1]
        return 0, None if high is None else max(high - 1, 0)

    def var(self, value: SSAValue) -> SymExpr:
        """An index value as an expression."""
        return sym(self.name(value))

    def value(self, name: str) -> SSAValue:
        """The value of a name."""
        return self._values[name]

    def restrict(self, value: SSAValue, interval: Interval) -> Interval:
        """Narrow the range of a value, inside a guard say; returns the old range for putting it back."""
        name = self.name(value)
        old = self.ranges[name]
        self.ranges[name] = interval
        return old

    def named(self, attr: IndexMapAttr, args: Iterable[SSAValue]) -> Exprs:
        """The results of a map with its inputs replaced by the names of ``args``."""
        key = (attr, tuple(args))
        found = self._read.get(key)
        if found is None:
            mapping = {f"d{i}": self.var(a) for i, a in enumerate(key[1])}
            found = self._read[key] = tuple(e.subs(mapping) for e in attr.results)
        return found

    def read(self, op: Operation, prop: str) -> Exprs:
        """Index expressions of a property of ``op``; an absent one (``where``) is empty."""
        attr = op.properties.get(prop)
        return () if attr is None else self.named(attr, op.args)  # type: ignore[attr-defined, arg-type]

    def extent(self, loop: ForOp) -> SymExpr:
        """The extent of a loop."""
        return self.read(loop, "extent")[0]

    def simplify(self, expr: ExprLike) -> SymExpr:
        """Simplified with all known ranges."""
        return simplify(expr, self.ranges)

    def pack(self, *groups: Sequence[SymExpr]) -> tuple[list[SSAValue], list[IndexMapAttr]]:
        """Operands and one map per group of expressions, all over these operands (in order of naming)."""
        names = set().union(*[e.symbols() for g in groups for e in g])
        ordered = sorted(names, key=self._order)
        mapping = {n: sym(f"d{i}") for i, n in enumerate(ordered)}
        maps = [IndexMapAttr(len(ordered), tuple(e.subs(mapping) for e in g)) for g in groups]
        return [self._values[n] for n in ordered], maps

    def _order(self, name: str) -> tuple[int, int, str]:
        return (1, int(name[2:]), "") if name.startswith("v$") else (0, 0, name)

    def write(self, op: Operation, **exprs: Sequence[SymExpr]) -> None:
        """Set index properties of ``op``, keeping those that are not named; an empty ``where`` is dropped."""
        props = INDEX_ATTRS[type(op)]
        new = {p: exprs[p] if p in exprs else self.read(op, p) for p in props}
        present = [p for p in props if p != "where" or new[p] or isinstance(op, IfOp)]
        args, maps = self.pack(*[new[p] for p in present])
        for p in props:
            if p not in present:
                op.properties.pop(p, None)
        op.properties.update(zip(present, maps))
        set_args(op, args)

    def substitute(self, op: Operation, mapping: Mapping[str, ExprLike]) -> None:
        """Replace names in all index expressions of ``op`` and simplify what changed."""
        changed: dict[str, Exprs] = {}
        for prop in INDEX_ATTRS[type(op)]:
            old = self.read(op, prop)
            if any(not e.symbols().isdisjoint(mapping) for e in old):
                changed[prop] = tuple(self.simplify(e.subs(mapping)) for e in old)
        if changed:
            self.write(op, **changed)

    def replace_value(self, value: SSAValue, expr: ExprLike) -> None:
        """Replace all uses of an index value by an expression; other uses than index expressions get a
        ``loop.index``."""
        expr = as_expr(expr)
        mapping = {self.name(value): expr}
        for op in list(dict.fromkeys(use.operation for use in value.uses)):
            if type(op) in INDEX_ATTRS and value in op.args:
                self.substitute(op, mapping)
        for use in list(value.uses):
            use.operation.operands[use.index] = self.materialize(expr, use.operation)

    def materialize(self, expr: SymExpr, before: Operation) -> SSAValue:
        """The value of an expression, computed by ``loop.index`` before an op where it is no plain variable."""
        if expr.kind == "sym":
            return self._values[expr.name]
        args, (map_,) = self.pack((expr,))
        index = IndexOp(args, map_)
        block = before.parent
        assert block is not None
        block.insert_op_before(index, before)
        return index.result

    def new_loop(self, extent: ExprLike, hint: str | None, kind: str = "serial") -> ForOp:
        """A loop over ``extent`` with an empty body."""
        args, (map_,) = self.pack((as_expr(extent),))
        loop = ForOp(map_, args, None, kind)
        loop.var.name_hint = hint
        return loop


def kernel_symbols(kernel: FuncOp) -> tuple[str, ...]:
    """The names of a kernel's trailing index arguments."""
    attr = kernel.attributes.get("symbols")
    if not isinstance(attr, ArrayAttr):
        return ()
    return tuple(s.data for s in attr if isinstance(s, StringAttr))


def set_args(op: Operation, args: Sequence[SSAValue]) -> None:
    """Replace the index operands of a loop op."""
    if isinstance(op, LoadOp):
        tail = [] if op.default is None else [op.default]
        op.properties["operandSegmentSizes"] = segment_sizes(1, len(args), len(tail))
        op.operands = [op.memref, *args, *tail]
    elif isinstance(op, StoreOp):
        op.operands = [op.value, op.memref, *args]
    else:
        op.operands = list(args)


def segment_sizes(*sizes: int) -> Attribute:
    """The property that holds how many operands each group has."""
    return DenseArrayBase.from_list(i32, list(sizes))
