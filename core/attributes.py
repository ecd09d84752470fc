"""The attributes of dialect ``tw``: symbolic expressions, index maps and the tensor encoding.

Why they are here: graph and te share the encoding, te, loop and schedule share index maps, and shape
inference needs both. What a layout means is applied when te becomes loops; ranges of symbols belong to
functions.

    #tw.expr<n * 4 + 1>
    #tw.exprs<[n, n * 4 + 1]>
    #tw.map<(d0, d1) -> (d0, d1 floordiv 16, d1 mod 16)>
    tensor<?x64xf32, #tw.enc<dims = [n], layout = (d0, d1) -> (d0, d1 floordiv 16, d1 mod 16)>>
    memref<?x784xf32, #tw.dims<[n]>>
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Self

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefLayoutAttr, MemRefType, NoneAttr, TensorType
from xdsl.ir import Attribute, Data, Dialect
from xdsl.ir.affine import AffineMap
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind

from . import indexmap
from .symexpr import ExprLike, SymExpr, as_expr
from .symranges import Ranges, simplify
from .symtext import ExprParser

SYNTAX = "tilewright.text.tw_syntax:FRAGMENT"
"""Where the text layer finds the grammar of these attributes."""


def _angle_text(parser: AttrParser) -> str:
    """The text between ``<`` and its ``>``, for xDSL's own parser."""
    parser.parse_punctuation("<")
    tokens: list[str] = []
    depth = 0
    while depth or parser._current_token.kind is not MLIRTokenKind.GREATER:
        kind = parser._current_token.kind
        if kind is MLIRTokenKind.EOF:
            parser.raise_error("expected '>'")
        depth += (kind is MLIRTokenKind.LESS) - (kind is MLIRTokenKind.GREATER)
        tokens.append(parser._consume_token().text)
    parser.parse_punctuation(">")
    return " ".join(tokens)


class _TextAttr(Data[Any]):
    """An attribute that prints as ``name<text>`` and parses from the same text."""

    @classmethod
    def parse_data(cls, parser: ExprParser) -> Any:
        raise NotImplementedError

    def text(self) -> str:
        """What stands between the angle brackets."""
        raise NotImplementedError

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The attribute with ``text`` between its angle brackets; ``ValueError`` says what is wrong."""
        parser = ExprParser(text)
        data = cls.parse_data(parser)
        parser.end()
        return cls.new(data)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        try:
            return cls.from_text(_angle_text(parser)).data
        except ValueError as error:
            parser.raise_error(str(error))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.text())

    def __str__(self) -> str:
        return f"#{self.name}<{self.text()}>"


@irdl_attr_definition
class SymExprAttr(_TextAttr):
    """One symbolic integer: ``#tw.expr<n * 4 + 1>``."""

    name = "tw.expr"

    def __init__(self, expr: ExprLike) -> None:
        super().__init__(as_expr(expr))

    @property
    def expr(self) -> SymExpr:
        result: SymExpr = self.data
        return result

    @classmethod
    def parse_data(cls, parser: ExprParser) -> SymExpr:
        return parser.sum()

    def text(self) -> str:
        return str(self.data)


@irdl_attr_definition
class ExprListAttr(_TextAttr):
    """A list of symbolic integers (a shape, extents): ``#tw.exprs<[n, 4]>``."""

    name = "tw.exprs"

    def __init__(self, exprs: Sequence[ExprLike]) -> None:
        super().__init__(tuple(map(as_expr, exprs)))

    @property
    def exprs(self) -> tuple[SymExpr, ...]:
        result: tuple[SymExpr, ...] = self.data
        return result

    @classmethod
    def parse_data(cls, parser: ExprParser) -> tuple[SymExpr, ...]:
        return parser.expr_list("[", "]")

    def text(self) -> str:
        return f"[{', '.join(map(str, self.exprs))}]"


