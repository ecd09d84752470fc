"""NumPy meaning of the ``arith`` and ``math`` ops, on scalars and arrays alike.

One table, :data:`SCALAR_OPS`, serves every level: element bodies of ``te.compute`` (evaluated over whole index
grids), loop nests (evaluated per element or per vector) and the scalar code of the host program. A value of a
builtin type is a NumPy value of the dtype that :func:`numpy_dtype` gives: signless and signed integers are signed,
``i1`` is ``bool``, ``index`` is ``int64``. Ops that read a signless integer as unsigned view it as such.

Elsewhere: graph ops in ``graph*``, the dispatch over ops with regions in ``interpreter``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    ContainerType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ShapedType,
    Signedness,
    VectorType,
)
from xdsl.ir import Attribute, Operation

Value = Any
ScalarFunction = Callable[..., Value]


def numpy_dtype(type_: Attribute) -> np.dtype[Any]:
    """The dtype of values of a scalar type, or of the elements of a shaped type; ``TypeError`` where there is none."""
    if isinstance(type_, ContainerType):
        element: Attribute = type_.get_element_type()
        return numpy_dtype(element)
    if isinstance(type_, IntegerType):
        width = type_.width.data
        if width == 1:
            return np.dtype(np.bool_)
        if width in (8, 16, 32, 64):
            return np.dtype(f"{'u' if type_.signedness.data is Signedness.UNSIGNED else 'i'}{width // 8}")
    if isinstance(type_, IndexType):
        return np.dtype(np.int64)
    if isinstance(type_, BFloat16Type):
        import ml_dtypes

        half: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return half
    for kind, dtype in ((Float32Type, np.float32), (Float64Type, np.float64), (Float16Type, np.float16)):
        if isinstance(type_, kind):
            return np.dtype(dtype)
    raise TypeError(f"values of type {type_} cannot be interpreted")


def constant_value(op: Operation) -> Value:
    """The value of an ``arith.constant``: a scalar, or an array of the type's shape."""
    attr, type_ = op.properties["value"], op.results[0].type
    dtype = numpy_dtype(type_)
    if isinstance(attr, DenseIntOrFPElementsAttr):
        shape = type_.get_shape() if isinstance(type_, ShapedType) else ()
        values = np.array(attr.get_values(), dtype=dtype)
        return np.broadcast_to(values, shape) if values.size == 1 else values.reshape(shape)
    if isinstance(attr, IntegerAttr):
        bits = attr.value.data
        if dtype.kind == "i" and bits > np.iinfo(dtype).max:
            bits -= 1 << (8 * dtype.itemsize)
        return dtype.type(bits)
    assert isinstance(attr, FloatAttr)
    return dtype.type(attr.value.data)


def _unsigned(x: Value) -> Value:
    x = np.asarray(x)
    return x if x.dtype.kind in "ub" else x.view(np.dtype(f"u{x.dtype.itemsize}"))


def _as(x: Value, like: Value) -> Value:
    dtype = np.asarray(like).dtype
    x = np.asarray(x)
    return x.astype(dtype, copy=False) if x.dtype.kind == "b" or dtype.kind == "b" else x.view(dtype)


def _on_unsigned(function: ScalarFunction) -> ScalarFunction:
    return lambda op, a, b: _as(function(_unsigned(a), _unsigned(b)), a)


def _signed_division(a: Value, b: Value) -> Value:
    """Rounds to zero, as the machine does."""
    return (a - np.fmod(a, b)) // b


def _round_away(x: Value) -> Value:
    return np.copysign(np.floor(np.abs(x) + np.asarray(0.5, np.asarray(x).dtype)), x)


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _same_dtype(function: ScalarFunction) -> ScalarFunction:
    return lambda op, *args: np.asarray(function(*args)).astype(np.asarray(args[0]).dtype, copy=False)


def _plain(function: ScalarFunction) -> ScalarFunction:
    return lambda op, *args: function(*args)


_COMPARE_INT: tuple[ScalarFunction, ...] = (
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
    lambda a, b: _unsigned(a) < _unsigned(b),
    lambda a, b: _unsigned(a) <= _unsigned(b),
    lambda a, b: _unsigned(a) > _unsigned(b),
    lambda a, b: _unsigned(a) >= _unsigned(b),
)


