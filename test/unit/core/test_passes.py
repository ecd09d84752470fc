"""Passes: options, pipelines, the manager, analyses, instrumentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.parser import Parser

from tilewright.core.analysis import Analysis
from tilewright.core.context import TilewrightContext, make_context
from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.instrumentation import PrintIR, Reproducer, Timing
from tilewright.core.pass_manager import InternalPassError, PassManager, run_pipeline
from tilewright.core.passes import FunctionPass, ModulePass, option_summary
from tilewright.core.pipeline import build_pipeline, parse_pipeline, print_pipeline


class OpCount(Analysis):
    runs = 0

    def __init__(self, count: int) -> None:
        self.count = count

    @classmethod
    def compute(cls, op: Operation) -> OpCount:
        OpCount.runs += 1
        return cls(sum(1 for _ in op.walk()))


@dataclass(frozen=True)
class MarkPass(ModulePass):
    """(module) --> (module with attribute ``mark``)"""

    name = "test-mark"
    text: str = "x"
    sizes: tuple[int, ...] = ()
    level: int | None = None
    mode: Literal["a", "b"] = "a"
    fast: bool = False
    scale: float = 1.0

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        op.attributes["mark"] = StringAttr(self.text)


@dataclass(frozen=True)
class NamePass(FunctionPass):
    name = "test-name"
    suffix: str

    def apply_to_function(self, ctx: TilewrightContext, func: Operation) -> None:
        func.properties["sym_name"] = StringAttr(func.properties["sym_name"].data + self.suffix)


@dataclass(frozen=True)
class CountPass(ModulePass):
    name = "test-count"
    preserves = "all"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        ctx.analyses.get(OpCount, op)


@dataclass(frozen=True)
class CrashPass(ModulePass):
    name = "test-crash"

    def apply(self, ctx: TilewrightContext, op: ModuleOp) -> None:
        raise KeyError("oops")


@dataclass(frozen=True)
class BreakPass(FunctionPass):
    name = "test-break"

    def apply_to_function(self, ctx: TilewrightContext, func: Operation) -> None:
        func.regions[0].blocks[0].last_op.detach()


@pytest.fixture
def ctx() -> TilewrightContext:
    context = make_context()
    for cls in (MarkPass, NamePass, CountPass, CrashPass, BreakPass):
        context.registry.add_pass(cls)
    context.registry.add_pipeline("test-both", ("test-mark{text=both}", "test-name{suffix=1}"))
    return context


def module(ctx: TilewrightContext) -> ModuleOp:
    text = "func.func @f() { func.return } func.func private @g() -> () func.func @h() { func.return }"
    return Parser(ctx, text).parse_module()


def names(op: ModuleOp) -> list[str]:
    return [child.properties["sym_name"].data for child in op.body.block.ops]


def test_options_are_converted_and_printed(ctx: TilewrightContext) -> None:
    text = 'test-mark{text="a b" sizes=8,16 level=3 mode=b fast scale=2.5}'
    (item,) = build_pipeline(text, ctx.registry)
    assert item == MarkPass("a b", (8, 16), 3, "b", True, 2.5)
    assert build_pipeline(item.spec(), ctx.registry) == (item,)
    assert MarkPass().spec() == "test-mark"
    assert ("sizes", "tuple[int, ...]", '""') in option_summary(MarkPass)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("test-mark{level=x}", "option 'level' of pass 'test-mark' takes int | None, found 'x'"),
        ("test-mark{levels=1}", "pass 'test-mark' has no option 'levels'"),
        ("test-mark{mode=c}", "option 'mode' of pass 'test-mark' takes Literal['a', 'b'], found 'c'"),
        ("test-name", "pass 'test-name' needs the option 'suffix'"),
        ("test-marc", "unknown pass 'test-marc', did you mean 'test-mark'?"),
        ("test-mark{fast fast}", "option 'fast' is given twice"),
        ("test-mark,", "expected a pass name, found the end"),
        ("test-mark{", "expected an option or '}', found the end"),
        ("test-mark}", "expected ',', found '}'"),
        ('test-mark{text="}', "unterminated string"),
        ("func.func(test-mark)", "'test-mark' is no function pass, it cannot run on func.func"),
        ("test-both{x=1}", "pipeline 'test-both' takes no options"),
        ("(" * 100, "expected a pass name"),
        ("a(" * 100, "fewer nested groups"),
    ],
)
def test_pipeline_errors(ctx: TilewrightContext, text: str, message: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        build_pipeline(text, ctx.registry)
    assert message in caught.value.diagnostics[0].message
    assert caught.value.diagnostics[0].position is not None


def test_pipeline_round_trip(ctx: TilewrightContext) -> None:
    text = "test-mark{sizes=1,2},func.func(test-name{suffix=a},test-name{suffix=b})"
    items = build_pipeline(text, ctx.registry)
    assert print_pipeline(items) == text
    assert [s.name for s in parse_pipeline(f"builtin.module({text})")] == ["test-mark", "func.func"]


def test_run_nested_and_named_pipelines(ctx: TilewrightContext) -> None:
    op = module(ctx)
    run_pipeline(op, "test-both,func.func(test-name{suffix=a},test-name{suffix=b})", ctx, verify_each=True)
    assert names(op) == ["f1ab", "g", "h1ab"]
    assert op.attributes["mark"] == StringAttr("both")


def test_analyses_are_cached_and_invalidated(ctx: TilewrightContext) -> None:
    OpCount.runs = 0
    run_pipeline(module(ctx), "test-count,test-count,test-mark,test-count", ctx)
    assert OpCount.runs == 2


def test_verify_each_names_the_fault(ctx: TilewrightContext) -> None:
    with pytest.raises(DiagnosticError, match="has an empty block"):
        run_pipeline(module(ctx), "test-break", ctx, verify_each=True)


def test_a_bug_in_a_pass_names_the_pass(ctx: TilewrightContext) -> None:
    with pytest.raises(InternalPassError, match="internal error in pass 'test-crash': KeyError: 'oops'"):
        run_pipeline(module(ctx), "test-crash", ctx)


def test_instrumentation(ctx: TilewrightContext) -> None:
    out: list[str] = []
    timing = Timing()
    printer = PrintIR(lambda op: f"<{op.name}>", out.append, before_passes={"test-name"}, after_passes=None)
    PassManager(ctx, "test-mark,test-name{suffix=a}", instrumentations=[printer, timing]).run(module(ctx))
    assert [text.splitlines()[0] for text in out] == [
        "// -----// IR Dump After test-mark //----- //",
        "// -----// IR Dump Before test-name //----- //",
        "// -----// IR Dump After test-name //----- //",
    ]
    assert "test-mark" in timing.report() and timing.seconds["test-name"][2] == 1


def test_passes_of_an_xdsl_universe(ctx: TilewrightContext) -> None:
    from xdsl.transforms.canonicalize import CanonicalizePass
    from xdsl.universe import Universe

    ctx.registry.add_universe("plugin x", Universe(all_passes={"canonicalize": lambda: CanonicalizePass}))
    text = "func.func @f(%a: i32) { %b = arith.addi %a, %a : i32 func.return }"
    op = Parser(ctx, text).parse_module()
    run_pipeline(op, "canonicalize", ctx, verify_each=True)
    assert "arith.addi" not in str(op)
    with pytest.raises(DiagnosticError, match="pass 'canonicalize' has no option 'x'"):
        build_pipeline("canonicalize{x=1}", ctx.registry)


def test_reproducer_holds_the_rest_of_the_pipeline(ctx: TilewrightContext) -> None:
    out: list[str] = []
    reproducer = Reproducer(lambda op: str(op.attributes.get("mark")), out.append)
    with pytest.raises(InternalPassError):
        run_pipeline(module(ctx), "test-mark{text=m},test-crash,test-count", ctx, instrumentations=[reproducer])
    assert 'tilewright-opt -p "test-crash,test-count"' in out[0] and '"m"' in out[0]
