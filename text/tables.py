"""LALR tables of a grammar: built by Lark, kept on disk, bound to the functions that reduce the rules.

Lark reads the grammar and computes the tables (about .1 s for the generic form, .4 s with ten dialects). What is kept
is not Lark's own pickle but a small JSON record, in a private folder of the user, under the hash of the grammar's
text and of Lark's version, so that a start with known dialects neither imports Lark nor analyses anything.

The token loop that runs the tables is in ``driver.py``; composing the grammar's text is in ``grammar.py``.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__

if TYPE_CHECKING:
    from lark import Lark
    from lark.grammar import Rule

STARTS = ("start", "start_attr", "start_type", "start_region")
END = "$END"
"""Name of the terminal at the end of the text."""
_MOST_FILES = 300
"""Tables that the cache keeps; the oldest go first."""


class GrammarError(Exception):
    """The grammar's text is malformed or ambiguous."""


@dataclass(frozen=True)
class TableRule:
    """One alternative of a rule: ``size`` symbols become one ``origin``, made by the function called ``action``.

    ``keep`` lists the positions of the children that the function gets (-1 stands for an absent ``[optional]``),
    ``splice`` those among them that are lists to be flattened (repetitions)."""

    origin: str
    size: int
    action: str
    keep: tuple[int, ...]
    splice: tuple[int, ...]


@dataclass(frozen=True)
class Tables:
    """Parse tables. A literal terminal is named by its text, any other one by ``$`` and its name.

    ``rows[s]`` and ``gotos[s]`` are flat lists ``[symbol index, action, ...]``; an action ``a >= 0`` shifts to that
    state, ``a < 0`` reduces rule ``-a - 1``."""

    symbols: list[str]
    rules: list[TableRule]
    rows: list[list[int]]
    gotos: list[list[int]]
    start_states: dict[str, int]
    end_states: dict[str, int]
    patterns: dict[str, str]
    """Regular expression of every named terminal that has one."""
    conflicts: list[str]
    """Shift/reduce conflicts that Lark resolved as shift, as ``terminal: rule``."""
    first: dict[str, list[str]]
    """Terminals that may begin a nonterminal, for messages."""

    def row(self, state: int) -> dict[str, int]:
        """Actions of a state by terminal."""
        flat, symbols = self.rows[state], self.symbols
        return {symbols[flat[i]]: flat[i + 1] for i in range(0, len(flat), 2)}

    def goto(self, state: int) -> dict[str, int]:
        """Successor states by nonterminal."""
        flat, symbols = self.gotos[state], self.symbols
        return {symbols[flat[i]]: flat[i + 1] for i in range(0, len(flat), 2)}


def load_tables(grammar: str) -> Tables:
    """Tables of a grammar, from the cache or freshly built. Raises :class:`GrammarError`."""
    path = _cache_path(grammar)
    if path is not None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            return _from_record(json.loads(path.read_text()))
    tables = build_tables(grammar)
    if path is not None:
        _store(path, tables)
    return tables


def build_tables(grammar: str) -> Tables:
    """Lets Lark analyse a grammar."""
    from lark.exceptions import LarkError

    with _conflict_log() as conflicts:
        try:
            parser = _make_lark(grammar)
        except (LarkError, AssertionError) as error:
            raise GrammarError(str(error)) from error
    for conflict in conflicts:
        logging.getLogger(__name__).debug("shift/reduce conflict, shift taken: %s", conflict)
    return _convert(parser, conflicts)


def _make_lark(grammar: str) -> Lark:
    from lark import Lark
    from lark.lexer import Lexer

    class NoLexer(Lexer):
        """The lexer is ours (``driver.py``); Lark shall not build one."""

        def __init__(self, conf: object) -> None: ...

        def lex(self, lexer_state: object, parser_state: object) -> Iterator[Any]:
            raise NotImplementedError

    return Lark(grammar, parser="lalr", lexer=NoLexer, start=list(STARTS), maybe_placeholders=True)


@contextmanager
def _conflict_log() -> Iterator[list[str]]:
    """Collects the shift/reduce conflicts that Lark logs at level debug."""
    from lark.utils import logger

    found: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if text.startswith("Shift/Reduce conflict for terminal "):
                found.append(text.removeprefix("Shift/Reduce conflict for terminal ").split(":")[0])
            elif found and text.startswith(" * "):
                found[-1] += ": " + text.removeprefix(" * ")

    handler, level, propagate = Collect(), logger.level, logger.propagate
    others = logger.handlers[:]
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.DEBUG)
    try:
        yield found
    finally:
        logger.handlers, logger.propagate = others, propagate
        logger.setLevel(level)