def _unordered(a: Value, b: Value) -> Value:
    return np.isnan(a) | np.isnan(b)


_COMPARE_FLOAT: tuple[ScalarFunction, ...] = (
    lambda a, b: np.zeros(np.broadcast(a, b).shape, bool),
    np.equal,
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
    lambda a, b: (a < b) | (a > b),
    lambda a, b: ~_unordered(a, b),
    lambda a, b: (a == b) | _unordered(a, b),
    lambda a, b: ~(a <= b),
    lambda a, b: ~(a < b),
    lambda a, b: ~(a >= b),
    lambda a, b: ~(a > b),
    np.not_equal,
    _unordered,
    lambda a, b: np.ones(np.broadcast(a, b).shape, bool),
)


def _cmpi(op: Operation, a: Value, b: Value) -> Value:
    predicate = op.properties["predicate"]
    assert isinstance(predicate, IntegerAttr)
    return _COMPARE_INT[predicate.value.data](a, b)


def _cmpf(op: Operation, a: Value, b: Value) -> Value:
    predicate = op.properties["predicate"]
    assert isinstance(predicate, IntegerAttr)
    return _COMPARE_FLOAT[predicate.value.data](a, b)


def _convert(op: Operation, x: Value) -> Value:
    """To the result's dtype; a signless source is read as signed (``i1`` true is -1 when it is extended)."""
    dtype = numpy_dtype(op.results[0].type)
    x = np.asarray(x)
    if x.dtype.kind == "b" and dtype.kind in "if" and op.name in ("arith.extsi", "arith.index_cast", "arith.sitofp"):
        return -x.astype(dtype)
    if dtype.kind == "b":
        return (x.astype(np.int64) & 1).astype(bool)
    return x.astype(dtype)


def _convert_unsigned(op: Operation, x: Value) -> Value:
    return _unsigned(x).astype(numpy_dtype(op.results[0].type))


def _to_unsigned(op: Operation, x: Value) -> Value:
    dtype = numpy_dtype(op.results[0].type)
    return np.asarray(x).astype(np.dtype(f"u{dtype.itemsize}")).view(dtype)


def _reinterpret(op: Operation, x: Value) -> Value:
    return np.asarray(x).view(numpy_dtype(op.results[0].type))


def _select(op: Operation, condition: Value, a: Value, b: Value) -> Value:
    return np.where(condition, a, b)


def _broadcast_vector(op: Operation, x: Value) -> Value:
    type_ = op.results[0].type
    assert isinstance(type_, VectorType)
    return np.broadcast_to(x, type_.get_shape())


def _extract(op: Operation, x: Value) -> Value:
    return x[_static_position(op)]


def _insert(op: Operation, value: Value, x: Value) -> Value:
    result = np.array(x)
    result[_static_position(op)] = value
    return result


def _static_position(op: Operation) -> tuple[int, ...]:
    position = op.properties["static_position"]
    assert isinstance(position, DenseArrayBase)
    return tuple(int(p) for p in position.get_values())


_FOLDS: dict[str, ScalarFunction] = {
    "add": np.add,
    "mul": np.multiply,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "maximumf": np.maximum,
    "minimumf": np.minimum,
    "maxnumf": np.fmax,
    "minnumf": np.fmin,
    "maxsi": np.maximum,
    "minsi": np.minimum,
    "maxui": lambda a, b: _as(np.maximum(_unsigned(a), _unsigned(b)), a),
    "minui": lambda a, b: _as(np.minimum(_unsigned(a), _unsigned(b)), a),
}


def _fold_lanes(op: Operation, x: Value, *start: Value) -> Value:
    """``vector.reduction``, lane by lane from the first."""
    kind: Any = op.properties["kind"]
    function = _FOLDS[kind.data.value]
    lanes = [*start, *np.asarray(x)]
    result = lanes[0]
    for lane in lanes[1:]:
        result = function(result, lane)
    return result


