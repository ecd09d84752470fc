"""Programs for the debugging tools: reading files, the entry function, and inputs for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IndexType,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
    VectorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from ...core.attributes import memref_shape_exprs, shape_exprs
from ...core.context import TilewrightContext, make_context
from ...core.diagnostics import Diagnostic, DiagnosticError, Severity
from ...core.registry import default_registry
from ...core.resources import ResourceTable
from ...core.symbolic import SymExpr
from ...core.verifier import verify
from ...interp.arith import numpy_dtype
from ...text import parse_module

Array = npt.NDArray[Any]
DEFAULT_DIM = 2
"""The size of a symbolic dimension that nobody gives; small, but not the 1 that broadcasts."""


def failure(message: str) -> DiagnosticError:
    """An error about what the user gave."""
    return DiagnosticError(Diagnostic(Severity.ERROR, message))


def read_text(path: Path) -> str:
    """The text of a file; an unreadable one is a diagnostic."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as problem:
        raise failure(f"cannot read '{path}': {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise failure(f"cannot read '{path}': it is not UTF-8 text") from None


def load_ir(
    path: Path,
    *,
    resources: str | None = None,
    plugins: Sequence[str] = (),
    allow_unregistered: bool = False,
) -> tuple[ModuleOp, TilewrightContext]:
    """A verified module from a file; weights from ``resources`` or from what lies beside the file."""
    text = read_text(path)
    registry = default_registry()
    for plugin in plugins:
        registry.load_plugin(plugin)
    table = ResourceTable()
    candidates = [path.with_suffix(".safetensors"), path.with_name("weights.safetensors")]
    beside = next((c for c in candidates if c.is_file()), None)
    if resources is not None or (beside is not None and "dense_resource" in text):
        table = ResourceTable.load(cast(Path, resources or beside))
    context = make_context(registry, allow_unregistered=allow_unregistered, resources=table)
    module = parse_module(text, filename=str(path), context=context)
    verify(module)
    return module, context


def entry_function(module: ModuleOp, name: str | None = None) -> FuncOp:
    """The named function; else ``main``, the first public one, or the first one with a body."""
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp) and not op.is_declaration]
    by_name = {f.sym_name.data: f for f in functions}
    if name is not None:
        if name not in by_name:
            raise failure(f"no function '{name}' with a body, expected one of {', '.join(by_name) or 'none'}")
        return by_name[name]
    public = [f for f in functions if f.sym_visibility is None or f.sym_visibility.data == "public"]
    named = [f for f in functions if f.sym_name.data == "main"]
    for found in (named, public, functions):
        if found:
            return found[0]
    raise failure("the module has no function with a body")


def names_of(attrs: Attribute | None, count: int, word: str) -> list[str]:
    """The model's names (``tw.name``) of arguments or results, made-up ones where there are none."""
    entries = attrs.data if isinstance(attrs, ArrayAttr) else ()
    names = []
    for index in range(count):
        entry = entries[index] if index < len(entries) else None
        name = entry.data.get("tw.name") if isinstance(entry, DictionaryAttr) else None
        names.append(name.data if isinstance(name, StringAttr) else f"{word}{index}")
    return names


def input_names(function: FuncOp) -> list[str]:
    """The names of a function's arguments."""
    return names_of(function.arg_attrs, len(function.body.block.args), "arg")


def output_names(function: FuncOp) -> list[str]:
    """The names of a function's results."""
    return names_of(function.res_attrs, len(function.function_type.outputs.data), "out")


def shape_of(type_: Attribute) -> tuple[SymExpr, ...]:
    """The logical shape of an argument type; scalars have none."""
    if isinstance(type_, TensorType):
        return shape_exprs(type_)
    if isinstance(type_, MemRefType):
        return memref_shape_exprs(type_)
    return ()


