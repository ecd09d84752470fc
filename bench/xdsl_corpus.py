"""How much of the MLIR text in a folder is read to the IR that xDSL reads, and printed so that it reads back.

    python bench/xdsl_corpus.py FOLDER [--json out.json] [--failures 20] [--only affine]

Every ``.mlir`` file is cut at its ``// -----`` lines. A chunk counts if xDSL's own parser and verifier accept it. It is
*equal* if our parser gives structurally equal operations, and *round-trips* if our pretty and our generic text of it
read back to equal operations and print the same again. The table has a line for each sub-folder of ``dialects``
(other files count under the name of their folder); what failed, and why, is listed by frequency.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from tilewright.core.diagnostics import DiagnosticError
from tilewright.text import parse_module, print_module

_SPLIT = re.compile(r"^\s*// -----.*$", re.MULTILINE)


def make_context(unregistered: bool) -> Context:
    """A context with all of xDSL's dialects."""
    context = Context(allow_unregistered=unregistered)
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    context.load_registered_dialect("builtin")
    return context


def reference(text: str, unregistered: bool) -> ModuleOp | None:
    """What xDSL makes of a text, None if it refuses it."""
    try:
        module = Parser(make_context(unregistered), text).parse_module()
        module.verify()
    except Exception:
        return None
    return module


def read(text: str, unregistered: bool) -> ModuleOp:
    """What we make of it."""
    return parse_module(text, filename="chunk", context=make_context(unregistered))


def judge(text: str, unregistered: bool) -> tuple[str, str] | None:
    """How far a chunk gets (``refused``, ``different``, ``no round trip``, ``ok``), and why; None: xDSL refuses it."""
    expected = reference(text, unregistered)
    if expected is None:
        return None
    try:
        module = read(text, unregistered)
    except DiagnosticError as error:
        return "refused", error.diagnostics[0].message
    except Exception as error:
        return "refused", f"CRASH {type(error).__name__}: {error}"
    if not same(expected, module):
        return "different", first_difference(print_module(expected, generic=True), print_module(module, generic=True))
    for generic in (False, True):
        form = "generic" if generic else "pretty"
        printed = print_module(module, generic=generic)
        try:
            again = read(printed, unregistered)
        except Exception as error:
            return "no round trip", f"{form}: {str(error).splitlines()[0]}"
        if not same(module, again):
            left, right = (print_module(m, generic=True) for m in (module, again))
            return "no round trip", f"{form} differs: {first_difference(left, right)}"
        if print_module(again, generic=generic) != printed:
            return "no round trip", f"{form} text changes"
    return "ok", ""


def same(left: ModuleOp, right: ModuleOp) -> bool:
    """Whether two modules are equal; xDSL's comparison fails on values used before their definition, texts do not."""
    if left.is_structurally_equivalent(right):
        return True
    return print_module(left, generic=True) == print_module(right, generic=True)


def first_difference(left: str, right: str) -> str:
    """The first line in which two texts differ."""
    for a, b in zip(left.splitlines(), right.splitlines()):
        if a != b:
            return f"{a.strip()[:150]}  |  {b.strip()[:150]}"
    return "(equal text)"


def chunks(folder: Path, only: str | None) -> Iterator[tuple[str, str, str, bool]]:
    """Group, name, text and whether unregistered operations are allowed, of every chunk."""
    for path in sorted(folder.rglob("*.mlir")):
        parts = path.relative_to(folder).parts
        inside = parts[parts.index("dialects") + 1 :] if "dialects" in parts[:-1] else ()
        group = inside[0].removesuffix(".mlir") if inside else f"({parts[0]})"
        if only is not None and group != only and only not in str(path):
            continue
        text = path.read_text()
        unregistered = "allow-unregistered" in text
        for number, chunk in enumerate(_SPLIT.split(text)):
            yield group, f"{path.relative_to(folder)}#{number}", chunk, unregistered


_KINDS = ("ok", "no round trip", "different", "refused")


def table(counts: dict[str, Counter[str]]) -> Iterator[str]:
    """Lines of the table, the sum last."""
    yield f"{'':22}{'accepted':>9}{'equal':>7}{'round trip':>12}{'%':>8}"
    total: Counter[str] = Counter()
    for group in sorted(counts):
        total += counts[group]
        yield _line(group, counts[group])
    yield _line("all", total)


def _line(group: str, count: Counter[str]) -> str:
    accepted = sum(count[k] for k in _KINDS)
    equal = count["ok"] + count["no round trip"]
    return f"{group:22}{accepted:9}{equal:7}{count['ok']:12}{100 * count['ok'] / max(1, accepted):8.1f}"


def main() -> None:
    """Runs the measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, help="write counts and failures here")
    parser.add_argument("--failures", type=int, default=20, help="how many kinds of failures to list")
    parser.add_argument("--only", help="one group, or a part of a path")
    args = parser.parse_args()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    failures: list[dict[str, Any]] = []
    for group, name, text, unregistered in chunks(args.folder, args.only):
        verdict = judge(text, unregistered)
        if verdict is None:
            continue
        kind, why = verdict
        counts[group][kind] += 1
        if kind != "ok":
            failures.append({"chunk": name, "kind": kind, "why": why})
    print("\n".join(table(counts)))
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    for failure in failures:
        reasons[failure["kind"], failure["why"]].append(failure["chunk"])
    for (kind, why), names in sorted(reasons.items(), key=lambda item: -len(item[1]))[: args.failures]:
        print(f"{len(names):4} {kind}: {why}  [{names[0]}]", file=sys.stderr)
    if args.json:
        args.json.write_text(json.dumps({"counts": counts, "failures": failures}, indent=1))


if __name__ == "__main__":
    main()
