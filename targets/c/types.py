"""The types of the ``c`` dialect, and which types C computes in."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType, Signedness, i1
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition


@irdl_attr_definition
class PointerType(ParametrizedAttribute, TypeAttribute):
    """``element *``: ``!c.ptr<f32>``; ``none`` is ``void``."""

    name = "c.ptr"
    element: Attribute


@irdl_attr_definition
class ConstPointerType(ParametrizedAttribute, TypeAttribute):
    """``const element *``: ``!c.const_ptr<f32>``; ``none`` is ``void``."""

    name = "c.const_ptr"
    element: Attribute


@irdl_attr_definition
class SizeType(ParametrizedAttribute, TypeAttribute):
    """``size_t``: ``!c.size``."""

    name = "c.size"


Pointer = PointerType | ConstPointerType


def is_number(type: Attribute) -> bool:
    """Whether values of the type are floats or integers of C."""
    if isinstance(type, IntegerType):
        return type.width.data in (8, 16, 32, 64) and (
            type.signedness.data in (Signedness.SIGNLESS, Signedness.UNSIGNED)
        )
    return isinstance(type, Float32Type | Float64Type)


def is_arithmetic(type: Attribute) -> bool:
    """Whether C computes in the type: not in narrow integers, which it promotes."""
    return is_number(type) and (not isinstance(type, IntegerType) or type.width.data >= 32)


def is_scalar(type: Attribute) -> bool:
    """A number, ``bool`` or ``size_t``."""
    return is_number(type) or type == i1 or isinstance(type, SizeType)
