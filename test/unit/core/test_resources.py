"""The table of weights: content addressing, immutability, the file format, damaged files."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.resources import ResourceTable


def test_equal_content_is_kept_once() -> None:
    table = ResourceTable()
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    first = table.add(w, "conv1.weight")
    assert first == "conv1.weight"
    assert table.add(w.copy(), "other") == first and len(table) == 1
    assert table.add(w.reshape(3, 2), "conv1.weight") == "conv1.weight_1"
    assert table.add(w.view(np.int32), "x") == "x"
    assert table.add(w, "7 strange/name") == first


def test_arrays_are_immutable_and_independent() -> None:
    table = ResourceTable()
    w = np.zeros(4, np.float32)
    name = table.add(w)
    w[0] = 1
    assert table[name][0] == 0
    with pytest.raises(ValueError, match="read-only"):
        table[name][0] = 2
    big_endian = table.add(np.arange(3, dtype=">i4"), "be")
    assert table[big_endian].dtype.isnative and list(table[big_endian]) == [0, 1, 2]


DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
DTYPES += [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.bool_]


def test_save_and_load_every_type(tmp_path: Path) -> None:
    table = ResourceTable()
    for index, dtype in enumerate(DTYPES):
        table.add(np.arange(index + 3).astype(dtype), f"a{index}")
    table.add(np.float32(3.5), "scalar")
    table.add(np.zeros((0, 4), np.float32), "empty")
    table.add(np.arange(12, dtype=np.float32).reshape(3, 4).T, "transposed")
    path = tmp_path / "w.safetensors"
    table.save(path)
    loaded = ResourceTable.load(path)
    assert set(loaded) == set(table)
    for name, array in table.items():
        assert loaded[name].dtype == array.dtype and loaded[name].shape == array.shape
        np.testing.assert_array_equal(loaded[name].astype(np.float64), array.astype(np.float64))
        assert not loaded[name].flags.writeable
    again = tmp_path / "again.safetensors"
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()


def test_files_are_those_of_the_safetensors_package(tmp_path: Path) -> None:
    table = ResourceTable()
    table.add(np.arange(5, dtype=np.float32), "w")
    table.save(tmp_path / "ours.safetensors")
    np.testing.assert_array_equal(load_file(tmp_path / "ours.safetensors")["w"], np.arange(5))
    save_file({"v": np.ones((2, 2), np.int64)}, tmp_path / "theirs.safetensors")
    np.testing.assert_array_equal(ResourceTable.load(tmp_path / "theirs.safetensors")["v"], np.ones((2, 2)))


def test_damaged_files_are_diagnostics(tmp_path: Path) -> None:
    table = ResourceTable()
    table.add(np.arange(50, dtype=np.float32), "w")
    path = tmp_path / "w.safetensors"
    table.save(path)
    data = path.read_bytes()
    for size in [*range(0, 100, 7), len(data) - 1]:
        path.write_bytes(data[:size])
        with pytest.raises(DiagnosticError, match="safetensors"):
            ResourceTable.load(path)
    path.write_bytes(data.replace(b'"F32"', b'"F99"'))
    with pytest.raises(DiagnosticError, match="unknown element type F99"):
        ResourceTable.load(path)
    with pytest.raises(DiagnosticError, match="No such file"):
        ResourceTable.load(tmp_path / "missing")