def parse_shapes(words: Sequence[str]) -> dict[str, list[int | str]]:
    """``["x=n,3,224,224"]`` is ``{"x": ["n", 3, 224, 224]}``."""
    shapes: dict[str, list[int | str]] = {}
    for word in words:
        name, equals, dims = word.rpartition("=")
        pieces = [piece.strip() for piece in dims.split(",")]
        if not name or not equals or not all(p.isdigit() or p.isidentifier() for p in pieces):
            raise failure(f"--shape takes INPUT=DIMS, such as x=n,3,224,224, found '{word}'")
        shapes[name] = [int(p) if p.isdigit() else p for p in pieces]
    return shapes


class Inputs:
    """Makes the arguments of an entry: given arrays by name where they fit, random ones elsewhere.

    The random ones depend on the seed and the argument's name alone, so that they stay the same while other arguments
    disappear.
    """

    def __init__(
        self, given: Mapping[str, Array] | None = None, seed: int = 0, dims: Mapping[str, int] | None = None
    ) -> None:
        self.given, self.seed, self.dims = dict(given or {}), seed, dict(dims or {})

    def make(self, function: FuncOp) -> list[Any]:
        """One value per argument of the function."""
        names = input_names(function)
        types = [a.type for a in function.body.block.args]
        dims = self._bind(names, types)
        symbols = _symbol_names(function)
        return [
            self._make(name, type_, dims, symbols.get(index)) for index, (name, type_) in enumerate(zip(names, types))
        ]

    def check(self, function: FuncOp) -> None:
        """Given arrays must be arguments of the function, of their type and rank."""
        types = dict(zip(input_names(function), (a.type for a in function.body.block.args)))
        for name, array in self.given.items():
            if name not in types:
                raise failure(f"the inputs hold '{name}', expected {', '.join(types) or 'none'}")
            dtype, rank = numpy_dtype(types[name]), len(shape_of(types[name]))
            if array.dtype != dtype or array.ndim != rank:
                raise failure(f"input '{name}' is {array.dtype} of rank {array.ndim}, expected {dtype} of rank {rank}")

    def _bind(self, names: Sequence[str], types: Sequence[Attribute]) -> dict[str, int]:
        dims = dict(self.dims)
        for name, type_ in zip(names, types):
            array = self.given.get(name)
            if array is not None and array.ndim == len(shape_of(type_)):
                for extent, size in zip(shape_of(type_), array.shape):
                    if extent.kind == "sym":
                        dims.setdefault(extent.name, size)
        return dims

    def _make(self, name: str, type_: Attribute, dims: Mapping[str, int], symbol: str | None) -> Any:
        if isinstance(type_, IndexType):
            return np.int64(dims.get(symbol or name, DEFAULT_DIM))
        exprs = shape_of(type_)
        shape = tuple(e.evaluate({s: dims.get(s, DEFAULT_DIM) for s in e.symbols()}) for e in exprs)
        dtype = numpy_dtype(type_)
        if isinstance(type_, VectorType):
            shape = tuple(type_.get_shape())
        given = self.given.get(name)
        if given is not None and given.dtype == dtype and given.ndim == len(shape):
            cut = given[tuple(slice(n) for n in shape)]
            if cut.shape == shape:
                return np.ascontiguousarray(cut)
        value = random_array(shape, dtype, np.random.default_rng([self.seed, *name.encode()]))
        return value if shape or isinstance(type_, TensorType | MemRefType) else value[()]


def random_array(shape: Sequence[int], dtype: np.dtype[Any], random: np.random.Generator) -> Array:
    """Numbers of a sensible size."""
    if dtype.kind == "b":
        return np.asarray(random.integers(0, 2, shape)).astype(dtype)
    if dtype.kind in "iu":
        return np.asarray(random.integers(0, 10, shape)).astype(dtype)
    return np.asarray(random.standard_normal(shape)).astype(dtype)


def _symbol_names(function: FuncOp) -> dict[int, str]:
    """The symbol of each trailing index argument of a kernel, by argument number."""
    names = function.attributes.get("symbols")
    if not isinstance(names, ArrayAttr):
        return {}
    first = len(function.body.block.args) - len(names.data)
    return {first + i: n.data for i, n in enumerate(names.data) if isinstance(n, StringAttr)}


