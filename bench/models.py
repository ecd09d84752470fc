"""Time of whole models against ONNX Runtime: ``python bench/models.py [--models a,b] [--threads 2] [--json FILE]``.

Both run in this process on the same random inputs, in turn (A B A B), with a pause between the turns so that
neither's waiting threads disturb the other. Prints medians and the ratio ours / theirs (below 1 is faster), and
checks that the outputs agree. Models: the ``onnx`` package's light models with random weights
(``tilewright.testing.models``), or any ``.onnx`` files given.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from rich.console import Console
from rich.table import Table

import tilewright
from tilewright.testing.models import light_models, load_randomised, random_inputs

RTOL, ATOL = 1e-3, 1e-4
"""fp32: what rounding in another order of summation may change in networks of this depth."""


@dataclass
class Result:
    """Times in milliseconds; ``ratio`` is ours / ONNX Runtime."""

    model: str
    ours_ms: float
    ort_ms: float
    ratio: float
    compile_s: float
    load_ms: float
    max_error: float
    agrees: bool


def measure(first: Callable[[], object], second: Callable[[], object], seconds: float) -> tuple[float, float]:
    """Median seconds of two calls, run in alternating bursts for about ``seconds`` in all."""
    calls, times = (first, second), ([], [])  # type: tuple[Callable[[], object], ...], tuple[list[float], list[float]]
    deadline = time.perf_counter() + seconds
    rounds = 0
    while rounds < 3 or time.perf_counter() < deadline:
        for call, found in zip(calls, times):
            time.sleep(0.03)
            call()
            for _ in range(4):
                start = time.perf_counter()
                call()
                found.append(time.perf_counter() - start)
        rounds += 1
    return statistics.median(times[0]), statistics.median(times[1])


def bench(name: str, proto: onnx.ModelProto, threads: int, seconds: float, folder: Path) -> Result:
    """Compiles, loads, checks and times one model."""
    source, artefact = folder / f"{name}.onnx", folder / f"{name}.twm"
    onnx.save(proto, source)
    inputs = random_inputs(proto)
    start = time.perf_counter()
    tilewright.compile(source, output=artefact)
    compile_s = time.perf_counter() - start
    start = time.perf_counter()
    model = tilewright.load(artefact)
    load_ms = (time.perf_counter() - start) * 1e3
    tilewright.set_num_threads(threads)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = ort.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    expected = session.run(None, inputs)
    found = list(model.run(inputs).values())
    error = max(float(np.max(np.abs(f - e), initial=0.0)) for f, e in zip(found, expected))
    agrees = all(np.allclose(f, e, rtol=RTOL, atol=ATOL) for f, e in zip(found, expected))
    ours, theirs = measure(lambda: model.run(inputs), lambda: session.run(None, inputs), seconds)
    return Result(name, ours * 1e3, theirs * 1e3, ours / theirs, compile_s, load_ms, error, agrees)


def table_of(results: list[Result], threads: int) -> Table:
    """The results for the terminal."""
    table = Table(title=f"median milliseconds, batch as in the model, {threads} threads")
    for column in ("model", "ours", "ONNX Runtime", "ratio", "compile s", "load ms", "max error", "agrees"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for r in results:
        table.add_row(
            r.model, f"{r.ours_ms:.2f}", f"{r.ort_ms:.2f}", f"{r.ratio:.2f}", f"{r.compile_s:.2f}", f"{r.load_ms:.0f}",
            f"{r.max_error:.1e}", "yes" if r.agrees else "NO",
        )  # fmt: skip
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help=".onnx files instead of the light models")
    parser.add_argument("--models", help="comma-separated names of light models (default: all)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=6.0, help="measuring time per model")
    parser.add_argument("--json", type=Path, help="also write the results here")
    options = parser.parse_args()
    if options.files:
        sources = {path.stem: onnx.load(path) for path in options.files}
    else:
        known = light_models()
        chosen = options.models.split(",") if options.models else list(known)
        unknown = [name for name in chosen if name not in known]
        if unknown:
            parser.error(f"unknown model {', '.join(unknown)}; known: {', '.join(known)}")
        sources = {name: load_randomised(known[name]) for name in chosen}
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name, proto in sources.items():
            results.append(bench(name, proto, options.threads, options.seconds, Path(folder)))
            print(f"{name}: {results[-1].ratio:.2f}x", file=sys.stderr, flush=True)
    Console().print(table_of(results, options.threads))
    if options.json:
        options.json.write_text(json.dumps([asdict(r) for r in results], indent=2))
    return 0 if all(r.agrees for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
