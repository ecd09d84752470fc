"""``tilewright run``: an artefact on arrays from a file or made up, with outputs to a file, or measured."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from ...runtime import Entry, get_num_threads, load, set_num_threads
from ...runtime.errors import TilewrightError
from .arrays import Array, made_up, parse_dims, read_npz, write_npz

_WARM_UP_SECONDS = 0.2


def run(arguments: argparse.Namespace) -> int:
    """Run once; with ``--benchmark`` many times."""
    if arguments.threads is not None:
        set_num_threads(arguments.threads)
    model = load(arguments.artefact)
    name = arguments.entry or next(iter(model.entries))
    if name not in model.entries:
        raise TilewrightError(f"no public function '{name}', expected one of {', '.join(model.entries)}")
    entry = model.entries[name]
    inputs = _inputs(entry, arguments)
    outputs = entry.run(inputs)
    if arguments.outputs is not None:
        write_npz(arguments.outputs, outputs)
    if arguments.benchmark is not None:
        _benchmark(lambda: entry.run(inputs), arguments.benchmark)
    elif arguments.outputs is None:
        for key, array in outputs.items():
            print(f"{key}: {array.dtype.name}{list(array.shape)} {_summary(array)}")
    return 0


def _inputs(entry: Entry, arguments: argparse.Namespace) -> dict[str, Array]:
    given = {} if arguments.inputs is None else read_npz(arguments.inputs)
    known = {spec.name for spec in entry.inputs}
    for name in given:
        if name not in known:
            raise TilewrightError(f"'{arguments.inputs}' holds '{name}', expected {', '.join(sorted(known))}")
    missing = [spec for spec in entry.inputs if spec.name not in given]
    if missing and arguments.fill is None:
        names = ", ".join(f"'{spec.name}'" for spec in missing)
        raise TilewrightError(f"no array for input {names}: give --inputs, or --fill random")
    random, dims = np.random.default_rng(arguments.seed), parse_dims(arguments.dim, entry.inputs)
    return {**given, **{spec.name: made_up(spec, arguments.fill, dims, random) for spec in missing}}


def _benchmark(call: Callable[[], object], count: int) -> None:
    """Warm up, then time single runs."""
    end = time.perf_counter() + _WARM_UP_SECONDS
    while time.perf_counter() < end:
        call()
    times = np.empty(count)
    for index in range(count):
        start = time.perf_counter()
        call()
        times[index] = time.perf_counter() - start
    times *= 1e3
    p50, p90, p99 = np.percentile(times, [50, 90, 99])
    print(
        f"{count} runs on {get_num_threads()} threads: median {p50:.3f} ms, min {times.min():.3f}, "
        f"mean {times.mean():.3f}, p90 {p90:.3f}, p99 {p99:.3f}, max {times.max():.3f}"
    )


def _summary(array: Array) -> str:
    if array.size == 0:
        return "(empty)"
    if array.size <= 8:
        return str(array.reshape(-1).tolist())
    if array.dtype.kind == "b":
        return f"true: {int(array.sum())} of {array.size}"
    wide = array.astype(np.float64)
    return f"min {wide.min():.6g}, max {wide.max():.6g}, mean {wide.mean():.6g}"