@irdl_attr_definition
class IndexMapAttr(_TextAttr):
    """A function from ``num_inputs`` indices ``d0, d1, ...`` to ``results``; other names are symbolic dimensions.

    ``#tw.map<(d0, d1) -> (d0, d1 floordiv 16, d1 mod 16)>``. Verification rejects results that name a missing
    input.
    """

    name = "tw.map"

    def __init__(self, num_inputs: int | tuple[int, tuple[SymExpr, ...]], results: Sequence[ExprLike] = ()) -> None:
        # xDSL's parser hands the whole data over as one argument.
        super().__init__(num_inputs if isinstance(num_inputs, tuple) else (num_inputs, tuple(map(as_expr, results))))

    @property
    def num_inputs(self) -> int:
        result: int = self.data[0]
        return result

    @property
    def results(self) -> tuple[SymExpr, ...]:
        result: tuple[SymExpr, ...] = self.data[1]
        return result

    @staticmethod
    def identity(rank: int) -> IndexMapAttr:
        return IndexMapAttr(rank, indexmap.identity_results(rank))

    @property
    def is_identity(self) -> bool:
        return self.results == indexmap.identity_results(self.num_inputs)

    def apply(self, args: Sequence[ExprLike]) -> tuple[SymExpr, ...]:
        """The results at ``args``."""
        return indexmap.apply_results(self.results, args)

    def compose(self, inner: IndexMapAttr) -> IndexMapAttr:
        """First ``inner``, then ``self``: takes inner's inputs."""
        return IndexMapAttr(inner.num_inputs, self.apply(inner.results))

    def simplified(self, ranges: Ranges) -> IndexMapAttr:
        """Results simplified with the ranges of ``d0, d1, ...`` and of symbols."""
        return IndexMapAttr(self.num_inputs, tuple(simplify(r, ranges) for r in self.results))

    def image_shape(self, shape: Sequence[ExprLike]) -> tuple[SymExpr, ...]:
        """The extents of the results for indices within ``shape`` (logical shape to physical shape)."""
        return indexmap.image_shape(self.results, shape)

    def inverse(self, shape: Sequence[ExprLike]) -> IndexMapAttr:
        """The map from results back to indices within ``shape``; ``ValueError`` when there is none."""
        return IndexMapAttr(len(self.results), indexmap.invert(self.results, shape))

    @classmethod
    def parse_data(cls, parser: ExprParser) -> tuple[int, tuple[SymExpr, ...]]:
        inputs = parser.expr_list("(", ")")
        if inputs != indexmap.identity_results(len(inputs)):
            raise ValueError("the inputs of a map are d0, d1, ... in order")
        parser.expect("->")
        return len(inputs), parser.expr_list("(", ")")

    def text(self) -> str:
        inputs = ", ".join(indexmap.dim_names(self.num_inputs))
        return f"({inputs}) -> ({', '.join(map(str, self.results))})"

    def verify(self) -> None:
        known = set(indexmap.dim_names(self.num_inputs))
        for result in self.results:
            for name in sorted(result.symbols() - known):
                if name[0] == "d" and name[1:].isdigit():
                    raise VerifyException(f"map result '{result}' names {name}, but there are {self.num_inputs} inputs")


@irdl_attr_definition
class EncodingAttr(_TextAttr):
    """What a tensor type says beyond MLIR's: one expression per ``?`` (``dims``), and the physical ``layout``.

    ``#tw.enc<dims = [n, m * 2], layout = (d0, d1) -> (d1, d0)>``; either part may be absent.
    """

    name = "tw.enc"

    def __init__(
        self,
        dims: Sequence[ExprLike] | tuple[tuple[SymExpr, ...], IndexMapAttr | None] = (),
        layout: IndexMapAttr | None = None,
    ) -> None:
        if len(dims) == 2 and isinstance(dims[0], tuple):
            super().__init__(dims)  # xDSL's parser hands the whole data over as one argument.
        else:
            super().__init__((tuple(map(as_expr, dims)), layout))  # type: ignore[arg-type]

    @property
    def dims(self) -> tuple[SymExpr, ...]:
        result: tuple[SymExpr, ...] = self.data[0]
        return result

    @property
    def layout(self) -> IndexMapAttr | None:
        result: IndexMapAttr | None = self.data[1]
        return result

    @classmethod
    def parse_data(cls, parser: ExprParser) -> tuple[tuple[SymExpr, ...], IndexMapAttr | None]:
        dims: tuple[SymExpr, ...] = ()
        layout: IndexMapAttr | None = None
        keys: set[str] = set()
        while parser.token:
            key = parser.take()
            if key not in ("dims", "layout") or key in keys:
                parser.index -= 1
                raise parser.error("'dims' or 'layout', each once")
            keys.add(key)
            parser.expect("=")
            if key == "dims":
                dims = parser.expr_list("[", "]")
            else:
                layout = IndexMapAttr(IndexMapAttr.parse_data(parser))
            if not parser.accept(","):
                break
        return dims, layout

    def text(self) -> str:
        parts: list[str] = []
        if self.dims:
            parts.append(f"dims = [{', '.join(map(str, self.dims))}]")
        if self.layout is not None:
            parts.append(f"layout = {self.layout.text()}")
        return ", ".join(parts)

    def verify(self) -> None:
        for expr in self.dims:
            if expr.is_const():
                raise VerifyException(f"dims hold the symbolic extents only, {expr} belongs into the shape")
            if any(name[0] == "d" and name[1:].isdigit() for name in expr.symbols()):
                raise VerifyException(f"'{expr}' names an index; d0, d1, ... cannot name a symbolic dimension")


