"""``make demo``: compiles the digits model, measures its accuracy on images it never saw, and shows where to look next.

Run it as ``python -m tilewright.examples.digits.demo [OUTPUT_FOLDER]`` (default ``out/digits``).
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tilewright

HERE = Path(__file__).parent


def median_time(call: Callable[[], object], repeats: int = 50) -> float:
    """Median wall time of ``call`` in seconds, after a warm-up."""
    for _ in range(5):
        call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out/digits")
    ir = out / "ir"
    artefact = out / "digits.twm"
    out.mkdir(parents=True, exist_ok=True)

    start = time.perf_counter()
    tilewright.compile(HERE / "digits.onnx", output=artefact, dump_ir=ir)
    print(f"compiled   {HERE.name}/digits.onnx -> {artefact} in {time.perf_counter() - start:.2f} s")

    start = time.perf_counter()
    model = tilewright.load(artefact)
    print(f"loaded     in {(time.perf_counter() - start) * 1e3:.1f} ms")

    with np.load(HERE / "test.npz") as data:
        images, labels = data["images"], data["labels"]
    scores = model(images)
    print(f"accuracy   {(scores.argmax(1) == labels).mean():.2%} on {len(labels)} held-out images")

    one, all_at_once = median_time(lambda: model(images[:1])), median_time(lambda: model(images))
    batch = all_at_once / len(images)
    print(f"time       {one * 1e6:.1f} us for one image, {batch * 1e6:.1f} us per image in one batch")

    print(f"IR         every level is a file in {ir}/:")
    for path in sorted(ir.glob("*.ir")):
        print(f"             {path.name}")


if __name__ == "__main__":
    main()
