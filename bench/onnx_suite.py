"""Runs the test suite of the ``onnx`` package against the ONNX backend, and counts per operator.

Each test runs in a child process with a time limit, so that a crash or a hang costs one test. A test is *passed*
(right values), *unsupported* (a diagnostic names what is missing), *failed* (wrong values), or *error* (an exception, a
crash, a time-out). The last two are faults.

    python bench/onnx_suite.py [--interpreter] [--kind node] [--filter conv] [--json suite.json]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
import warnings
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("node", "simple", "real", "pytorch-converted", "pytorch-operator")
STATES = ("passed", "unsupported", "failed", "error")


@dataclass
class Outcome:
    """What became of one test."""

    name: str
    kind: str
    operator: str
    state: str
    message: str = ""
    seconds: float = 0.0


def load_tests(kinds: list[str], pattern: str) -> list[tuple[str, Any]]:
    """Pairs of kind and test case."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [(k, t) for k in kinds for t in load_model_tests(kind=k) if pattern in t.name]


def model_and_data(test: Any) -> tuple[Any, list[tuple[list[Any], list[Any]]]]:
    """The model and its data sets, wherever they are stored."""
    import onnx

    if test.model is not None:
        return test.model, test.data_sets
    if test.model_dir is None:
        return _light_model(test)
    folder = Path(test.model_dir)
    model = onnx.load(str(folder / "model.onnx"))
    sets = []
    for data in sorted(folder.glob("test_data_set*")):
        sets.append((_read(data, "input", model.graph.input), _read(data, "output", model.graph.output)))
    return model, sets


def _light_model(test: Any) -> tuple[Any, list[tuple[list[Any], list[Any]]]]:
    """A model of the light collection: the suite's own dummy input, and the outputs stored beside the model."""
    import onnx
    from onnx.backend.test.runner import Runner

    path = Path(onnx.__file__).parents[1] / test.url
    model = onnx.load(str(path))
    initializers = {t.name for t in model.graph.initializer}
    infos = [i for i in model.graph.input if i.name not in initializers]
    inputs = [Runner.generate_dummy_data(i, seed=0, name=test.model_name, random=False) for i in infos]
    outputs = []
    for i in range(len(model.graph.output)):
        stored = path.with_name(f"{path.stem}_output_{i}.pb")
        outputs.append(onnx.numpy_helper.to_array(onnx.load_tensor(str(stored))))
    return model, [(inputs, outputs)]


def _read(folder: Path, prefix: str, infos: Any) -> list[Any]:
    import onnx

    values: list[Any] = []
    for i in range(len(list(folder.glob(f"{prefix}_*.pb")))):
        data = (folder / f"{prefix}_{i}.pb").read_bytes()
        if infos[i].type.HasField("tensor_type"):
            values.append(onnx.numpy_helper.to_array(onnx.load_tensor_from_string(data)))
        else:
            values.append(data)
    return values


def run_test(test: Any, executor: str) -> tuple[str, str]:
    """State and message of one test, in this process."""
    from onnx import TensorProto, numpy_helper
    from onnx.backend.test.runner import Runner

    from tilewright.core.diagnostics import DiagnosticError
    from tilewright.frontends.onnx.backend import TilewrightBackend

    def array(value: Any) -> Any:
        return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value

    try:
        model, sets = model_and_data(test)
        prepared = TilewrightBackend.prepare(model, "CPU", executor=executor)
        for inputs, expected in sets:
            outputs = prepared.run([array(v) for v in inputs])
            try:
                Runner.assert_similar_outputs([array(v) for v in expected], list(outputs), test.rtol, test.atol)
            except (AssertionError, TypeError) as problem:
                return "failed", str(problem).strip()
    except DiagnosticError as problem:
        message = str(problem)
        refused = any(words in message for words in ("not supported", "has no lowering"))
        return ("unsupported" if refused else "error"), message
    except Exception as problem:
        return "error", f"{type(problem).__name__}: {problem}"
    return "passed", ""


