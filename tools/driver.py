"""``tilewright.compile`` and ``tilewright.resume``: models and dumped files to artefacts.

    model = tilewright.compile("model.onnx")                      # a loaded model
    path = tilewright.compile("model.onnx", output="model.twm")   # a file
    tilewright.compile("model.onnx", output="m.twm", dump_ir="levels")
    tilewright.resume("levels/04_loop.ir", output="m.twm")

Elsewhere: the stages (``stages.py``), running them (``compilation.py``), what the command line says
(``cli/``).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._version import __version__

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..core.context import TilewrightContext
    from ..runtime import Model
    from .compilation import Compilation, Reporter, Timings

Shapes = Mapping[str, Sequence[int | str | None]]
PathLike = str | os.PathLike[str]


def compile(
    model: Any,
    *,
    output: PathLike | None = None,
    target: str | None = None,
    mcpu: str | None = None,
    mattr: str | None = None,
    shapes: Shapes | None = None,
    dump_ir: PathLike | None = None,
    reporter: Reporter | None = None,
    timings: Timings | None = None,
) -> Path | Model:
    """Compile a model; gives the path of the artefact, or without ``output`` the model, loaded.

    ``model``: a path of an ONNX or ``.ir`` file, an ``onnx.ModelProto``, or a module of the graph dialect
    together with its context as a pair ``(module, context)``. A dumped ``.ir`` file goes on from its level.
    ``target``, ``mcpu``, ``mattr``: the machine; this one if not given. ``shapes``: input name to shape,
    where integers fix a dimension and strings name a symbol. ``dump_ir``: a folder for one ``.ir`` file per
    level.
    """
    from .compilation import Compilation, Reporter, Timings, set_target, stage_of, target_of

    if output is not None and not Path(output).absolute().parent.is_dir():
        raise _failure(f"cannot write '{output}': its folder does not exist")
    timings = timings or Timings()
    with timings.measure("import"):
        module, context = _module_of(model, shapes)
    recorded = target_of(module)
    name = target or recorded.get("name", "llvm")
    mcpu, mattr = mcpu or recorded.get("mcpu"), mattr or recorded.get("mattr")
    set_target(module, name, mcpu, mattr)
    found = _find_target(context, name)
    compilation = Compilation(
        context,
        found,
        found.machine(mcpu, mattr),
        f"tilewright {__version__}",
        None if dump_ir is None else Path(dump_ir),
        reporter or Reporter(),
        timings,
    )
    after = stage_of(module) or compilation.stage_names()[0]
    if output is not None:
        compilation.run(module, after, output)
        return Path(output)
    return _compile_and_load(compilation, module, after)


def resume(path: PathLike, **options: Any) -> Path | Model:
    """Go on with a file of ``dump_ir``, edited or not, from its level; weights are found beside it.

    Options are those of ``compile``.
    """
    result: Path | Model = compile(path, **options)
    return result


def pipeline_text(target: str = "llvm", mcpu: str | None = None, mattr: str | None = None) -> str:
    """The stages of a compilation and their passes, one stage a line."""
    from ..core.context import make_context
    from .stages import print_stages, stages

    found = _find_target(make_context(), target)
    return print_stages(stages(found, found.machine(mcpu, mattr)))


def _compile_and_load(compilation: Compilation, module: ModuleOp, after: str) -> Model:
    """The artefact lives in a temporary file whose name is gone once it is mapped."""
    from ..runtime import load

    handle, path = tempfile.mkstemp(suffix=".twm")
    os.close(handle)
    try:
        compilation.run(module, after, path, loadable=True)
        return load(path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _module_of(model: Any, shapes: Shapes | None) -> tuple[ModuleOp, TilewrightContext]:
    """The model as a module in its context, whatever form it came in."""
    from ..core.context import make_context

    if isinstance(model, tuple):
        module, context = model
        return module.clone(), context
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        if path.suffix in (".ir", ".mlir"):
            if shapes:
                raise _failure(f"shapes cannot be given for '{path}': they are in the file already")
            return _read_ir(path)
        if not path.exists():
            raise _failure(f"cannot read '{path}': no such file")
    context = make_context()
    from ..frontends.onnx.importer import import_model

    return import_model(model, context, shapes=shapes), context


def _read_ir(path: Path) -> tuple[ModuleOp, TilewrightContext]:
    from ..core.context import make_context
    from ..core.verifier import verify
    from ..text import parse_module
    from .compilation import resources_beside

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise _failure(f"cannot read '{path}': {reason}") from None
    context = make_context(resources=resources_beside(path))
    module = parse_module(text, filename=str(path), context=context)
    verify(module)
    _check_resources(module, context)
    return module, context


def _check_resources(module: ModuleOp, context: TilewrightContext) -> None:
    """Weights that are not there are noticed before anything is compiled."""
    from ..core.diagnostics import emit_error
    from ..dialects.graph.structure import ConstantOp
    from .compilation import RESOURCES_FILE

    for op in module.walk():
        if isinstance(op, ConstantOp) and op.resource is not None and op.resource not in context.resources:
            emit_error(op, f"names the weight '{op.resource}', which '{RESOURCES_FILE}' beside the file does not hold")


def _find_target(context: TilewrightContext, name: str) -> Any:
    return context.registry.resolve("target", name)


def _failure(message: str) -> Exception:
    from ..core.diagnostics import Diagnostic, DiagnosticError, Severity

    return DiagnosticError(Diagnostic(Severity.ERROR, message))
