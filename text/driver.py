"""The token loop: cuts a text into tokens and runs Lark's LALR tables over them, calling the builder for each rule.

Lark's own lexer and parser do the same at half the speed. What this loop adds to LALR:

- one regular expression cuts every token, whatever the state; only the few terminals that it does not know (``4x8x``
  after ``tensor<``) are tried first, in states that accept them;
- a word is a keyword if the state accepts that keyword, else the name of an operation if the state accepts its class of
  operations, else a scalar type, else an identifier: no word is reserved;
- operations of one shape share a terminal, looked up from the word (``Vocabulary.op_terminal``), so that tables depend
  on the shapes and not on the names;
- ``#dialect.attr`` and ``!dialect.type`` become one of a few terminals, by how the class is written; where the class is
  parsed by xDSL itself the token is the whole ``#dialect.attr<...>``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, Protocol

from .tables import END, Tables

MAX_DEPTH = 50_000
"""Bound on the parser's stack, thousands of nested regions."""
MAX_ATTRIBUTE_DEPTH = 100
"""Bound on brackets nested in an attribute or type: hashing and comparing those recurses on Python's stack."""


class Token(str):
    """Text of a token, with the place where it begins."""

    __slots__ = ("pos",)
    pos: int


def make_token(text: str, pos: int) -> Token:
    """A token with a position."""
    token = Token(text)
    token.pos = pos
    return token


