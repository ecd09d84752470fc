"""From a path, bytes or a protobuf to a checked ``ModelProto``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.diagnostics import Diagnostic, DiagnosticError, Severity, file_location

if TYPE_CHECKING:
    from onnx import ModelProto


def load_model(model: ModelProto | bytes | str | Path) -> tuple[ModelProto, str, Path | None]:
    """The model, its name for messages, and the folder of its external data."""
    try:
        import onnx
    except ModuleNotFoundError:
        raise _failure("importing ONNX models needs the 'onnx' package (extra 'onnx')", "model.onnx") from None
    if isinstance(model, onnx.ModelProto):
        return _checked(model, model.graph.name or "model"), f"{model.graph.name or 'model'}.onnx", None
    if isinstance(model, bytes):
        return _checked(_parse(model, "model.onnx"), "model.onnx"), "model.onnx", None
    path = Path(model)
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise _failure(f"cannot read the model: {problem.strerror}", str(path)) from None
    return _checked(_parse(data, str(path)), str(path)), str(path), path.parent


def _parse(data: bytes, name: str) -> ModelProto:
    import onnx
    from google.protobuf.message import DecodeError

    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except (DecodeError, RuntimeError):
        raise _failure("not an ONNX model: the protobuf cannot be decoded", name) from None
    return proto


def _checked(proto: ModelProto, name: str) -> ModelProto:
    if not proto.HasField("graph"):
        raise _failure("not an ONNX model: it has no graph", name)
    if not proto.opset_import:
        raise _failure("the model imports no operator set", name)
    if not proto.graph.output:
        raise _failure("the model has no outputs", name)
    _check_single_definitions(proto, name)
    return proto


def _check_single_definitions(proto: ModelProto, name: str) -> None:
    """Every value of the graph comes from one place: an input (which an initialiser may back) or one node."""
    given = [value.name for value in proto.graph.input]
    initial = [weight.name for weight in proto.graph.initializer]
    for kind, names in (("input", given), ("initialiser", initial)):
        repeated = next((n for n, count in Counter(names).items() if count > 1), None)
        if repeated is not None:
            raise _failure(f"{kind} '{repeated}' is defined twice", name)
    known = {*given, *initial}
    for node in proto.graph.node:
        for output in node.output:
            if output and output in known:
                where = f"node '{node.name or output}' ({node.op_type})"
                raise _failure(f"{where}: value '{output}' is defined already", name)
            known.add(output)


def _failure(message: str, name: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(Severity.ERROR, message, file_location(name, 0, 0)))
