"""Conversion between levels: what is legal afterwards, how types change, and a message that names what is left.

A conversion visits every op that the target calls illegal, in order, and applies the first pattern that acts; ops
made by patterns are visited too. Between converted and unconverted values stand casts
(``builtin.unrealized_conversion_cast``); at the end they cancel, or the type converter materialises them, or they are
an error. There is no rollback: after an error the module is half converted.

    target = ConversionTarget().add_legal_dialect("llvm").add_illegal_dialect("arith")
    apply_partial_conversion(module, target, patterns, type_converter)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriterListener, RewritePattern
from xdsl.rewriter import InsertPoint, Rewriter

from .diagnostics import Diagnostic, DiagnosticError, emit_error, error
from .rewriting import LocatedRewriter, give_location

_MAX_CHAIN = 100_000
_REPORTED = 20


class ConversionTarget:
    """What is legal after a conversion. Rules on ops win over rules on dialects; the later rule wins."""

    def __init__(self) -> None:
        self._dialects: dict[str, bool | Callable[[Operation], bool]] = {}
        self._ops: dict[str, bool | Callable[[Operation], bool]] = {}
        self.add_legal_op("builtin.module", "builtin.unrealized_conversion_cast")

    def add_legal_dialect(self, *names: str) -> Self:
        self._dialects.update(dict.fromkeys(names, True))
        return self

    def add_illegal_dialect(self, *names: str) -> Self:
        self._dialects.update(dict.fromkeys(names, False))
        return self

    def add_legal_op(self, *names: str) -> Self:
        self._ops.update(dict.fromkeys(names, True))
        return self

    def add_illegal_op(self, *names: str) -> Self:
        self._ops.update(dict.fromkeys(names, False))
        return self

    def add_dynamic_op(self, name: str, is_legal: Callable[[Any], bool]) -> Self:
        """Ops of this name are legal when ``is_legal`` says so."""
        self._ops[name] = is_legal
        return self

    def add_dynamic_dialect(self, name: str, is_legal: Callable[[Operation], bool]) -> Self:
        self._dialects[name] = is_legal
        return self

    def is_legal(self, op: Operation) -> bool | None:
        """Legal, illegal, or ``None`` where nothing is said about the op."""
        rule = self._ops.get(op.name)
        if rule is None:
            rule = self._dialects.get(op.name.partition(".")[0])
        return rule(op) if callable(rule) else rule


Materialization = Callable[["ConversionRewriter", SSAValue, Attribute], SSAValue | None]


class TypeConverter:
    """Conversions of types (the one added last is asked first) and ways to make one type from another."""

    def __init__(self) -> None:
        self._conversions: list[Callable[[Any], Attribute | None]] = []
        self._cache: dict[Attribute, Attribute | None] = {}
        self.materializations: list[Materialization] = []

    def add_conversion(self, convert: Callable[[Any], Attribute | None]) -> Self:
        """``convert`` returns the new type, the type itself (it is legal), or ``None`` (ask the next)."""
        self._conversions.append(convert)
        self._cache.clear()
        return self

    def add_materialization(self, materialize: Materialization) -> Self:
        """``materialize(rewriter, value, type)`` makes a value of ``type``, or ``None`` where it cannot."""
        self.materializations.append(materialize)
        return self

    def convert(self, type: Attribute) -> Attribute | None:
        """The converted type; ``None`` when no conversion knows the type."""
        if type not in self._cache:
            self._cache[type] = next((new for c in reversed(self._conversions) if (new := c(type)) is not None), None)
        return self._cache[type]

    def convert_or_fail(self, type: Attribute, where: Operation) -> Attribute:
        """The converted type, or a diagnostic at ``where``."""
        new = self.convert(type)
        if new is None:
            emit_error(where, f"type {type} cannot be converted")
        return new

    def is_legal(self, type: Attribute) -> bool:
        return self.convert(type) == type

    def is_legal_op(self, op: Operation) -> bool:
        """Whether all operand, result and region argument types are legal."""
        values: list[SSAValue] = [*op.operands, *op.results]
        values += [a for region in op.regions for block in region.blocks for a in block.args]
        return all(self.is_legal(v.type) for v in values)


class ConversionPattern(RewritePattern, ABC):
    """A pattern that sees its operands converted.

    ``root`` names the ops it is for. ``rewrite`` replaces ``op`` through the rewriter, or does nothing to decline.
    """

    root: ClassVar[str | tuple[str, ...]]

    @abstractmethod
    def rewrite(self, op: Any, operands: Sequence[SSAValue], rewriter: ConversionRewriter) -> None:
        """Replace ``op``; ``operands`` are its operands with converted types."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        assert isinstance(rewriter, ConversionRewriter)
        if op.name == self.root if isinstance(self.root, str) else op.name in self.root:
            operands = [rewriter.converted(v) for v in op.operands]
            rewriter.has_done_action = False  # casts for the operands alone are no action
            self.rewrite(op, operands, rewriter)


