"""ONNX's standard backend interface: ``prepare``, ``run_model``, ``run_node``, ``supports_device``.

``executor="compiled"`` (the default) compiles to native code; ``executor="interpreter"`` runs the graph level in NumPy.
The environment variable ``TILEWRIGHT_ONNX_EXECUTOR`` changes the default.

A model in which shapes depend on the *values* of inputs (a ``Reshape`` whose target shape is an input) is prepared at
the first ``run``, for the values of those inputs, and again when they change. The compiler itself never does this.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from onnx.backend.base import Backend, BackendRep

from ...core.context import make_context
from ...core.diagnostics import Diagnostic, DiagnosticError, Severity
from .errors import UnsupportedNodesError
from .importer import import_model

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Array = npt.NDArray[Any]
Runner = Callable[[dict[str, Array]], list[Array]]

COMPILER = "tilewright.tools.driver:compile"
"""The compiler is a layer above the frontends, so it is found by name."""


class TilewrightBackendRep(BackendRep):
    """A prepared model."""

    def __init__(self, model: ModelProto, executor: str) -> None:
        self._model = model
        self._executor = executor
        initializers = {t.name for t in model.graph.initializer}
        self._inputs = [i.name for i in model.graph.input if i.name not in initializers]
        self._fixed: list[str] = []
        self._runners: dict[tuple[bytes, ...], Runner] = {}
        self._prepare({})

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Array, ...]:
        """Runs on a sequence of arrays in the order of the inputs, on a dictionary by name, or on one array."""
        arrays = self._by_name(inputs)
        while True:
            values = {name: arrays[name] for name in self._fixed}
            key = tuple(v.tobytes() + str(v.shape).encode() for v in values.values())
            runner = self._runners.get(key) or self._prepare(values)
            if runner is not None:
                return tuple(runner({n: a for n, a in arrays.items() if n not in values}))

    def _by_name(self, inputs: Any) -> dict[str, Array]:
        if isinstance(inputs, dict):
            given = inputs
        else:
            sequence = inputs if isinstance(inputs, list | tuple) else [inputs]
            if len(sequence) > len(self._inputs):
                raise ValueError(f"{len(sequence)} inputs given, the model takes {len(self._inputs)}")
            given = dict(zip(self._inputs, sequence))
        missing = [n for n in self._inputs if n not in given]
        if missing:
            raise ValueError(f"inputs are missing: {', '.join(missing)}")
        return {n: np.asarray(given[n]) for n in self._inputs}

    def _prepare(self, values: dict[str, Array]) -> Runner | None:
        """A runner for these values; ``None`` when more values are needed first."""
        context = make_context()
        try:
            module = import_model(self._model, context, values=values)
        except UnsupportedNodesError as problem:
            needed = problem.inputs - set(self._fixed)
            if not needed:
                raise
            self._fixed += sorted(needed)
            return None
        key = tuple(v.tobytes() + str(v.shape).encode() for v in values.values())
        runner = _EXECUTORS[self._executor](module, context)
        self._runners[key] = runner
        return runner


def _interpret(module: Any, context: Any) -> Runner:
    from ...interp import Interpreter

    interpreter = Interpreter(module, context)
    return lambda arrays: interpreter.call("main", list(arrays.values()))


def _compile(module: Any, context: Any) -> Runner:
    name, function = COMPILER.split(":")
    try:
        compile = getattr(import_module(name), function)
    except ModuleNotFoundError as problem:
        text = f"compiling needs '{problem.name}', which is not installed; executor=\"interpreter\" works without"
        raise DiagnosticError(Diagnostic(Severity.ERROR, text)) from None
    model = compile((module, context))
    return lambda arrays: list(model.run(arrays).values())


_EXECUTORS: dict[str, Callable[[Any, Any], Runner]] = {"compiled": _compile, "interpreter": _interpret}


class TilewrightBackend(Backend):
    """ONNX's ``Backend`` for Tilewright."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every node of the model is supported."""
        try:
            TilewrightBackendRep(model, "interpreter")
        except DiagnosticError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> TilewrightBackendRep:
        """Imports and compiles a model; what cannot be done is a ``DiagnosticError``."""
        if not cls.supports_device(device):
            raise ValueError(f"device {device} is not supported, only CPU")
        executor = kwargs.get("executor") or os.environ.get("TILEWRIGHT_ONNX_EXECUTOR", "compiled")
        if executor not in _EXECUTORS:
            raise ValueError(f"unknown executor '{executor}', expected one of {', '.join(_EXECUTORS)}")
        return TilewrightBackendRep(model, executor)

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Array, ...]:
        """Prepares and runs once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Array, ...]:
        """Runs one node on arrays."""
        from onnx import TensorProto, helper

        names = [n for n in node.input if n]
        arrays = [np.asarray(a) for a in (inputs if isinstance(inputs, list | tuple) else [inputs])]
        infos = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in zip(names, arrays)
        ]
        outputs = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in node.output if n]
        graph = helper.make_graph([node], "node", infos, outputs)
        version = kwargs.pop("opset_version", None)
        opsets = [helper.make_opsetid(node.domain, version)] if version else None
        model = helper.make_model(graph, opset_imports=opsets)
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only the CPU."""
        return device.split(":")[0] == "CPU"


is_compatible = TilewrightBackend.is_compatible
prepare = TilewrightBackend.prepare
run = TilewrightBackend.run_model
run_model = TilewrightBackend.run_model
run_node = TilewrightBackend.run_node
supports_device = TilewrightBackend.supports_device
