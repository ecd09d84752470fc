"""The composed grammars: conflicts against a list, the cache of tables, every dialect in use."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects import get_all_dialects

from tilewright.core.context import make_context
from tilewright.text import grammar, tables
from tilewright.text.fragment import XDSL_FRAGMENTS, Fragment, fragment_of, load_fragment

ALLOWED = {
    # `attr : type`: a number or string takes the type that follows; formats of xDSL have `$attr : type(...)`.
    "COLON: <nontype_attr : STRING>",
    "COLON: <nontype_attr : OPAQUE LESSTHAN STRING COMMA STRING MORETHAN>",
    "COLON: <num_attr : number>",
    # Optional parts at the end of an operation: the printer uses the pretty form only where they are there.
    "BANG_ALIAS: <type_opt : >",
    "BANG_ALIAS: <types_opt : >",
    "PCT_ID: <operands_opt : >",
    # `attr-dict` before an attribute: the printer refuses the pretty form where that attribute is a dictionary.
    "LBRACE: <attr_dict_opt : >",
    "LBRACE: <regions_opt : >",
}
IN_USE = ("builtin", "func", "arith", "math", "scf", "cf", "memref", "vector", "llvm")


def test_generic_form_has_no_conflict() -> None:
    assert tables.load_tables(grammar.core_grammar()).conflicts == []


@pytest.mark.parametrize("entry", sorted(XDSL_FRAGMENTS.values()))
def test_fragments_of_xdsl_are_unambiguous(entry: str) -> None:
    assert grammar.fragment_problem(load_fragment(entry)) is None


def test_own_fragments_are_unambiguous() -> None:
    context = make_context()
    found: set[Fragment] = set()
    for name in context.registered_dialect_names:
        dialect = context.get_dialect(name)
        found |= {f for c in (*dialect.operations, *dialect.attributes) if (f := fragment_of(c)) is not None}
    assert found
    for fragment in found:
        assert grammar.fragment_problem(fragment) is None, [s.op.name for s in fragment.ops]


def test_conflicts_of_the_dialects_in_use_are_known() -> None:
    context = Context()
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    language = grammar.Language(context, IN_USE)
    found = {c for c in language.driver.tables.conflicts if not c.startswith("PCT_ID: <group_")}
    assert found <= ALLOWED


def test_dialects_are_found_in_the_text() -> None:
    text = '%0 = arith.addi %a, %a\n"scf.if"() {x = #tw.enc<a>, y = !llvm<ptr>} // foo.bar'
    assert {"arith", "scf", "tw", "llvm", "builtin"} <= grammar.dialects_in(text)


def test_tables_are_kept_in_a_private_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    built = tables.load_tables(grammar.core_grammar())
    (file,) = (tmp_path / "cache" / "grammar").iterdir()
    assert stat.S_IMODE((tmp_path / "cache" / "grammar").stat().st_mode) == 0o700
    assert tables.load_tables(grammar.core_grammar()) == built
    file.write_text("{broken")
    assert tables.load_tables(grammar.core_grammar()).rules == built.rules
    record = json.loads(file.read_text())
    assert record["start_states"].keys() == set(tables.STARTS)


def test_a_folder_of_others_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    (tmp_path / "grammar").mkdir()
    os.chmod(tmp_path / "grammar", 0o777)
    assert tables.cache_folder() is None
    assert tables.load_tables(grammar.core_grammar()).rules
    assert not list((tmp_path / "grammar").iterdir())


def test_a_small_file_does_not_import_lark() -> None:
    code = (
        "import sys\nfrom tilewright.core.context import make_context\nfrom tilewright.text import parse_module\n"
        "text = 'func.func @f(%a: f32) {\\n%0 = arith.addf %a, %a : f32\\nfunc.return\\n}'\n"
        "parse_module(text, context=make_context())\nprint('lark' in sys.modules)"
    )
    for _ in range(2):
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert out == "False", "the second start reads the tables from the cache"