class ConversionRewriter(LocatedRewriter):
    """A rewriter that casts between old and new types, so that ops can be converted one at a time."""

    def __init__(self, op: Operation, listener: PatternRewriterListener, converter: TypeConverter | None) -> None:
        super().__init__(op, listener)
        self.converter = converter
        self.casts: dict[UnrealizedConversionCastOp, None] = {}

    def converted(self, value: SSAValue) -> SSAValue:
        """``value`` with its converted type; a value whose type has no conversion is returned as it is."""
        type = None if self.converter is None else self.converter.convert(value.type)
        if type is None or type == value.type:
            return value
        owner = value.owner
        if isinstance(owner, UnrealizedConversionCastOp) and owner.inputs[0].type == type:
            return owner.inputs[0]
        return self.cast(value, type, InsertPoint.before(self.matched))

    def convert_type(self, type: Attribute) -> Attribute:
        """The converted type, or a diagnostic at the matched op."""
        return type if self.converter is None else self.converter.convert_or_fail(type, self.matched)

    def cast(self, value: SSAValue, type: Attribute, point: InsertPoint) -> SSAValue:
        """A temporary cast, to be cancelled or materialised at the end."""
        op, result = UnrealizedConversionCastOp.cast_one(value, type)
        give_location(op, self.matched)
        self.insert(op, point)
        self.casts[op] = None
        return result

    def replace(
        self,
        op: Operation,
        new_ops: Operation | Sequence[Operation],
        new_results: Sequence[SSAValue | None] | None = None,
        safe_erase: bool = True,
    ) -> None:
        """Replace ``op``; results may have other types than before, remaining uses go through a cast."""
        ops = (new_ops,) if isinstance(new_ops, Operation) else tuple(new_ops)
        self.insert(ops, InsertPoint.before(op))
        results = list((ops[-1].results if ops else ()) if new_results is None else new_results)
        for index, (old, new) in enumerate(zip(op.results, results)):
            if new is not None and new.type != old.type:
                new.name_hint = new.name_hint or old.name_hint
                results[index] = self.cast(new, old.type, InsertPoint.before(op))
        super().replace(op, (), results, safe_erase)

    def convert_block_args(self, block: Block) -> None:
        """Give the arguments of a block their converted types; uses see the old types through casts."""
        for index, arg in enumerate(tuple(block.args)):
            type = None if self.converter is None else self.converter.convert(arg.type)
            if type is None or type == arg.type:
                continue
            new = block.insert_arg(type, index)
            new.name_hint = arg.name_hint
            self.replace_all_uses_with(arg, self.cast(new, arg.type, InsertPoint.at_start(block)))
            block.erase_arg(arg)
        self.has_done_action = True


def apply_partial_conversion(
    op: Operation,
    target: ConversionTarget,
    patterns: Sequence[RewritePattern],
    converter: TypeConverter | None = None,
) -> None:
    """Convert until nothing inside ``op`` is illegal; ops about which nothing is said may stay."""
    _Conversion(target, patterns, converter, full=False).run(op)


def apply_full_conversion(
    op: Operation,
    target: ConversionTarget,
    patterns: Sequence[RewritePattern],
    converter: TypeConverter | None = None,
) -> None:
    """Convert until everything inside ``op`` is legal; ops about which nothing is said are errors."""
    _Conversion(target, patterns, converter, full=True).run(op)