def _serve(tests: list[tuple[str, Any]], executor: str, pipe: Connection) -> None:
    warnings.simplefilter("ignore")
    while True:
        index = pipe.recv()
        if index is None:
            return
        pipe.send(run_test(tests[index][1], executor))


class Worker:
    """A child process that runs tests one after the other; it is replaced when it dies or hangs."""

    def __init__(self, tests: list[tuple[str, Any]], executor: str) -> None:
        self._tests = tests
        self._executor = executor
        self._process: Any = None
        self._pipe: Any = None

    def run(self, index: int, limit: float) -> tuple[str, str]:
        if self._process is None:
            self._start()
        self._pipe.send(index)
        try:
            if self._pipe.poll(limit):
                state, message = self._pipe.recv()
                return state, message
            reason = f"no result within {limit:g} s"
        except (EOFError, ConnectionError):
            self._process.join()
            reason = f"the process died with exit code {self._process.exitcode}"
        self.stop()
        return "error", reason

    def _start(self) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._tests, self._executor, other), daemon=True)
        self._process.start()
        other.close()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process = None


def operator_of(kind: str, test: Any) -> str:
    """The operator that a test is about: its one node's, or the kind of the test."""
    if test.model is not None and len(test.model.graph.node) == 1:
        return str(test.model.graph.node[0].op_type)
    if test.model is not None and test.name.endswith("_expanded"):
        return "(expanded)"
    return f"({kind})"


def run_suite(tests: list[tuple[str, Any]], executor: str, limit: float, verbose: bool = False) -> list[Outcome]:
    """Runs all tests in order; progress goes to the standard error."""
    worker = Worker(tests, executor)
    outcomes: list[Outcome] = []
    for i, (kind, test) in enumerate(tests):
        start = time.perf_counter()
        state, message = worker.run(i, limit)
        seconds = time.perf_counter() - start
        outcomes.append(Outcome(test.name, kind, operator_of(kind, test), state, message, seconds))
        if verbose:
            print(f"{state} {test.name} {seconds:.2f} s {message!r}", file=sys.stderr, flush=True)
        elif sys.stderr.isatty():
            print(f"\r{i + 1}/{len(tests)}", end="", file=sys.stderr)
    worker.stop()
    return outcomes


def print_report(outcomes: list[Outcome], verbose: bool) -> None:
    """Per operator, then the totals, then every wrong result and every error."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        counts[outcome.operator][outcome.state] += 1
    print(f"{'operator':32} {'passed':>8} {'unsupp.':>8} {'failed':>8} {'error':>8}")
    for operator in sorted(counts):
        row = counts[operator]
        if verbose or row["passed"] != sum(row.values()):
            print(f"{operator:32} " + " ".join(f"{row[s]:8}" for s in STATES))
    total = Counter(o.state for o in outcomes)
    print(f"{'all':32} " + " ".join(f"{total[s]:8}" for s in STATES) + f"   of {len(outcomes)}")
    for state in ("failed", "error"):
        for outcome in outcomes:
            if outcome.state == state:
                first = " ".join(outcome.message.split())[:160]
                print(f"{state}: {outcome.name}: {first}")


def main() -> int:
    """Entry point; the exit code is 1 when there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interpreter", action="store_true", help="run the graph level in NumPy, compile nothing")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this kind of test (repeatable)")
    parser.add_argument("--filter", default="", help="only tests whose name contains this text")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds per test")
    parser.add_argument("--json", type=Path, help="write every outcome to this file")
    parser.add_argument("--verbose", action="store_true", help="each test as it ends; operators that pass too")
    options = parser.parse_args()
    tests = load_tests(options.kind or list(KINDS), options.filter)
    outcomes = run_suite(tests, "interpreter" if options.interpreter else "compiled", options.limit, options.verbose)
    print_report(outcomes, options.verbose)
    if options.json:
        options.json.write_text(json.dumps([asdict(o) for o in outcomes], indent=1))
    return int(any(o.state in ("failed", "error") for o in outcomes))


if __name__ == "__main__":
    np.seterr(all="ignore")
    raise SystemExit(main())