class SyntaxFault(Exception):
    """The text is malformed at ``pos``; becomes a diagnostic in ``errors.py``."""

    def __init__(
        self, message: str, token: Token | int, length: int = 1, notes: Sequence[tuple[str, Any]] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.pos = token if isinstance(token, int) else token.pos
        self.length = length if isinstance(token, int) else max(1, len(token))
        self.notes = tuple(notes)
        self.doubtful = False
        """It follows from an error before, and is not reported."""
        self.fatal = False
        """The rest of the text is not read."""
        """Related places: a message, and a position or a location."""


def fatal_fault(message: str, token: Token | int) -> SyntaxFault:
    """A fault after which the rest of the text is not read."""
    fault = SyntaxFault(message, token)
    fault.fatal = True
    return fault


class Unexpected(Exception):
    """The tables have no action for a token."""

    def __init__(self, states: list[int], values: list[Any], token: Token, kind: str) -> None:
        super().__init__(f"unexpected {kind} {token!r}")
        self.states, self.values, self.token, self.kind = states, values, token, kind


class Vocabulary(Protocol):
    """What the words of a text stand for; implemented by ``grammar.Language``."""

    def op_terminal(self, name: str) -> str | None:
        """Terminal of an operation's pretty form, None if it has none."""

    def attr_terminal(self, name: str, is_type: bool) -> str | None:
        """Terminal of an attribute's or type's class (see ``core.lark``), None if there is no such class."""

    def attr_end(self, text: str, start: int, stop: int) -> int:
        """Where an attribute ends that parses itself; ``stop`` unless it reads on after its brackets."""

    def unknown_attr(self, name: str, is_type: bool) -> str:
        """Message for a name that has no class."""


class HasVocabulary(Protocol):
    """The builder, as far as the loop knows it: the functions that reduce rules get it as their first argument."""

    dialect_stack: list[str]
    """Dialects of the operations around the text being parsed."""

    @property
    def vocabulary(self) -> Vocabulary:
        """What the text's words stand for."""

    def recover(
        self, driver: Driver, fault: SyntaxFault | Unexpected, states: list[int], values: list[Any], place: int
    ) -> int | None:
        """Keeps an error, and says where to go on; None to give up."""

    def parse_foreign(self, name: Token, pos: int, dialects: list[str]) -> tuple[Any, int]:
        """Reads an operation that parses itself; gives it and where its text ends."""


def describe(error: Exception) -> str:
    """One line that says what a constructor or verifier of an operation or attribute refused."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    text = getattr(error, "msg", None) or str(error)
    lines = [line.strip() for line in str(text).splitlines() if line.strip(" -^|")]
    return lines[0] if lines else type(error).__name__


_SPACE = r"[ \t\r\n]*+(?://[^\n]*+[ \t\r\n]*+)*+"
"""Possessive: at the end of a file nothing follows, and backtracking would take tokens out of a comment."""
_GROUPS = ("PCT_ID", "BARE_ID", "STRING", "FLOAT", "HEX", "INT", "HASH_NUM", "HASH", "BANG", "AT_ID", "CARET_ID")
_KINDS = ("", *(f"${group}" for group in _GROUPS))
_WORD_GROUP = 1 + _GROUPS.index("BARE_ID")
_ATTRIBUTE_GROUPS = (1 + _GROUPS.index("HASH"), 1 + _GROUPS.index("BANG"))
_PUNCTUATION_GROUP = 1 + len(_GROUPS)
_DIALECT_NAME = r"[a-zA-Z$._-][\w$.-]*"
_PUNCTUATION = r"->|::|>=|<=|==|\.\.\.|\{-#|#-\}|[^\w\s]"
_MORE = re.compile(r"\s*[:{\[(]").match
"""What a few attributes read after their brackets, or instead of them."""
_CLOSERS = {">": "<", ")": "(", "]": "[", "}": "{"}


@cache
def _master(patterns: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    known = dict(patterns) | {"HASH": r"#(?!-\})" + _DIALECT_NAME, "BANG": f"!{_DIALECT_NAME}"}
    return re.compile(_SPACE + "(?:" + "|".join(f"({known[g]})" for g in _GROUPS) + f"|({_PUNCTUATION}))", re.ASCII)


def scan_balanced(text: str, pos: int) -> int:
    """End of the balanced ``<...>`` (or other bracket) that begins at ``pos``; -1 if it does not close."""
    nesting: list[str] = []
    matcher = re.compile(r'[<>()\[\]{}]|->|"(?:[^"\\]|\\.)*"|"')
    while True:
        match = matcher.search(text, pos)
        if match is None:
            return -1
        found, pos = match[0], match.end()
        if found in "<([{":
            nesting.append(found)
        elif found in _CLOSERS:
            if nesting.pop() != _CLOSERS[found]:
                return -1
            if not nesting:
                return pos
        elif found == '"':
            return -1


# How a rule is reduced: codes for the loop below.
_CALL, _CALL_SOME, _PASS, _ONE, _APPEND, _EMPTY, _SLOW, _FOREIGN = range(8)
Reduction = tuple[int, int, Any, Any, str]
RECOVERING = ("start", "start_region")
"""What is read on after an error."""
FOREIGN = "$OP_FOREIGN"
"""Terminal of operations that parse themselves (``foreign.py``)."""


class Driver:
    """Runs one grammar's tables; keeps no state of a text. ``resolve`` gives the function of an action's name."""

    def __init__(self, tables: Tables, resolve: Callable[[str], Callable[..., Any]]) -> None:
        self.tables = tables
        core = tuple((g, tables.patterns[g]) for g in _GROUPS if g in tables.patterns)
        self._match = _master(core).match
        self._resolve = resolve
        count = len(tables.rows)
        self._actions: list[dict[str, Any] | None] = [None] * count
        self._gotos: list[dict[str, int]] = [{}] * count
        self._defaults: list[Reduction | None] = [None] * count
        self._special: list[Callable[[str, int, int], re.Match[str] | None] | None] = [None] * count
        self._reductions: list[Reduction | None] = [None] * len(tables.rules)
        scalar = tables.patterns.get("SCALAR")
        self._scalar = re.compile(scalar, re.ASCII).fullmatch if scalar else None
        contextual = [n for n in tables.patterns if n not in _GROUPS and n != "SCALAR"]
        self._contextual = {f"${n}": n for n in contextual if not self._is_literal(n)}
        self._words: dict[str, str] = {}

    def _is_literal(self, name: str) -> bool:
        return f"${name}" not in self.tables.symbols

    # ---- binding of states and rules, on first use ----

    def _reduction(self, index: int) -> Reduction:
        found = self._reductions[index]
        if found is None:
            found = self._reductions[index] = self._bind_rule(index)
        return found

    def _bind_rule(self, index: int) -> Reduction:
        rule = self.tables.rules[index]
        size, keep = rule.size, rule.keep
        if rule.action == "pass" and not rule.splice and keep[0] >= 0:
            return size, _PASS, None, keep[0] - size, rule.origin
        if rule.splice or -1 in keep or rule.action in ("list_of", "pass"):
            function = {"list_of": _list_of, "pass": _first}.get(rule.action) or self._resolve(rule.action)
            return size, _SLOW, function, (keep, frozenset(rule.splice)), rule.origin
        if rule.action == "list_one":
            return size, _ONE, None, keep[0] - size, rule.origin
        if rule.action == "list_app":
            return size, _APPEND, None, None, rule.origin
        if rule.action == "list_empty":
            return size, _EMPTY, None, None, rule.origin
        function = self._resolve(rule.action)
        if len(keep) == size:
            return size, _CALL, function, None, rule.origin
        if len(keep) == 0:
            return size, _CALL_SOME, function, _nothing, rule.origin
        if len(keep) == 1:
            return size, _CALL_SOME, function, itemgetter(slice(keep[0], keep[0] + 1)), rule.origin
        return size, _CALL_SOME, function, itemgetter(*keep), rule.origin

    def _bind_state(self, state: int) -> dict[str, Any]:
        actions: dict[str, Any] = {}
        for name, act in self.tables.row(state).items():
            actions[name] = act if act >= 0 else self._reduction(-act - 1)
        if type(actions.get(FOREIGN)) is int:
            actions[FOREIGN] = (0, _FOREIGN, None, actions[FOREIGN], "")
        first = next(iter(actions.values()), None)
        # At the end of the text a token must be read. After a region anything may follow: an operation that parses
        # itself knows what.
        if type(first) is tuple and (END not in actions or first[4] == "region"):
            self._defaults[state] = first if all(a is first for a in actions.values()) else None
        special = [self._contextual[n] for n in actions if n in self._contextual]
        if special:
            patterns = (f"(?P<{n}>{self.tables.patterns[n]})" for n in sorted(special))
            self._special[state] = re.compile(_SPACE + "(?:" + "|".join(patterns) + ")", re.ASCII).match
        self._gotos[state] = self.tables.goto(state)
        self._actions[state] = actions
        return actions

    # ---- the loop ----

    def parse(
        self, text: str, builder: HasVocabulary, start: str = "start", pos: int = 0, end: int | None = None
    ) -> Any:
        """Parses ``text[pos:end]``, reducing with ``builder``; raises :class:`SyntaxFault` or :class:`Unexpected`."""
        final = self.tables.end_states[start]
        return self._parse(text, builder, start, pos, len(text) if end is None else end, final)[0]

    def parse_prefix(self, text: str, builder: HasVocabulary, start: str, pos: int) -> tuple[Any, int]:
        """Parses as much of ``text[pos:]`` as ``start`` wants, and says where it ends."""
        symbol = start.removeprefix("start_")
        final = self.tables.goto(self.tables.start_states[start])[symbol]
        return self._parse(text, builder, start, pos, len(text), final)

    def _parse(self, text: str, builder: HasVocabulary, start: str, pos: int, end: int, final: int) -> tuple[Any, int]:
        place = [pos]
        states: list[int] = [self.tables.start_states[start]]
        values: list[Any] = []
        prefix = final != self.tables.end_states[start]
        fault: SyntaxFault | Unexpected
        while True:
            try:
                return self._run(text, builder, states, values, pos, end, final, prefix, place)
            except (SyntaxFault, Unexpected) as error:
                fault = error
            except Exception as error:
                fault = SyntaxFault(describe(error), place[0])
                fault.fatal = isinstance(error, RecursionError | MemoryError)
                fault.__cause__ = error
            resumed = builder.recover(self, fault, states, values, place[0]) if start in RECOVERING else None
            if resumed is None:
                raise fault
            pos = place[0] = resumed

    def _run(
        self,
        text: str,
        builder: HasVocabulary,
        states: list[int],
        values: list[Any],
        pos: int,
        end: int,
        final: int,
        prefix: bool,
        place: list[int],
    ) -> tuple[Any, int]:
        vocabulary = builder.vocabulary
        all_actions, all_gotos, defaults, lex = self._actions, self._gotos, self._defaults, self._lex
        state = states[-1]
        limit = MAX_ATTRIBUTE_DEPTH
        kind = ""  # of the token read ahead, "" where none is
        token: Any = None
        act: Any
        while True:
            actions = all_actions[state]
            if actions is None:
                actions = self._bind_state(state)
            act = None if kind else defaults[state]
            if act is None:
                if not kind:
                    kind, token, pos = lex(text, pos, end, state, actions, vocabulary)
                    place[0] = pos - len(token)
                act = actions.get(kind)
                if act is None:
                    kind, token, pos = self._second_reading(text, kind, token, pos, states, values, actions, builder)
                    act = actions[kind]
                if type(act) is int:
                    states.append(act)
                    values.append(token)
                    state = act
                    kind = ""
                    if len(states) > limit:
                        limit = _check_nesting(values, pos)
                    continue
            size, code, function, aux, origin = act
            if code == _PASS:
                value = values[aux]
            elif code == _CALL:
                value = function(builder, *values[-size:]) if size else function(builder)
            elif code == _CALL_SOME:
                value = function(builder, *aux(values[-size:]))
            elif code == _APPEND:
                value = values[-size]
                value.append(values[-1])
            elif code == _ONE:
                value = [values[aux]]
            elif code == _EMPTY:
                value = []
            elif code == _FOREIGN:
                token, pos = builder.parse_foreign(token, pos, self._dialects_around(states, values))
                states.append(aux)
                values.append(token)
                state = aux
                kind = ""
                continue
            else:
                value = function(builder, *_arguments(values[-size:] if size else [], aux))
            if size:
                del values[-size:]
                del states[-size:]
            state = all_gotos[states[-1]][origin]
            states.append(state)
            values.append(value)
            if state == final and (prefix or kind == END):
                return value, place[0] if kind else pos

    # ---- tokens ----

    def _lex(
        self, text: str, pos: int, end: int, state: int, actions: dict[str, Any], vocabulary: Vocabulary
    ) -> tuple[str, Any, int]:
        """The next token: its terminal, its text and where it ends."""
        found: Any
        special = self._special[state]
        if special is not None and (found := special(text, pos, end)) is not None:
            name = str(found.lastgroup)
            return f"${name}", make_token(found[name], found.start(name)), found.end()
        found = self._match(text, pos, end)
        if found is None:
            kind, token = self._at_end(text, pos, end)
            return kind, token, end
        group, pos = found.lastindex, found.end()
        word = found[group]
        if group == _PUNCTUATION_GROUP:
            if word not in actions and len(word) > 1:
                return word[0], word[0], pos + 1 - len(word)
            return word, word, pos
        token = Token(word)
        token.pos = pos - len(word)
        if group == _WORD_GROUP:
            return word if word in actions else self._word_kind(word, actions, vocabulary), token, pos
        if group in _ATTRIBUTE_GROUPS:
            kind, token = self._attr_kind(text, token, end, vocabulary)
            return kind, token, token.pos + len(token)
        return _KINDS[group], token, pos

    def _at_end(self, text: str, pos: int, end: int) -> tuple[str, Token]:
        """The end of the text, or a character that begins no token."""
        space = re.compile(_SPACE).match(text, pos, end)
        pos = space.end() if space else pos
        if pos < end:
            raise SyntaxFault(f"unexpected character {text[pos]!r}", pos)
        return END, make_token("", len(text[:end].rstrip()))

    def _word_kind(self, word: str, actions: dict[str, Any], vocabulary: Vocabulary) -> str:
        """A word that is no keyword here: operation, scalar type or identifier."""
        kind = vocabulary.op_terminal(word)
        if kind is not None and kind in actions:
            return kind
        if "$SCALAR" in actions and self._scalar and self._scalar(word):
            return "$SCALAR"
        return "$BARE_ID"

    def _attr_kind(self, text: str, token: Token, end: int, vocabulary: Vocabulary) -> tuple[str, Token]:
        """An alias, or a dialect's attribute or type."""
        is_type = token[0] == "!"
        stop = token.pos + len(token)
        opaque = "." not in token
        if opaque and text[stop : stop + 1] != "<":
            return ("$BANG_ALIAS" if is_type else "$HASH_ALIAS"), token
        kind = "$TYPE_RAW" if is_type else "$ATTR_RAW"
        if not opaque:
            found = vocabulary.attr_terminal(token[1:], is_type)
            if found is None:
                raise SyntaxFault(vocabulary.unknown_attr(token[1:], is_type), token)
            if found != kind:
                return found, token
        if text[stop : stop + 1] == "<":
            stop = scan_balanced(text, stop)
            if stop < 0 or stop > end:
                raise SyntaxFault(f"unbalanced brackets after '{token}'", token)
        if _MORE(text, stop, end) is not None:
            stop = vocabulary.attr_end(text, token.pos, stop)
        return kind, make_token(text[token.pos : stop], token.pos)

    def _second_reading(
        self,
        text: str,
        kind: str,
        token: Any,
        pos: int,
        states: list[int],
        values: list[Any],
        actions: dict[str, Any],
        builder: HasVocabulary,
    ) -> tuple[str, Token, int]:
        """Another reading of a token that the state does not accept; :class:`Unexpected` if there is none."""
        if kind == "$BARE_ID" and "." not in token:
            for dialect in reversed([*builder.dialect_stack, *self._dialects_around(states, values)]):
                found = builder.vocabulary.op_terminal(f"{dialect}.{token}")
                if found is not None and found in actions:
                    return found, make_token(f"{dialect}.{token}", token.pos), pos
        if kind == "<" and "$ANGLE_BODY" in actions:
            stop = scan_balanced(text, pos - 1)
            if stop > 0:
                return "$ANGLE_BODY", make_token(text[pos - 1 : stop], pos - 1), stop
        if not isinstance(token, Token):
            token = make_token(token, pos - len(token))
        raise Unexpected(states, values, token, kind)

    def _dialects_around(self, states: list[int], values: list[Any]) -> list[str]:
        """Dialects of the operations whose regions are open, outermost first."""
        found: list[str] = []
        name = ""
        for before, state, value in zip(states, states[1:], values):
            if type(value) is Token and "." in value and (value[0] == '"' or value[0].isalpha()):
                name = value
            elif self._gotos[before].get("region_open") == state:
                found.append(name.lstrip('"').partition(".")[0])
        return found

    # ---- for messages ----

    def accepted(self, states: list[int]) -> list[str]:
        """Terminals that could come next after these states."""
        top = self.tables.row(states[-1])
        return [name for name in top if self.accepts(states, name)]

    def accepts(self, states: list[int], name: str) -> bool:
        """Whether a terminal could come next after these states."""
        states = list(states)
        for _ in range(10_000):
            act = self.tables.row(states[-1]).get(name)
            if act is None:
                return False
            if act >= 0:
                return True
            rule = self.tables.rules[-act - 1]
            if rule.size:
                del states[-rule.size :]
            after = self.tables.goto(states[-1]).get(rule.origin)
            if after is None:
                return True
            states.append(after)
        return False


def _check_nesting(values: list[Any], pos: int) -> int:
    """Refuses too deep nesting; gives the stack's depth at which to look again."""
    if len(values) > MAX_DEPTH:
        raise fatal_fault("nested too deeply", pos)
    for bracket in ("[", "<", "{", "->"):
        if sum(type(v) is str and v == bracket for v in values) > MAX_ATTRIBUTE_DEPTH:
            raise fatal_fault(f"more than {MAX_ATTRIBUTE_DEPTH} nested '{bracket}' in an attribute or type", pos)
    return len(values) * 5 // 4 + MAX_ATTRIBUTE_DEPTH


def _nothing(_: Any) -> tuple[()]:
    return ()


def _list_of(_: object, *items: Any) -> list[Any]:
    return list(items)


def _first(_: object, item: Any) -> Any:
    return item


def _arguments(children: list[Any], aux: tuple[tuple[int, ...], frozenset[int]]) -> list[Any]:
    keep, splice = aux
    out: list[Any] = []
    for n, i in enumerate(keep):
        if i < 0:
            out.append(None)
        elif n in splice:
            out.extend(children[i])
        else:
            out.append(children[i])
    return out
