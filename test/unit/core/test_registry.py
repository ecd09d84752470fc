"""The registry, its tables and plugins: everything registered loads; clashes and broken plugins name the plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.core.context import make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.passes import Pass
from tilewright.core.pipeline import build_pipeline
from tilewright.core.registry import KINDS, Registry, default_registry

REGISTRY = default_registry()


@pytest.mark.parametrize("name", REGISTRY.names("dialect"))
def test_every_dialect_loads(name: str) -> None:
    assert REGISTRY.dialect_loaders()[name]().name == name


@pytest.mark.parametrize("name", REGISTRY.names("pass"))
def test_every_pass_loads_and_has_a_docstring(name: str) -> None:
    pass_class = REGISTRY.resolve("pass", name)
    assert issubclass(pass_class, Pass) and pass_class.name == name
    assert pass_class.__doc__ and not pass_class.__doc__.startswith(f"{pass_class.__name__}("), "no docstring"


@pytest.mark.parametrize("name", REGISTRY.names("pipeline"))
def test_every_pipeline_builds(name: str) -> None:
    assert build_pipeline(name, REGISTRY)


@pytest.mark.parametrize("kind", ["target", "frontend"])
def test_every_other_entry_loads(kind: str) -> None:
    for name in REGISTRY.names(kind):  # type: ignore[arg-type]
        assert REGISTRY.resolve(kind, name) is not None  # type: ignore[arg-type]


def test_registries_are_independent() -> None:
    registry = default_registry()
    registry.add_pipeline("mine", ("x",))
    assert not default_registry().has("pipeline", "mine")
    assert all(registry.names(kind) is not None for kind in KINDS)


def plugin(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "broken.py"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def register(registry):\n    registry.add_dialect('func', None)",
            "dialect 'func' is already registered by xdsl",
        ),
        ("def register(registry):\n    registry.add_dialect('te', None)", "already registered by tilewright"),
        ("def register(registry):\n    1 / 0", "failed to register: ZeroDivisionError"),
        ("import no_such_module", "cannot be loaded: ModuleNotFoundError"),
        ("def register(", "cannot be loaded: SyntaxError"),
        ("import sys; sys.exit(0)", "cannot be loaded: SystemExit: 0"),
        ("import sys\ndef register(registry): sys.exit(3)", "failed to register: SystemExit: 3"),
        ("x = 1", "defines no function register"),
    ],
)
def test_broken_plugins(tmp_path: Path, text: str, message: str) -> None:
    path = plugin(tmp_path, text)
    with pytest.raises(DiagnosticError) as caught:
        default_registry().load_plugin(path)
    assert message in str(caught.value) and str(path) in str(caught.value)


def test_an_entry_that_cannot_be_loaded_names_the_plugin(tmp_path: Path) -> None:
    registry = default_registry()
    lines = [
        "r.add_pass('no_such:Pass', 'lost')",
        "r.add_dialect('odd', 'os:getcwd')",
        "r.add_dialect('bad', 'json:dumps')",
    ]
    registry.load_plugin(plugin(tmp_path, "def register(r):\n    " + "\n    ".join(lines)))
    with pytest.raises(DiagnosticError, match=r"broken\.py: cannot load pass 'lost' from no_such:Pass"):
        registry.resolve("pass", "lost")
    with pytest.raises(DiagnosticError, match=r"broken.py: 'odd' is not registered with a dialect of that name"):
        make_context(registry).get_dialect("odd")
    with pytest.raises(DiagnosticError, match=r"broken.py: TypeError"):
        make_context(registry).get_dialect("bad")


def test_universe_of_xdsl() -> None:
    from xdsl.dialects.test import Test
    from xdsl.ir import Dialect
    from xdsl.universe import Universe

    registry = Registry()
    registry.add_universe(
        "plugin other", Universe(all_dialects={"mine": lambda: Dialect("mine", list(Test.operations))})
    )
    assert make_context(registry).get_dialect("mine").name == "mine"
    with pytest.raises(DiagnosticError, match="plugin other: dialect 'mine' is already registered by plugin other"):
        registry.add_universe("plugin other", Universe(all_dialects={"mine": lambda: Dialect("mine", [])}))
