"""Running a loaded model: inputs by position and name, what is refused, threads, and foreign machines."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.runtime import ArtefactError, InputError, Model, TargetError, TilewrightError, load
from tilewright.runtime.tensors import TensorSpec, as_array

Writer = Callable[..., Path]


def vector(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


@pytest.fixture
def model(write_artefact: Writer) -> Model:
    return load(write_artefact())


@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_ways_to_call(model: Model, n: int) -> None:
    x = vector(n)
    for y in (model(x, x), model(x, z=x), model(z=x, x=x), model.run({"z": x, "x": x})["y"]):
        assert y.dtype == np.float32 and y.shape == (n,)
        np.testing.assert_array_equal(y, 2 * x)


def test_inputs_are_copied_where_the_abi_needs_it(model: Model) -> None:
    x = vector(64)
    odd = np.zeros(65, np.float32)[1:]
    odd[:] = x
    for given in (odd, np.repeat(x, 2)[::2], x.astype(">f4"), x.tolist(), memoryview(x)):
        np.testing.assert_array_equal(model(given, x), 2 * x)


class OnlyDLPack:
    """An array of another library: nothing but the exchange protocol."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def test_dlpack(model: Model) -> None:
    x = vector(9)
    np.testing.assert_array_equal(model(OnlyDLPack(x), OnlyDLPack(x)), 2 * x)
    np.testing.assert_array_equal(np.from_dlpack(OnlyDLPack(model(x, x))), 2 * x)


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        ((), {}, "missing inputs 'x', 'z', expected 'x', 'z'"),
        ((vector(3),), {}, "missing input 'z'"),
        ((vector(3), vector(3), vector(3)), {}, "3 inputs given, expected 2: 'x', 'z'"),
        ((vector(3),), {"w": vector(3)}, "unknown input 'w', expected 'x', 'z'"),
        ((vector(3),), {"x": vector(3)}, "input 'x' is given twice"),
        ((vector(3), np.zeros(3)), {}, "input 'z' has element type float64, expected float32"),
        ((vector(4).reshape(2, 2), vector(3)), {}, r"input 'x' has rank 2 \(shape \[2, 2\]\), expected rank 1"),
        ((["a"], vector(3)), {}, "input 'x' cannot be read as an array of float32"),
        ((vector(3), vector(5)), {}, "dimension 'n' disagrees: input 'x' has 3, input 'z' has 5"),
    ],
)
def test_inputs_that_do_not_fit(model: Model, args: tuple[Any, ...], named: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        model(*args, **named)
    assert isinstance(caught.value, TilewrightError) and isinstance(caught.value, ValueError)


def test_outputs_outlive_the_model_and_their_memory_is_reused(write_artefact: Writer) -> None:
    model = load(write_artefact())
    x = vector(5000)
    first = model(x, x)
    view = first[10:20]
    address = first.ctypes.data
    del model, first
    gc.collect()
    np.testing.assert_array_equal(view, 2 * x[10:20])
    del view
    gc.collect()
    assert load(write_artefact())(x, x).ctypes.data == address


def test_foreign_machines_are_refused(write_artefact: Writer) -> None:
    here = load(write_artefact()).manifest["target"]
    other = {**here, "triple": "riscv64-unknown-linux-gnu"}
    with pytest.raises(TargetError, match="was compiled for riscv64-unknown-linux-gnu, this machine is"):
        load(write_artefact(target=other))
    newer = {**here, "cpu": "future", "features": here["features"] + ",+warp-drive,-sse9"}
    with pytest.raises(TargetError, match=r"compiled for processor 'future' and uses warp-drive, which this machine"):
        load(write_artefact(target=newer))


def test_two_models_on_four_threads(write_artefact: Writer) -> None:
    models = [load(write_artefact(f"{k}.twm", factor=k)) for k in (2.0, 3.0)]
    failures: list[str] = []

    def call(seed: int) -> None:
        for turn in range(100):
            x = vector(10 + seed + turn)
            for factor, model in zip((2, 3), models):
                if not np.array_equal(model(x, x), factor * x):
                    failures.append(f"{seed} {turn}")

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    tilewright.set_num_threads(1)
    for thread in threads:
        thread.join()
    tilewright.set_num_threads(0)
    assert not failures


def test_number_of_threads(model: Model) -> None:
    tilewright.set_num_threads(3)
    assert tilewright.get_num_threads() == 3
    tilewright.set_num_threads(0)
    assert tilewright.get_num_threads() >= 1
    with pytest.raises(ValueError, match="number of threads is -1"):
        tilewright.set_num_threads(-1)
    for wrong in (1.5, "2", None):
        with pytest.raises(TypeError):
            tilewright.set_num_threads(wrong)  # type: ignore[arg-type]
    tilewright.set_num_threads(2**70)
    assert tilewright.get_num_threads() > 3 and model(vector(3), vector(3))[2] == 4
    tilewright.set_num_threads(0)


def test_inputs_that_are_no_mapping(model: Model) -> None:
    with pytest.raises(InputError, match="inputs are a list, expected a mapping of names to arrays"):
        model.run([vector(3), vector(3)])  # type: ignore[arg-type]


def test_lists_of_fractions_are_no_integers() -> None:
    spec = TensorSpec("ids", "int64", ("n",))
    for given in ([1, 2], [True], [], (3,), [np.int8(1)]):
        np.testing.assert_array_equal(as_array(given, spec, np.dtype(np.int64)), np.asarray(given, np.int64))
    with pytest.raises(InputError, match=r"input 'ids' cannot be read as an array of int64: .* fraction would be cut"):
        as_array([1.5], spec, np.dtype(np.int64))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"entries": []}, "there are no entries"),
        ({"entries": [{"name": "main"}]}, "entry 0: 'symbol' is missing or of another type"),
        ({"target": {}}, "target: 'triple' is missing or of another type"),
        ({"errors": [1]}, "'errors' are not texts"),
        ({"kernels": None}, "manifest: 'kernels' is missing or of another type"),
        ({"weights": [{"name": "w", "dtype": "float32", "shape": [-1], "offset": 0, "size": 4}]}, "weight: an extent"),
    ],
)
def test_manifests_that_another_program_wrote(write_artefact: Writer, changes: dict[str, Any], fault: str) -> None:
    path = write_artefact(**changes)
    with pytest.raises(ArtefactError, match=f"is damaged: the manifest cannot be used .*{fault}"):
        load(path)


def test_repr_shows_the_signature(model: Model) -> None:
    assert "main(x: float32[n], z: float32[n])" in repr(model) and "y: float32[n]" in repr(model)
