"""What all ops of the ``graph`` dialect share: fusion kinds, type inference as a class method, shape helpers.

A graph op is declared once. Its class says what its operands are, ``infer_types`` gives the result types from operand
types and properties (symbolic dimensions included), and ``verify_`` compares the two. Inference never sees values,
so an importer or a pass can ask for the types of an op that does not exist yet.

Deliberately elsewhere: the meaning in NumPy (``interp/graph*.py``), the lowering (``passes/convert/graph_to_te``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import AnyFloat, DenseArrayBase, IntegerType, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ...core.attributes import ExprListAttr, layout_of, shape_exprs, tensor_type
from ...core.symbolic import ExprLike, SymExpr, as_expr

Tensor = TensorType[Attribute]
Shape = tuple[SymExpr, ...]
Properties = Mapping[str, Attribute]


class FusionKind(Enum):
    """How an op takes part in operator fusion, from the most to the least willing."""

    ELEMENTWISE = "elementwise"
    """Element ``i`` of the result needs element ``i`` of every operand."""
    BROADCAST = "broadcast"
    """Elementwise after some operands have been broadcast."""
    INJECTIVE = "injective"
    """Each result element is one operand element, found by index arithmetic (transpose, concat, slice)."""
    VIEW = "view"
    """Injective, and no copy at all when the operand is row-major (reshape)."""
    REDUCTION = "reduction"
    """Elements of some dimensions are combined."""
    COMPLEX = "complex_out_fusable"
    """Computes windows or contractions; elementwise consumers fuse to its output."""
    OPAQUE = "opaque"
    """Fuses with nothing."""


class GraphOp(IRDLOperation):
    """Base of the tensor ops; a subclass defines operands and properties, ``FUSION_KIND`` and ``infer_types``."""

    FUSION_KIND: ClassVar[FusionKind] = FusionKind.OPAQUE
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)

    @classmethod
    def infer_types(cls, operand_types: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        """Result types; raises ``VerifyException`` when operands and properties do not fit together."""
        raise NotImplementedError(cls.name)

    @property
    def fusion_kind(self) -> FusionKind:
        """The fusion kind of this very op, where it depends on the types (``add`` of equal shapes is elementwise)."""
        return self.FUSION_KIND

    def init_inferred(
        self, operands: Sequence[SSAValue | Sequence[SSAValue]], properties: Mapping[str, Attribute | None] = {}
    ) -> None:
        """Initialise with result types from ``infer_types``; constructors end in this."""
        given = {name: value for name, value in properties.items() if value is not None}
        flat: list[SSAValue] = []
        for operand in operands:
            flat.extend([operand] if isinstance(operand, SSAValue) else operand)
        types = self.infer_types([tensor_of(value) for value in flat], given)
        variadic = len(types) != 1 and len(self.get_irdl_definition().results) == 1
        super().__init__(operands=operands, properties=given, result_types=[types] if variadic else list(types))

    def verify_(self) -> None:
        expected = self.infer_types([tensor_of(value) for value in self.operands], self.properties)
        if len(expected) != len(self.results):
            raise VerifyException(f"has {len(self.results)} results, expected {len(expected)}")
        for found, wanted in zip(self.results, expected):
            require_same_tensor(tensor_of(found), wanted)


def tensor_of(value: SSAValue) -> Tensor:
    """The tensor type of a value; any other type is refused."""
    if not isinstance(value.type, TensorType):
        raise VerifyException(f"operand has type {value.type}, expected a tensor")
    return cast(Tensor, value.type)


def require_same_tensor(found: Tensor, wanted: Tensor) -> None:
    """Same element type and logical shape; the layout may differ."""
    if found.element_type != wanted.element_type or shape_exprs(found) != shape_exprs(wanted):
        raise VerifyException(f"result has type {found}, expected {wanted}")


def require_rank(type: Tensor, rank: int, what: str) -> None:
    if type.get_num_dims() != rank:
        raise VerifyException(f"{what} has rank {type.get_num_dims()}, expected {rank}")


def require_same_element(types: Sequence[Tensor]) -> Attribute:
    """The one element type of all operands."""
    for type in types[1:]:
        if type.element_type != types[0].element_type:
            raise VerifyException(f"element types differ: {types[0].element_type} and {type.element_type}")
    return types[0].element_type


def require_float(type: Tensor) -> None:
    if not isinstance(type.element_type, AnyFloat):
        raise VerifyException(f"element type is {type.element_type}, expected a float type")


def require_integer(type: Tensor, what: str = "element type") -> None:
    if not isinstance(type.element_type, IntegerType):
        raise VerifyException(f"{what} is {type.element_type}, expected an integer type")


def require_equal_dims(what: str, a: SymExpr, b: SymExpr) -> None:
    if a != b:
        raise VerifyException(f"{what} differ: {a} and {b}")


INTS = DenseArrayBase.constr(i64)
"""Constraint of the properties that ``ints`` makes."""


def ints(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """``array<i64: ...>``."""
    return DenseArrayBase.from_list(i64, list(values))


def get_ints(properties: Properties, name: str) -> tuple[int, ...]:
    """The integers of an array property, empty when it is absent."""
    value = properties.get(name)
    return tuple(cast(Any, value).iter_values()) if value is not None else ()


def get_int(properties: Properties, name: str, default: int) -> int:
    value = properties.get(name)
    return int(cast(Any, value).value.data) if value is not None else default


def get_exprs(properties: Properties, name: str) -> Shape:
    value = properties[name]
    assert isinstance(value, ExprListAttr)
    return value.exprs


def exprs(values: Sequence[ExprLike]) -> ExprListAttr:
    """An expression list of integers and expressions."""
    return ExprListAttr(tuple(as_expr(v) for v in values))


def normalize_axis(axis: int, rank: int, what: str = "axis") -> int:
    """``axis`` counted from the front; negative values count from the end."""
    if not -rank <= axis < rank:
        raise VerifyException(f"{what} {axis} is out of range for rank {rank}")
    return axis % rank if rank else 0


def require_axis(axis: int, rank: int, what: str = "axis") -> None:
    """In the IR an axis is already counted from the front."""
    if not 0 <= axis < rank:
        raise VerifyException(f"{what} {axis} is out of range for rank {rank}")


def require_axes(axes: Sequence[int], rank: int) -> None:
    for axis in axes:
        require_axis(axis, rank)
    if sorted(set(axes)) != list(axes):
        raise VerifyException(f"axes {list(axes)} are not in increasing order")


def broadcast_dims(a: SymExpr, b: SymExpr) -> SymExpr:
    """NumPy's rule for one dimension; symbolic dimensions must be provably equal, or one of them the constant 1."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if a.is_const() and b.is_const():
        raise VerifyException(f"shapes do not broadcast: dimensions {a} and {b}")
    raise VerifyException(f"cannot prove that dimensions {a} and {b} broadcast: they must be equal or one of them 1")


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """The shape that all of ``shapes`` broadcast to, aligned at the last dimension."""
    result: Shape = ()
    for shape in shapes:
        rank = max(len(result), len(shape))
        ones = (as_expr(1),)
        left = ones * (rank - len(result)) + result
        right = ones * (rank - len(shape)) + shape
        result = tuple(broadcast_dims(a, b) for a, b in zip(left, right))
    return result


def broadcast_type(types: Sequence[Tensor], element: Attribute) -> Tensor:
    """The broadcast of ``types`` with another element type; a layout survives on operands of the full shape."""
    shape = broadcast_shapes([shape_exprs(t) for t in types])
    layouts = [layout_of(t) for t in types if shape_exprs(t) == shape]
    layout = next((x for x in layouts if x is not None), None)
    return tensor_type(element, shape, layout)


def product(dims: Sequence[SymExpr]) -> SymExpr:
    return math.prod(dims, start=as_expr(1))