class _Conversion:
    def __init__(
        self, target: ConversionTarget, patterns: Sequence[RewritePattern], converter: TypeConverter | None, full: bool
    ) -> None:
        self.target = target
        self.converter = converter
        self.full = full
        self.by_root: dict[str, list[RewritePattern]] = {}
        self.general: list[RewritePattern] = []
        for pattern in patterns:
            if isinstance(pattern, ConversionPattern):
                for name in (pattern.root,) if isinstance(pattern.root, str) else pattern.root:
                    self.by_root.setdefault(name, []).append(pattern)
            else:
                self.general.append(pattern)
        self.worklist: dict[Operation, None] = {}

    def run(self, op: Operation) -> None:
        for region in reversed(op.regions):
            for inner in region.walk(reverse=True, region_first=True):
                self.worklist[inner] = None
        if not self.worklist:
            return
        listener = PatternRewriterListener(
            operation_insertion_handler=[self._push_tree], operation_removal_handler=[self._removed]
        )
        rewriter = ConversionRewriter(next(iter(self.worklist)), listener, self.converter)
        steps = 0
        left: list[Operation] = []
        while self.worklist:
            current, _ = self.worklist.popitem()
            legal = self.target.is_legal(current)
            if legal or (legal is None and not self._candidates(current) and not self.full):
                continue
            rewriter.start(current)
            if self._convert(current, rewriter):
                steps += 1
                if steps > _MAX_CHAIN + 64 * len(self.worklist):
                    emit_error(op, f"conversion does not end, the last op was '{current.name}'")
            elif legal is False or self.full:
                left.append(current)
        if left:
            raise DiagnosticError(list(map(_left_illegal, left[:_REPORTED])))
        _Casts(rewriter, op).resolve()

    def _candidates(self, op: Operation) -> list[RewritePattern]:
        found = self.by_root.get(op.name)
        return self.general if found is None else [*found, *self.general]

    def _convert(self, op: Operation, rewriter: ConversionRewriter) -> bool:
        for pattern in self._candidates(op):
            try:
                pattern.match_and_rewrite(op, rewriter)
            except Exception as problem:
                problem.add_note(f"while {type(pattern).__name__} was applied to '{op.name}'")
                raise
            if rewriter.has_done_action:
                # Changed in place: it must be legal now, or be converted again.
                if op.parent is not None and op not in self.worklist and self.target.is_legal(op) is False:
                    self.worklist[op] = None
                return True
        return False

    def _push_tree(self, op: Operation) -> None:
        for inner in op.walk(reverse=True, region_first=True) if op.regions else (op,):
            self.worklist[inner] = None

    def _removed(self, op: Operation) -> None:
        for inner in op.walk() if op.regions else (op,):
            self.worklist.pop(inner, None)


def _left_illegal(op: Operation) -> Diagnostic:
    types = ", ".join(str(v.type) for v in op.operands)
    return error(op, f"is left illegal by the conversion, no pattern applies (operand types: {types or 'none'})")


class _Casts:
    """The end of a conversion: casts cancel, are materialised, or are errors."""

    def __init__(self, rewriter: ConversionRewriter, op: Operation) -> None:
        self.rewriter = rewriter
        self.op = op

    def resolve(self) -> None:
        pending = [c for c in self.rewriter.casts if c.parent is not None]
        for cast in pending:
            _forward(cast)
        for cast in reversed(pending):
            if not any(result.uses for result in cast.results):
                Rewriter.erase_op(cast)
        failures: list[Diagnostic] = []
        for cast in pending:
            if cast.parent is not None and not self._materialize(cast):
                user = next(iter(cast.results[0].uses)).operation
                failures.append(
                    error(
                        user,
                        f"needs a value of type {cast.results[0].type}, but the conversion made {cast.inputs[0].type}",
                    )
                )
        if failures:
            raise DiagnosticError(failures[:_REPORTED])

    def _materialize(self, cast: UnrealizedConversionCastOp) -> bool:
        converter = self.rewriter.converter
        if converter is None:
            return False
        self.rewriter.start(cast)
        for materialize in reversed(converter.materializations):
            value = materialize(self.rewriter, cast.inputs[0], cast.results[0].type)
            if value is not None:
                cast.results[0].replace_all_uses_with(value)
                Rewriter.erase_op(cast)
                return True
        return False


def _forward(cast: UnrealizedConversionCastOp) -> None:
    """``cast(cast(x : A) : B) : A --> x``"""
    source: SSAValue = cast.inputs[0]
    while isinstance(source.owner, UnrealizedConversionCastOp):
        source = source.owner.inputs[0]
        if source.type == cast.results[0].type:
            cast.results[0].replace_all_uses_with(source)
            return
