"""Compiling and calling what the C target writes, by its header alone.

    model = CModel.compile(Path("model.c"), flags=("-fsanitize=undefined",))
    (scores,) = model(images)

The header's comments are read as a user reads them: which parameters are inputs and outputs, their element types and
shapes, and which dimensions are parameters. So calls through this class check the documentation too.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.symbolic import SymExpr, parse_expr

Array = npt.NDArray[Any]
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
"""What generated code has to pass."""


def find_gcc() -> str | None:
    """The C compiler to test with."""
    return shutil.which("gcc")


class CompilerError(Exception):
    """The C compiler refused a file, or had something to say about it."""


def compile_library(source: Path, flags: Sequence[str] = (), compiler: str = "gcc") -> ctypes.CDLL:
    """The shared library of one C file, loaded."""
    library = source.with_suffix(".so")
    command = [compiler, *STRICT, "-shared", "-fPIC", "-O1", *flags, str(source), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompilerError(done.stderr)
    return ctypes.CDLL(str(library))


@dataclass
class Parameter:
    """One parameter of the function that runs the model."""

    name: str
    role: str
    dtype: np.dtype[Any] | None = None
    shape: tuple[SymExpr, ...] = ()
    source: tuple[str, int] = ("", 0)
    """Of a dimension: the input, and which dimension of it."""


@dataclass
class CModel:
    """A model in a shared library, with what its header says."""

    library: ctypes.CDLL
    prefix: str
    parameters: list[Parameter] = field(default_factory=list)

    @staticmethod
    def compile(source: Path, flags: Sequence[str] = ()) -> CModel:
        """Compile ``model.c`` with ``model.h`` beside it."""
        library = compile_library(source, flags)
        return CModel(library, source.stem, read_header(source.with_suffix(".h").read_text(), source.stem))

    def __call__(self, *inputs: Array) -> list[Array]:
        code, outputs = self.run(*inputs)
        if code:
            raise RuntimeError(f"{code}: {self.error(code)}")
        return outputs

    def run(self, *inputs: Array) -> tuple[int, list[Array]]:
        """The code that the function returns, and the outputs."""
        arrays = dict(zip([p.name for p in self.parameters if p.role == "input"], map(np.ascontiguousarray, inputs)))
        dims = {p.name: arrays[p.source[0]].shape[p.source[1]] for p in self.parameters if p.role == "dimension"}
        outputs: dict[str, Array] = {}
        arguments: list[Any] = []
        for p in self.parameters:
            if p.role == "input":
                assert arrays[p.name].dtype == p.dtype, f"{p.name} is {p.dtype}"
                arguments.append(_pointer(arrays[p.name]))
            elif p.role == "output":
                outputs[p.name] = np.empty([extent.evaluate(dims) for extent in p.shape], p.dtype)
                arguments.append(_pointer(outputs[p.name]))
            elif p.role == "workspace":
                workspace = np.full(self.workspace_size(*dims.values()) + 8, 0xA5, np.uint8)
                arguments.append(_pointer(workspace))
            else:
                arguments.append(ctypes.c_int64(dims[p.name]))
        code = self.library[f"{self.prefix}_run"](*arguments)
        if any(p.role == "workspace" for p in self.parameters):
            assert (workspace[-8:] == 0xA5).all(), "wrote past the end of the workspace"
        return code, list(outputs.values())

    def workspace_size(self, *dims: int) -> int:
        """Bytes of workspace that the model asks for."""
        function = self.library[f"{self.prefix}_workspace_size"]
        function.restype = ctypes.c_size_t
        return int(function(*map(ctypes.c_int64, dims)))

    def error(self, code: int) -> str | None:
        """The text of a code."""
        function = self.library[f"{self.prefix}_error"]
        function.restype = ctypes.c_char_p
        text = function(ctypes.c_int32(code))
        return None if text is None else str(text.decode())


def _pointer(array: Array) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def read_header(text: str, prefix: str) -> list[Parameter]:
    """The parameters of ``<prefix>_run`` as declaration and comments say."""
    found = re.search(rf"int32_t {prefix}_run\(([^)]*)\);", text)
    assert found is not None, "declares no run function"
    names = [re.split(r"[ *]", part.strip())[-1] for part in found[1].split(",")]
    comments = dict(re.findall(r"^ \* (\w+): (.*)$", text, re.MULTILINE))
    return [_parameter(name, comments[name]) for name in names if name != "void"]


def _parameter(name: str, comment: str) -> Parameter:
    if (match := re.fullmatch(r"(\w+)\[(.*)\], (input|output)", comment)) is not None:
        shape = tuple(parse_expr(extent) for extent in match[2].split(", ") if extent)
        return Parameter(name, match[3], np.dtype(match[1]), shape)
    if (match := re.match(r"dimension (\d+) of (\w+)", comment)) is not None:
        return Parameter(name, "dimension", source=(match[2], int(match[1])))
    assert name == "workspace", f"parameter {name} is not documented"
    return Parameter(name, "workspace")