def _convert(lark: Lark, conflicts: list[str]) -> Tables:
    from lark.lexer import PatternStr
    from lark.parsers.lalr_analysis import Shift

    table = lark.parser.parser._parse_table
    names = {END: END}
    patterns: dict[str, str] = {}
    for terminal in lark.terminals:
        if isinstance(terminal.pattern, PatternStr):
            names[terminal.name] = terminal.pattern.value
        else:
            names[terminal.name] = f"${terminal.name}"
            patterns[terminal.name] = terminal.pattern.to_regexp()
    rules = list(lark.rules)
    rule_index = {rule: i for i, rule in enumerate(rules)}
    symbols: dict[str, int] = {}
    rows: list[list[int]] = []
    gotos: list[list[int]] = []

    def symbol(name: str) -> int:
        return symbols.setdefault(name, len(symbols))

    for state in range(len(table.states)):
        row: list[int] = []
        goto: list[int] = []
        for name, (act, arg) in table.states[state].items():
            if act is not Shift:
                row += [symbol(names.get(name, f"${name}")), -rule_index[arg] - 1]
            elif name in names or name.isupper():
                row += [symbol(names.get(name, f"${name}")), arg]
            else:
                goto += [symbol(name), arg]
        rows.append(row)
        gotos.append(goto)
    return Tables(
        symbols=list(symbols),
        rules=[_convert_rule(r) for r in rules],
        rows=rows,
        gotos=gotos,
        start_states=dict(table.start_states),
        end_states=dict(table.end_states),
        patterns=patterns,
        conflicts=sorted(set(conflicts)),
        first=_first_sets(rules, names),
    )


def _convert_rule(rule: Rule) -> TableRule:
    """What the function that reduces a rule gets: no literals, None for absent ``[x]``, repetitions flattened."""
    origin = str(rule.origin.name)
    keep: list[int] = []
    splice: list[int] = []
    absent = [0] * (len(rule.expansion) + 1)
    if rule.options.empty_indices:
        runs = "".join(str(int(b)) for b in rule.options.empty_indices).split("0")
        absent = [len(run) for run in runs]
    for i, sym in enumerate(rule.expansion):
        keep += [-1] * absent[i]
        if sym.is_term and sym.filter_out:  # type: ignore[attr-defined]
            continue
        if not sym.is_term and sym.name.startswith("__"):
            splice.append(len(keep))
        keep.append(i)
    keep += [-1] * absent[len(rule.expansion)]
    if rule.alias:
        action = str(rule.alias)
    elif origin.startswith("__"):
        action = "list_of"
    elif len(keep) == 1:
        action = "pass"
    else:
        body = " ".join(s.name for s in rule.expansion)
        raise GrammarError(f"the alternative '{origin}: {body}' has {len(keep)} children and no '-> name'")
    return TableRule(origin, len(rule.expansion), action, tuple(keep), tuple(splice))


def _first_sets(rules: list[Rule], names: dict[str, str]) -> dict[str, list[str]]:
    """Terminals that may begin each of the nonterminals that messages have a word for."""
    expansions: dict[str, list[Any]] = {}
    for rule in rules:
        expansions.setdefault(str(rule.origin.name), []).append(rule.expansion)
    first: dict[str, set[str]] = {name: set() for name in expansions}
    nullable = {name for name, bodies in expansions.items() if any(not body for body in bodies)}
    changed = True
    while changed:
        changed = False
        for name, bodies in expansions.items():
            for body in bodies:
                for sym in body:
                    new = {names.get(sym.name, f"${sym.name}")} if sym.is_term else first[str(sym.name)]
                    if not new <= first[name]:
                        first[name] |= new
                        changed = True
                    if sym.is_term or str(sym.name) not in nullable:
                        break
    wanted = ("op_body", "attr", "type", "nonfn_type", "number", "expr")
    return {name: sorted(first[name]) for name in wanted if name in first}


# ---- the cache ----


def cache_folder() -> Path | None:
    """Private folder for tables (``TILEWRIGHT_CACHE_DIR``, else ``~/.cache/tilewright``), None where there is none.

    A folder that others may write to, or that belongs to somebody else, is not used."""
    base = os.environ.get("TILEWRIGHT_CACHE_DIR")
    try:
        folder = (Path(base) if base else Path.home() / ".cache" / "tilewright") / "grammar"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = folder.stat()
    except (OSError, RuntimeError):
        return None
    if hasattr(os, "getuid") and (info.st_uid != os.getuid() or stat.S_IMODE(info.st_mode) & 0o022):
        return None
    return folder


def _cache_path(grammar: str) -> Path | None:
    folder = cache_folder()
    if folder is None:
        return None
    maker = Path(__file__).read_text() if Path(__file__).is_file() else __version__
    from importlib.metadata import version  # Slow to import, and only a text that is read needs it.

    key = f"{maker}\0{version('lark')}\0{sys.version_info[:2]}\0{grammar}"
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def _store(path: Path, tables: Tables) -> None:
    record = {
        "symbols": tables.symbols,
        "rules": [[r.origin, r.size, r.action, r.keep, r.splice] for r in tables.rules],
        "rows": tables.rows,
        "gotos": tables.gotos,
        "start_states": tables.start_states,
        "end_states": tables.end_states,
        "patterns": tables.patterns,
        "conflicts": tables.conflicts,
        "first": tables.first,
    }
    with suppress(OSError):
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w") as file:
            json.dump(record, file, separators=(",", ":"))
        os.replace(temporary, path)
        files = sorted(path.parent.iterdir(), key=lambda p: p.stat().st_mtime)
        for old in files[:-_MOST_FILES]:
            old.unlink(missing_ok=True)


def _from_record(record: dict[str, Any]) -> Tables:
    rules = [TableRule(o, n, a, tuple(k), tuple(s)) for o, n, a, k, s in record.pop("rules")]
    return Tables(rules=rules, **record)
