"""Parse and print speed of the text format against xDSL's own parser, on one generated module, in one run.

    python bench/parse.py [--ops 20000] [--repeat 3] [--json out.json]

The module has functions of nested loops over memrefs with integer and float arithmetic, comparisons and branches (func,
scf, arith, memref), as generic and as pretty text. Both parsers read the very same text; runs are interleaved, the
median counts. Prints the time of a first small file in a fresh process as well.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, memref, scf
from xdsl.parser import Parser

from tilewright.text import parse_module, print_module

_BODY = """\
    scf.for %i{k} = %lb to %ub step %one {{
      %j{k} = arith.addi %i{k}, %one : index
      %x{k} = memref.load %a[%i{k}, %j{k}] : memref<128x128xf32>
      %y{k} = memref.load %b[%j{k}, %i{k}] : memref<128x128xf32>
      %p{k} = arith.mulf %x{k}, %y{k} fastmath<contract> : f32
      %q{k} = arith.addf %p{k}, %x{k} : f32
      %c{k} = arith.cmpf olt, %q{k}, %y{k} : f32
      %s{k} = arith.select %c{k}, %q{k}, %p{k} : f32
      %d{k} = arith.cmpi slt, %i{k}, %j{k} : index
      scf.if %d{k} {{
        memref.store %s{k}, %a[%i{k}, %j{k}] : memref<128x128xf32>
      }}
      %r{k} = scf.for %t{k} = %lb to %ub step %one iter_args(%acc{k} = %s{k}) -> (f32) {{
        %v{k} = arith.addf %acc{k}, %x{k} : f32
        scf.yield %v{k} : f32
      }}
      memref.store %r{k}, %b[%j{k}, %i{k}] : memref<128x128xf32>
    }}
"""
_OPS_PER_BODY = 18
_BODIES_PER_FUNCTION = 20


def make_context() -> Context:
    """A context with the dialects of the benchmark."""
    context = Context()
    for dialect in (builtin.Builtin, func.Func, scf.Scf, arith.Arith, memref.MemRef):
        context.load_dialect(dialect)
    return context


def generate(ops: int) -> str:
    """Pretty text of about ``ops`` operations."""
    parts = ["builtin.module {\n"]
    count = max(1, ops // _OPS_PER_BODY)
    for start in range(0, count, _BODIES_PER_FUNCTION):
        arguments = "%a: memref<128x128xf32>, %b: memref<128x128xf32>, %lb: index, %ub: index"
        parts.append(f"  func.func @f{start}({arguments}) {{\n    %one = arith.constant 1 : index\n")
        for k in range(start, min(count, start + _BODIES_PER_FUNCTION)):
            parts.append(_BODY.format(k=k))
        parts.append("    func.return\n  }\n")
    parts.append("}\n")
    return "".join(parts)


def timed(run: Callable[[], Any]) -> float:
    """Processor seconds of one run (both parsers use one thread), garbage collected before."""
    gc.collect()
    start = time.process_time()
    run()
    return time.process_time() - start


def compare(text: str, repeat: int) -> dict[str, float]:
    """Median seconds of both parsers on one text."""
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(repeat):
        ours.append(timed(lambda: parse_module(text, context=make_context())))
        theirs.append(timed(lambda: Parser(make_context(), text).parse_module()))
    a, b = statistics.median(ours), statistics.median(theirs)
    return {"tilewright": a, "xdsl": b, "ratio": a / b}


_SMALL = """
import time, sys
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func
context = Context()
for d in (builtin.Builtin, func.Func, arith.Arith):
    context.load_dialect(d)
start = time.perf_counter()
from tilewright.text import parse_module
imported = time.perf_counter()
text = "func.func @f(%a: f32) -> f32 {\\n  %0 = arith.addf %a, %a : f32\\n  func.return %0 : f32\\n}"
parse_module(text, context=context)
print(imported - start, time.perf_counter() - imported)
"""


def small_file() -> dict[str, float]:
    """Seconds to import the text format and to parse a first small file, in a fresh process with cached tables."""
    subprocess.run([sys.executable, "-c", _SMALL], check=True, capture_output=True)
    out = subprocess.run([sys.executable, "-c", _SMALL], check=True, capture_output=True, text=True).stdout.split()
    return {"import": float(out[0]), "first parse": float(out[1])}


def main() -> None:
    """Runs the benchmark and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ops", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", help="write the figures here")
    args = parser.parse_args()
    pretty = generate(args.ops)
    module = parse_module(pretty, context=make_context())
    generic = print_module(module, generic=True)
    count = sum(1 for _ in module.walk())
    result: dict[str, Any] = {"ops": count, "bytes": {"pretty": len(pretty), "generic": len(generic)}}
    print(f"{count} operations; pretty {len(pretty) / 1e6:.2f} MB, generic {len(generic) / 1e6:.2f} MB")
    for name, text in (("pretty", pretty), ("generic", generic)):
        result[name] = figures = compare(text, args.repeat)
        print(
            f"parse {name:8} tilewright {figures['tilewright']:.2f} s   xdsl {figures['xdsl']:.2f} s   "
            f"ratio {figures['ratio']:.2f}"
        )
    for name, is_generic in (("pretty", False), ("generic", True)):
        ours = timed(lambda g=is_generic: print_module(module, generic=g))  # type: ignore[misc]
        result[f"print {name}"] = ours
        print(f"print {name:8} tilewright {ours:.2f} s")
    result["small file"] = small = small_file()
    print(f"small file: import {small['import'] * 1e3:.0f} ms, first parse {small['first parse'] * 1e3:.0f} ms")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(result, file, indent=2)


if __name__ == "__main__":
    main()
