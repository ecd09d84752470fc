"""Where a public function's symbols get their values: sizes of its inputs at run time, checked against each
other.

Each symbol is bound at its first plain occurrence as an input's dimension (then at the first dimension that
is linear in it); every other dimension is checked. A message names both inputs, both dimensions and both
values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.ir import Operation, SSAValue

from ...core.attributes import IndexMapAttr
from ...core.diagnostics import emit_error
from ...core.symbolic import SymExpr, bounds, const, sym, sym_max
from ...dialects.vm.ops import CheckOp, DimOp, IndexOp

Emit = Callable[[Operation], None]


class SymbolValues:
    """The run-time values of symbols, as SSA values; makes the ops that compute expressions over them."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self.values: dict[str, SSAValue] = {}
        self.origins: dict[str, tuple[str, int]] = {}
        """What bound each symbol, in words, and which dimension of it."""
        self.required: set[SymExpr] = set()
        """Sizes that are known not to be negative."""
        self._computed: dict[SymExpr, SSAValue] = {}

    def snapshot(self) -> tuple[dict[str, SSAValue], dict[str, tuple[str, int]]]:
        """What is bound now, for ``restore``."""
        return dict(self.values), dict(self.origins)

    def restore(self, known: tuple[dict[str, SSAValue], dict[str, tuple[str, int]]]) -> None:
        """Forget the symbols bound since the snapshot."""
        self.values, self.origins = known
        self._computed = {expr: value for expr, value in self._computed.items() if self.known(expr)}

    def bind(self, name: str, value: SSAValue, what: str, dim: int) -> None:
        """Fix a symbol's value; ``what`` and ``dim`` say where it comes from."""
        self.values[name] = value
        self.origins[name] = what, dim
        value.name_hint = name

    def known(self, expr: SymExpr) -> bool:
        """Whether all of the expression's symbols have values."""
        return expr.symbols() <= self.values.keys()

    def value(self, expr: SymExpr) -> SSAValue:
        """The value of an expression over known symbols."""
        if expr.kind == "sym" and expr.name in self.values:
            return self.values[expr.name]
        found = self._computed.get(expr)
        if found is None:
            names = sorted(expr.symbols())
            op = IndexOp(index_map(expr, names), [self.values[name] for name in names])
            self.emit(op)
            found = self._computed[expr] = op.result
        return found

    def sizes(self, names: Sequence[str]) -> list[SSAValue]:
        """The values of symbols, in order."""
        return [self.values[name] for name in names]


def index_map(expr: SymExpr, names: Sequence[str]) -> IndexMapAttr:
    """The expression as a map whose inputs are the named symbols."""
    inputs: Mapping[str, SymExpr] = {name: sym(f"d{i}") for i, name in enumerate(names)}
    return IndexMapAttr(len(names), [expr.subs(inputs)])


def bind_inputs(
    function: Operation,
    inputs: Sequence[tuple[str, SSAValue, Sequence[SymExpr]]],
    symbols: SymbolValues,
) -> None:
    """Bind and check every dimension of ``inputs`` (name, memref argument, extents)."""
    pending = [
        (f"input '{name}'", value, dim, extent)
        for name, value, extents in inputs
        for dim, extent in enumerate(extents)
    ]
    pending = [item for item in pending if not _bind_plain(item, symbols)]
    for name in symbols.values:
        what, dim = symbols.origins[name]
        _require_positive(name, f"{_braced(what)} has {{a}} in dimension {dim}, which is '{name}'", symbols)
    for what, value, dim, extent in pending:
        found = _size(value, dim, symbols)
        if not symbols.known(extent):
            _bind_linear(function, what, dim, extent, found, symbols)
        check_extent(what, dim, extent, found, symbols, symbols.emit)


def _require_positive(name: str, found: str, symbols: SymbolValues) -> None:
    """A symbol is at least 1: passes rely on that. ``found`` says where the value {a} comes from."""
    least = symbols.value(sym_max(sym(name), 1))
    symbols.emit(CheckOp(symbols.values[name], least, f"{found}, expected at least {{b}}"))


def require_sizes(extents: Sequence[SymExpr], symbols: SymbolValues, emit: Emit) -> None:
    """Emit checks that sizes which might be negative (``n - 2`` where n is 1) are not."""
    for extent in extents:
        ranges: dict[str, tuple[int | None, int | None]] = dict.fromkeys(extent.symbols(), (1, None))
        low, _ = bounds(extent, ranges)
        if (low is None or low < 0) and extent not in symbols.required:
            symbols.required.add(extent)
            message = f"a dimension of size '{extent}' would be {{a}}: the inputs are too small"
            emit(CheckOp(symbols.value(extent), symbols.value(sym_max(extent, 0)), message))


def check_extent(
    what: str, dim: int, extent: SymExpr, found: SSAValue, symbols: SymbolValues, emit: Emit
) -> None:
    """Emit the check that a dimension has the size that its type says."""
    expected = symbols.value(extent)
    has = f"{_braced(what)} has {{a}} in dimension {dim}"
    if extent.is_const():
        message = f"{has}, expected {{b}}"
    elif extent.kind == "sym":
        other, place = symbols.origins[extent.name]
        message = f"dimension '{extent}' disagrees: {has}, {_braced(other)} has {{b}} in dimension {place}"
    else:
        origins = sorted({_braced(symbols.origins[name][0]) for name in extent.symbols()})
        message = f"dimension '{extent}' disagrees: {has}, expected {{b}} because of {' and '.join(origins)}"
    emit(CheckOp(found, expected, message))


def _bind_plain(item: tuple[str, SSAValue, int, SymExpr], symbols: SymbolValues) -> bool:
    what, value, dim, extent = item
    if extent.kind != "sym" or extent.name in symbols.values:
        return False
    symbols.bind(extent.name, _size(value, dim, symbols), what, dim)
    return True


def _bind_linear(
    function: Operation, what: str, dim: int, extent: SymExpr, found: SSAValue, symbols: SymbolValues
) -> None:
    """Solve ``k * n + rest == found`` for the one unknown symbol n; the check that follows proves the
    rounding exact.
    """
    unknown = sorted(name for name in extent.symbols() if name not in symbols.values)
    factor = extent.coefficient(unknown[0]) if len(unknown) == 1 else None
    if not factor:
        emit_error(
            function,
            f"cannot find {', '.join(repr(name) for name in unknown)} from {what}, "
            f"whose dimension {dim} is '{extent}': expected a dimension that is linear in one unknown",
        )
    rest = extent.subs({unknown[0]: const(0)})
    names = sorted(rest.symbols())
    solved = (sym(f"d{len(names)}") - index_map(rest, names).results[0]) // factor
    op = IndexOp(IndexMapAttr(len(names) + 1, [solved]), [*symbols.sizes(names), found])
    symbols.emit(op)
    symbols.bind(unknown[0], op.result, what, dim)
    source = f"dimension {dim} of {_braced(what)}, which is '{extent}', makes '{unknown[0]}' {{a}}"
    _require_positive(unknown[0], source, symbols)


def _size(value: SSAValue, dim: int, symbols: SymbolValues) -> SSAValue:
    op = DimOp(value, dim)
    symbols.emit(op)
    return op.result


def _braced(text: str) -> str:
    """The text inside of a message template."""
    return text.replace("{", "{{").replace("}", "}}")
