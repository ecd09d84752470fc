"""The runtime needs nothing of the compiler: no xDSL, no Lark, no tools on PATH, and it loads quickly."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

BLOCK = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("xdsl", "lark", "onnx", "rich", "safetensors", "ml_dtypes"):
            raise ModuleNotFoundError(f"blocked: {name}", name=name)

sys.meta_path.insert(0, Refuse())
"""

RUN = """
import sys, time
import numpy as np
start = time.perf_counter()
import tilewright
model = tilewright.load(sys.argv[1])
elapsed = time.perf_counter() - start
x = np.arange(5, dtype=np.float32)
assert (model(x, x) == 2 * x).all()
ours = sorted(name for name in sys.modules if name.startswith("tilewright."))
assert all(name.startswith(("tilewright.runtime", "tilewright._version")) for name in ours), ours
print(elapsed)
"""


def test_loads_and_runs_without_the_compiler(write_artefact: Callable[..., Path]) -> None:
    environment = {**os.environ, "PATH": ""}
    command = [sys.executable, "-c", BLOCK + RUN, str(write_artefact())]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1.0


def test_the_command_line_runs_models_without_the_compiler(write_artefact: Callable[..., Path]) -> None:
    script = "from tilewright.tools.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    words = ["run", str(write_artefact()), "--fill", "zeros", "--dim", "n=2"]
    command = [sys.executable, "-c", BLOCK + script, *words]
    done = subprocess.run(command, env={**os.environ, "PATH": ""}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "y: float32[2] [0.0, 0.0]\n"), done.stderr


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = "import sys, tilewright; print([m for m in ('numpy', 'xdsl', 'lark', 'llvmlite') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