SCALAR_OPS: dict[str, ScalarFunction] = {
    "arith.constant": lambda op: constant_value(op),
    "arith.addi": _plain(lambda a, b: a ^ b if np.asarray(a).dtype == bool else np.add(a, b)),
    "arith.subi": _plain(lambda a, b: a ^ b if np.asarray(a).dtype == bool else np.subtract(a, b)),
    "arith.muli": _plain(np.multiply),
    "arith.divui": _on_unsigned(np.floor_divide),
    "arith.remui": _on_unsigned(np.remainder),
    "arith.divsi": _plain(_signed_division),
    "arith.remsi": _plain(np.fmod),
    "arith.floordivsi": _plain(np.floor_divide),
    "arith.ceildivsi": _plain(lambda a, b: -np.floor_divide(-a, b)),
    "arith.ceildivui": _on_unsigned(lambda a, b: a // b + (a % b != 0).astype(a.dtype)),
    "arith.minsi": _plain(np.minimum),
    "arith.maxsi": _plain(np.maximum),
    "arith.minui": _on_unsigned(np.minimum),
    "arith.maxui": _on_unsigned(np.maximum),
    "arith.andi": _plain(np.bitwise_and),
    "arith.ori": _plain(np.bitwise_or),
    "arith.xori": _plain(np.bitwise_xor),
    "arith.shli": _plain(np.left_shift),
    "arith.shrsi": _plain(np.right_shift),
    "arith.shrui": _on_unsigned(np.right_shift),
    "arith.addf": _plain(np.add),
    "arith.subf": _plain(np.subtract),
    "arith.mulf": _plain(np.multiply),
    "arith.divf": _plain(np.divide),
    "arith.negf": _plain(np.negative),
    "arith.maximumf": _plain(np.maximum),
    "arith.minimumf": _plain(np.minimum),
    "arith.maxnumf": _plain(np.fmax),
    "arith.minnumf": _plain(np.fmin),
    "arith.cmpi": _cmpi,
    "arith.cmpf": _cmpf,
    "arith.select": _select,
    "arith.index_cast": _convert,
    "arith.extsi": _convert,
    "arith.extui": _convert_unsigned,
    "arith.trunci": _convert,
    "arith.extf": _convert,
    "arith.truncf": _convert,
    "arith.sitofp": _convert,
    "arith.uitofp": _convert_unsigned,
    "arith.fptosi": _convert,
    "arith.fptoui": _to_unsigned,
    "arith.bitcast": _reinterpret,
    "builtin.unrealized_conversion_cast": _reinterpret,
    "math.absf": _plain(np.abs),
    "math.absi": _plain(np.abs),
    "math.acos": _plain(np.arccos),
    "math.acosh": _plain(np.arccosh),
    "math.asin": _plain(np.arcsin),
    "math.asinh": _plain(np.arcsinh),
    "math.atan": _plain(np.arctan),
    "math.atan2": _plain(np.arctan2),
    "math.atanh": _plain(np.arctanh),
    "math.cbrt": _plain(np.cbrt),
    "math.ceil": _plain(np.ceil),
    "math.copysign": _plain(np.copysign),
    "math.cos": _plain(np.cos),
    "math.cosh": _plain(np.cosh),
    "math.erf": _same_dtype(_erf),
    "math.exp": _plain(np.exp),
    "math.exp2": _plain(np.exp2),
    "math.expm1": _plain(np.expm1),
    "math.floor": _plain(np.floor),
    "math.fma": _plain(lambda a, b, c: a * b + c),
    "math.ipowi": _plain(np.power),
    "math.log": _plain(np.log),
    "math.log10": _plain(np.log10),
    "math.log1p": _plain(np.log1p),
    "math.log2": _plain(np.log2),
    "math.powf": _plain(np.power),
    "math.round": _same_dtype(_round_away),
    "math.roundeven": _plain(np.rint),
    "math.rsqrt": _same_dtype(lambda x: np.reciprocal(np.sqrt(x))),
    "math.sin": _plain(np.sin),
    "math.sinh": _plain(np.sinh),
    "math.sqrt": _plain(np.sqrt),
    "math.tan": _plain(np.tan),
    "math.tanh": _plain(np.tanh),
    "math.trunc": _plain(np.trunc),
    "vector.broadcast": _broadcast_vector,
    "vector.extract": _extract,
    "vector.insert": _insert,
    "vector.reduction": _fold_lanes,
    "vector.fma": _plain(lambda a, b, c: a * b + c),
}
"""``function(op, *operands) -> result`` of every op with one result and no region, by op name."""
