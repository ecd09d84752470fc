"""The artefact's container: round trip, atomic writing, and damage at every kind of place."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilewright.runtime.container as container
import tilewright.runtime.model as model_module
from tilewright.runtime import ArtefactError, load
from tilewright.runtime.container import Artefact, ArtefactWriter


def test_sections_and_manifest_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a.twm"
    with ArtefactWriter(path) as writer:
        writer.add("code", "object", [b"abc", b"", b"defg"])
        writer.add("weights", "weights", [bytes(range(256)) * 40], align=4096)
        writer.finish({"answer": 42, "name": "ä"})
    artefact = Artefact(path)
    artefact.verify()
    assert artefact.manifest["answer"] == 42 and artefact.manifest["name"] == "ä"
    code, weights = artefact.sections
    assert (code.name, code.kind, artefact.read(code)) == ("code", "object", b"abcdefg")
    assert weights.offset % 4096 == 0 and artefact.read(weights) == bytes(range(256)) * 40
    assert artefact.of_kind("weights") == [weights]


def test_checksums_cover_many_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "CHUNK", 100)
    path = tmp_path / "a.twm"
    with ArtefactWriter(path) as writer:
        writer.add("a", "object", [bytes(333), bytes(range(99))])
        writer.add("b", "weights", [bytes(1234)], align=256)
        writer.finish({})
    data = path.read_bytes()
    Artefact(path).verify()
    end = int.from_bytes(data[16:24], "little")
    for offset in range(64, end, 37):
        broken = bytearray(data)
        broken[offset] ^= 0x10
        path.write_bytes(broken)
        with pytest.raises(ArtefactError, match="do not match their checksum"):
            Artefact(path).verify()
    path.write_bytes(data[:600] + b"x" + data[601:])
    Artefact(path).verify(0, 500)


def test_the_file_appears_only_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.twm"
    path.write_bytes(b"old")
    with pytest.raises(KeyError), ArtefactWriter(path) as writer:
        writer.add("code", "object", [b"abc"])
        raise KeyError
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.twm"]


def test_a_folder_that_does_not_exist_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match=r"cannot write .*no/a.twm': No such file or directory"):
        ArtefactWriter(tmp_path / "no" / "a.twm")


def test_folders_links_and_long_names(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match=r"cannot write '.*': Is a directory"):
        ArtefactWriter(tmp_path)
    (tmp_path / "real.twm").write_bytes(b"old")
    (tmp_path / "link.twm").symlink_to("real.twm")
    with ArtefactWriter(tmp_path / "link.twm") as writer:
        writer.finish({})
    assert (tmp_path / "link.twm").is_symlink() and Artefact(tmp_path / "real.twm").sections == ()
    long = tmp_path / ("x" * 250)
    with ArtefactWriter(long) as writer:
        writer.finish({})
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link.twm", "real.twm", "x" * 250]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.twm"
    path.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(ArtefactError, match=r"cannot write '.*a.twm': File too large"), ArtefactWriter(path) as w:
            w.add("code", "object", [bytes(99), bytes(100_000)])
            w.finish({})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_damage_anywhere_is_found(write_artefact: Callable[..., Path]) -> None:
    path = write_artefact()
    data = path.read_bytes()
    step = max(1, len(data) // 199)
    for offset in [*range(64), *range(64, len(data), step), len(data) - 1]:
        broken = bytearray(data)
        broken[offset] ^= 0x41
        path.write_bytes(broken)
        with pytest.raises(ArtefactError, match=r"is damaged|is not a tilewright model|has format version"):
            load(path)
    path.write_bytes(data)
    load(path)


def test_large_files_are_checked_in_the_background(
    write_artefact: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_module, "_VERIFIED_AT_ONCE", 0)
    monkeypatch.setattr(container, "CHUNK", 64)
    path = write_artefact()
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(load(path)(x, x), 2 * x)
    data = bytearray(path.read_bytes())
    data[load(path).manifest["sections"][-1]["offset"] + 60] ^= 1
    path.write_bytes(data)
    damaged = load(path)
    for _ in range(2):
        with pytest.raises(ArtefactError, match="do not match their checksum"):
            damaged(x, x)
    np.testing.assert_array_equal(load(path, verify=False)(x, x), 2 * x)
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtefactError, match="do not match their checksum"):
        load(path, verify=False)


def test_a_file_cut_short_or_with_more_behind_is_found(write_artefact: Callable[..., Path]) -> None:
    path = write_artefact()
    data = path.read_bytes()
    for length in [0, 1, 8, 63, 64, 65, 4096, len(data) // 2, len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(ArtefactError, match=r"is damaged|is not a tilewright model"):
            load(path)
    path.write_bytes(data + b"\0")
    with pytest.raises(ArtefactError, match=f"has {len(data) + 1} bytes, expected {len(data)}"):
        load(path)


def test_other_versions_missing_files_and_folders(write_artefact: Callable[..., Path], tmp_path: Path) -> None:
    path = write_artefact()
    data = bytearray(path.read_bytes())
    data[8] = 9
    path.write_bytes(data)
    with pytest.raises(ArtefactError, match="format version 9, expected 1"):
        load(path)
    with pytest.raises(ArtefactError, match=r"cannot read .*none.twm': No such file or directory"):
        load(tmp_path / "none.twm")
    with pytest.raises(ArtefactError, match=r"cannot read .*Is a directory"):
        load(tmp_path)
    with pytest.raises(ArtefactError, match="runtime interface 7, found 1"):
        load(write_artefact(context_version=7))
