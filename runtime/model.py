"""A loaded model: ``load`` maps an artefact and links its code, calling the model runs it.

Nothing of the compiler is needed here: only the standard library, NumPy and llvmlite's linker. A model may be
called by several threads at once; every call has its own buffers, and the thread pool is shared
(``threads.py``).
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .container import PAGE, Artefact
from .errors import ArtefactError, ExecutionError, InputError
from .jit import LoadedCode
from .machine import check_machine
from .manifest import model_fault
from .tensors import Array, TensorSpec, TensorStruct, adopt, as_array, numpy_dtype
from .threads import CONTEXT_VERSION, process_pool

_OUT_OF_MEMORY = 2
_VERIFIED_AT_ONCE = 256 << 20


class ErrorStruct(ctypes.Structure):
    """``{code, site, a, b}``: what an entry writes when it refuses or fails."""

    _fields_ = (
        ("code", ctypes.c_int64),
        ("site", ctypes.c_int64),
        ("a", ctypes.c_int64),
        ("b", ctypes.c_int64),
    )


def load(path: str | os.PathLike[str], *, verify: bool = True) -> Model:
    """Load a compiled model.

    The checksums of a file of more than 256 MiB are compared while the program goes on, and the first call waits
    for them. ``verify=False`` skips those of the weights; code is always checked, before it is linked.
    """
    return Model(Artefact(path), verify=verify)


class Verification:
    """The comparison of the weights' checksums: at once for files of ordinary size, else in a thread of its own."""

    def __init__(self, artefact: Artefact, start: int) -> None:
        self._error: ArtefactError | None = None
        self._thread: threading.Thread | None = None
        if len(artefact.buffer) <= _VERIFIED_AT_ONCE:
            artefact.verify(start)
            return
        self._thread = threading.Thread(target=self._run, args=(artefact, start), daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Return when the weights are known to be right; ArtefactError if they are not."""
        thread = self._thread
        if thread is not None:
            thread.join()
            if self._error is not None:
                raise self._error
            self._thread = None

    def _run(self, artefact: Artefact, start: int) -> None:
        try:
            artefact.verify(start)
        except ArtefactError as error:
            self._error = error


class Model:
    """A compiled model, ready to run.

    ``model(x)`` and ``model(name=x)`` give an array (a tuple for several outputs); ``model.run({"name": x})`` gives a
    dictionary by output name. A model with several public functions has one :class:`Entry` for each in ``entries``;
    calling the model calls the first.
    """

    def __init__(self, artefact: Artefact, *, verify: bool = True) -> None:
        self.path = artefact.path
        self.manifest = artefact.manifest
        manifest = artefact.manifest
        version = manifest.get("context_version")
        if version != CONTEXT_VERSION:
            raise ArtefactError(f"'{self.path}' needs runtime interface {version}, found {CONTEXT_VERSION}")
        artefact.refuse(model_fault(manifest))
        weights = artefact.of_kind("weights")
        code_end = weights[0].offset if weights else None
        artefact.verify(0, code_end)
        verification = Verification(artefact, code_end) if verify and code_end is not None else None
        check_machine(manifest["target"], self.path)
        runtime = artefact.of_kind("runtime")
        objects = artefact.of_kind("object")
        if not runtime or not objects:
            raise ArtefactError(f"'{self.path}' holds no object code")
        symbols = [entry["symbol"] for entry in manifest["entries"]]
        code = LoadedCode([artefact.read(section) for section in objects], symbols)
        release, context = _context(artefact.read(runtime[0]))
        shared = _Shared(artefact, code, _weights_address(artefact), context, release, verification)
        self.entries: dict[str, Entry] = {
            entry["name"]: Entry(entry, manifest["errors"], shared) for entry in manifest["entries"]
        }
        self._main = next(iter(self.entries.values()))

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs of the first entry, in order."""
        return self._main.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs of the first entry, in order."""
        return self._main.outputs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._main(*args, **kwargs)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Run on arrays by input name; gives arrays by output name."""
        return self._main.run(inputs)

    def __repr__(self) -> str:
        lines = [f"Model('{self.path}')"]
        for entry in self.entries.values():
            lines.append(f"  {entry.name}({', '.join(map(str, entry.inputs))})")
            lines.append(f"    -> {', '.join(map(str, entry.outputs))}")
        return "\n".join(lines)


@dataclass(frozen=True)
class _Shared:
    """What all entries of a model hold on to: the mapped file, the linked code, and the context table."""

    artefact: Artefact
    code: LoadedCode
    weights: int
    context: int
    release: Callable[[int], None]
    verification: Verification | None


class Entry:
    """One public function of a model."""

    def __init__(self, entry: Mapping[str, Any], errors: Sequence[str], shared: _Shared) -> None:
        self.name: str = entry["name"]
        self.inputs = tuple(_spec(given) for given in entry["inputs"])
        self.outputs = tuple(_spec(given) for given in entry["outputs"])
        self._input_dtypes = [numpy_dtype(spec.dtype) for spec in self.inputs]
        self._output_dtypes = [numpy_dtype(spec.dtype) for spec in self.outputs]
        self._names = {spec.name: index for index, spec in enumerate(self.inputs)}
        self._errors = errors
        self._shared = shared
        pointer = ctypes.c_void_p
        self._function = shared.code.function(entry["symbol"], ctypes.c_int32, *[pointer] * 5)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arrays by position or name; one array, or a tuple where the function has several outputs."""
        results = self._invoke(self._ordered(args, kwargs))
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Run on arrays by input name; gives arrays by output name."""
        if not isinstance(inputs, Mapping):
            raise InputError(f"inputs are a {type(inputs).__name__}, expected a mapping of names to arrays")
        results = self._invoke(self._ordered((), inputs))
        return {spec.name: result for spec, result in zip(self.outputs, results)}

    def _ordered(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        expected = ", ".join(f"'{spec.name}'" for spec in self.inputs) or "none"
        if len(args) > len(self.inputs):
            raise InputError(f"{len(args)} inputs given, expected {len(self.inputs)}: {expected}")
        values: list[Any] = [*args, *[None] * (len(self.inputs) - len(args))]
        for name, value in named.items():
            index = self._names.get(name)
            if index is None:
                raise InputError(f"unknown input '{name}', expected {expected}")
            if index < len(args):
                raise InputError(f"input '{name}' is given twice")
            values[index] = value
        missing = [spec.name for spec, value in zip(self.inputs, values) if value is None]
        if missing:
            names = ", ".join(f"'{name}'" for name in missing)
            raise InputError(f"missing input{'s' if len(missing) > 1 else ''} {names}, expected {expected}")
        return values

    def _invoke(self, values: Sequence[Any]) -> list[Array]:
        if self._shared.verification is not None:
            self._shared.verification.wait()
        arrays = [as_array(*item) for item in zip(values, self.inputs, self._input_dtypes)]
        given = [(array.ctypes.data, array.shape) for array in arrays]
        taken = [(None, (0,) * len(spec.shape)) for spec in self.outputs]
        inputs, input_shapes = _describe(given)
        outputs, output_shapes = _describe(taken)
        error = ErrorStruct()
        status = self._function(
            self._shared.context,
            self._shared.weights,
            ctypes.addressof(inputs),
            ctypes.addressof(outputs),
            ctypes.addressof(error),
        )
        if status:
            self._abandon(outputs)
            raise self._error(error)
        del arrays, input_shapes
        return self._adopt(outputs, output_shapes)

    def _adopt(self, outputs: Any, shapes: Sequence[Any]) -> list[Array]:
        release = self._shared.release
        results = []
        for struct, shape, dtype in zip(outputs, shapes, self._output_dtypes):
            results.append(adopt(struct.data, tuple(shape[: struct.rank]), dtype, release))
        return results

    def _abandon(self, outputs: Any) -> None:
        for struct in outputs:
            if struct.data:
                self._shared.release(struct.data)

    def _error(self, error: ErrorStruct) -> ExecutionError | InputError:
        if error.code == _OUT_OF_MEMORY:
            return ExecutionError(f"no memory for {error.a} bytes in '{self.name}'")
        if 0 <= error.site < len(self._errors):
            return InputError(self._errors[error.site].format(a=error.a, b=error.b))
        return ExecutionError(f"'{self.name}' failed with code {error.code} at site {error.site}")


def _spec(given: Mapping[str, Any]) -> TensorSpec:
    return TensorSpec(given["name"], given["dtype"], tuple(given["shape"]))


def _describe(tensors: Sequence[tuple[int | None, tuple[int, ...]]]) -> tuple[Any, list[Any]]:
    """The descriptor array that an entry takes, and the shape arrays that it points to."""
    shapes = [(ctypes.c_int64 * max(1, len(shape)))(*shape) for _, shape in tensors]
    structs = (TensorStruct * max(1, len(tensors)))()
    for struct, (data, shape), buffer in zip(structs, tensors, shapes):
        struct.data, struct.rank, struct.shape = data, len(shape), ctypes.addressof(buffer)
    return structs, shapes


def _context(image: bytes) -> tuple[Callable[[int], None], int]:
    context = process_pool().attach(image)
    table = (ctypes.c_int64 * 4).from_address(context)
    native = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(table[3])

    def release(address: int) -> None:
        native(context, address)

    return release, context


def _weights_address(artefact: Artefact) -> int:
    weights = artefact.of_kind("weights")
    if not weights:
        return 0
    if weights[0].offset % PAGE:
        raise ArtefactError(f"'{artefact.path}' is damaged: the weights do not start at a page")
    return int(np.frombuffer(artefact.buffer, np.uint8).ctypes.data) + weights[0].offset