@irdl_attr_definition
class DimsLayoutAttr(_TextAttr, MemRefLayoutAttr):
    """The symbolic extents of a contiguous row-major memref, one per ``?``: ``memref<?x784xf32,
    #tw.dims<[n]>>``.
    """

    name = "tw.dims"

    def __init__(self, dims: Sequence[ExprLike]) -> None:
        super().__init__(tuple(map(as_expr, dims)))

    @property
    def dims(self) -> tuple[SymExpr, ...]:
        result: tuple[SymExpr, ...] = self.data
        return result

    def get_affine_map(self) -> AffineMap:
        raise NotImplementedError("a layout with symbolic extents has no affine map")

    @classmethod
    def parse_data(cls, parser: ExprParser) -> tuple[SymExpr, ...]:
        return parser.expr_list("[", "]")

    def text(self) -> str:
        return f"[{', '.join(map(str, self.dims))}]"


TW = Dialect("tw", [], [SymExprAttr, ExprListAttr, IndexMapAttr, EncodingAttr, DimsLayoutAttr])


# Types with symbolic shapes.


def tensor_type(
    element_type: Attribute, shape: Sequence[ExprLike], layout: IndexMapAttr | None = None
) -> TensorType[Attribute]:
    """The tensor type of a logical shape; extents that are not constant go into the encoding."""
    static, dims = _split_shape(shape)
    if layout is not None and layout.is_identity:
        layout = None
    if not dims and layout is None:
        return TensorType(element_type, static)
    return TensorType(element_type, static, EncodingAttr(dims, layout))


def memref_type(
    element_type: Attribute, shape: Sequence[ExprLike], memory_space: Attribute | None = None
) -> MemRefType[Attribute]:
    """The contiguous memref type of a shape, symbolic extents in its layout slot."""
    static, dims = _split_shape(shape)
    layout = DimsLayoutAttr(dims) if dims else NoneAttr()
    return MemRefType(element_type, static, layout, NoneAttr() if memory_space is None else memory_space)


def _split_shape(shape: Sequence[ExprLike]) -> tuple[list[int], list[SymExpr]]:
    exprs = [as_expr(extent) for extent in shape]
    static = [e.const_value() if e.is_const() else DYNAMIC_INDEX for e in exprs]
    return static, [e for e in exprs if not e.is_const()]


@lru_cache(maxsize=16384)
def shape_exprs(type: Attribute) -> tuple[SymExpr, ...]:
    """The logical shape of a tensor type; ``VerifyException`` where a ``?`` has no expression."""
    assert isinstance(type, TensorType)
    dims = type.encoding.dims if isinstance(type.encoding, EncodingAttr) else ()
    return _merge_shape(type, type.get_shape(), dims)


@lru_cache(maxsize=16384)
def memref_shape_exprs(type: Attribute) -> tuple[SymExpr, ...]:
    """The shape of a memref type; ``VerifyException`` where a ``?`` has no expression."""
    assert isinstance(type, MemRefType)
    dims = type.layout.dims if isinstance(type.layout, DimsLayoutAttr) else ()
    return _merge_shape(type, type.get_shape(), dims)


def _merge_shape(type: Attribute, static: Sequence[int], dims: tuple[SymExpr, ...]) -> tuple[SymExpr, ...]:
    dynamic = sum(extent == DYNAMIC_INDEX for extent in static)
    if dynamic != len(dims):
        raise VerifyException(f"type {type} has {dynamic} dynamic dimensions, but {len(dims)} expressions for them")
    remaining = iter(dims)
    return tuple(next(remaining) if extent == DYNAMIC_INDEX else as_expr(extent) for extent in static)


def layout_of(type: Attribute) -> IndexMapAttr | None:
    """The physical layout of a tensor type; ``None`` is row-major."""
    assert isinstance(type, TensorType)
    return type.encoding.layout if isinstance(type.encoding, EncodingAttr) else None


@lru_cache(maxsize=16384)
def physical_shape(type: Attribute) -> tuple[SymExpr, ...]:
    """The extents in memory: the image of the logical shape under the layout."""
    layout = layout_of(type)
    shape = shape_exprs(type)
    return shape if layout is None else layout.image_shape(shape)
