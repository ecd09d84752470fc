"""Configuration of the lit tests (``test/**/*.ir``, ``*.test``); run them with ``lit test`` or through pytest.

Substitutions: ``tilewright-opt``, ``filecheck``, ``%roundtrip`` (pretty -> generic -> pretty, all equal; prints the
pretty text). lit itself has ``not``.
"""

import os
import sys

import lit.formats

config.name = "tilewright"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".ir", ".test"]  # noqa: F821
config.excludes = ["unit", "property", "inputs", ".venv", "build", "examples", "Output"]  # noqa: F821

_root = os.path.dirname(os.path.abspath(__file__))
config.test_source_root = _root  # noqa: F821
config.test_exec_root = os.path.join(_root, "build", "lit")  # noqa: F821

_python = sys.executable
_bin = os.path.dirname(_python)
config.substitutions += [  # noqa: F821
    ("%roundtrip", f"{_python} -m tilewright.testing.roundtrip"),
    (r"(?<![-/\w.%])tilewright-opt(?![-\w])", f"{_python} -m tilewright.tools.opt.main"),
    (r"(?<![-/\w.%])filecheck(?![-\w])", os.path.join(_bin, "filecheck")),
    ("%python", _python),
]
config.environment["PATH"] = os.pathsep.join([_bin, os.environ.get("PATH", "")])  # noqa: F821
for _name in ("HOME", "XDG_CACHE_HOME", "TMPDIR", "PYTHONPATH"):
    if _name in os.environ:
        config.environment[_name] = os.environ[_name]  # noqa: F821
