"""The command line: what it prints, what it writes, how it fails."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tilewright import __version__
from tilewright.tools.cli.main import main

Writer = Callable[..., Path]


def test_version_is_quick_and_imports_nothing_heavy() -> None:
    script = (
        "import sys\nfrom tilewright.tools.cli.main import main\n"
        "try: main(['--version'])\nexcept SystemExit as end: print(end.code)\n"
        "print([m for m in ('numpy', 'xdsl', 'lark', 'llvmlite', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:3] == [f"tilewright {__version__}", "0", "[]"]


@pytest.mark.parametrize("words", [[], ["bake"], ["run"], ["compile", "m.onnx"], ["run", "m.twm", "--benchmark", "0"]])
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2 and "usage: tilewright" in capsys.readouterr().err


def test_run_from_file_to_file(write_artefact: Writer, tmp_path: Path) -> None:
    x = np.arange(5, dtype=np.float32)
    np.savez(tmp_path / "in.npz", x=x, z=x)
    done = main(
        ["run", str(write_artefact()), "--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz")]
    )
    assert done == 0
    with np.load(tmp_path / "out.npz") as outputs:
        assert outputs.files == ["y"]
        np.testing.assert_array_equal(outputs["y"], 2 * x)


def test_run_on_made_up_inputs(write_artefact: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write_artefact())
    assert main(["run", path, "--fill", "zeros", "--dim", "n=3"]) == 0
    assert capsys.readouterr().out == "y: float32[3] [0.0, 0.0, 0.0]\n"
    for _ in range(2):
        assert main(["run", path, "--fill", "random", "--seed", "7", "--dim", "n=30"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second and first.startswith("y: float32[30] min ")


def test_run_benchmark(write_artefact: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(write_artefact()), "--fill", "random", "--benchmark", "5", "--threads", "1"]) == 0
    assert "5 runs on 1 threads: median " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "error: no array for input 'x', 'z': give --inputs, or --fill random"),
        (["--inputs", "none.npz"], "error: 'none.npz': No such file or directory"),
        (["--inputs", "{bad}"], "error: cannot read"),
        (["--inputs", "{other}"], "holds 'q', expected x, z"),
        (["--inputs", "{one}"], "one.npy': it is no .npz file of arrays by name"),
        (["--inputs", "{differ}"], "error: dimension 'n' disagrees: input 'x' has 3, input 'z' has 4"),
        (["--fill", "zeros", "--entry", "other"], "error: no public function 'other', expected one of main"),
        (["--fill", "zeros", "--dim", "n"], "error: --dim takes NAME=SIZE, found 'n'"),
        (["--fill", "zeros", "--dim", "n=\u00b2"], "error: --dim takes NAME=SIZE, found 'n=\u00b2'"),
        (["--fill", "zeros", "--dim", "m=2"], "error: --dim: unknown dimension 'm', expected n"),
        (["--fill", "zeros", "--dim", f"n={10**20}"], f"error: no memory for input 'x' of shape [{10**20}]"),
        (["--fill", "random", "--dim", f"n={10**14}"], f"error: no memory for input 'x' of shape [{10**14}]"),
        (["--fill", "zeros", "--outputs", "{tmp}/no/out.npz"], "/no/out.npz': No such file or directory"),
        (["--fill", "zeros", "--outputs", "{tmp}"], "': Is a directory"),
    ],
)
def test_run_failures(
    words: list[str], message: str, write_artefact: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 not really")
    np.save(tmp_path / "one.npy", np.zeros(3))
    np.savez(tmp_path / "other.npz", q=np.zeros(3))
    np.savez(tmp_path / "differ.npz", x=np.zeros(3, np.float32), z=np.zeros(4, np.float32))
    places = {"tmp": tmp_path, "one": tmp_path / "one.npy"}
    places |= {name: tmp_path / f"{name}.npz" for name in ("bad", "other", "differ")}
    path = str(write_artefact())
    before = sorted(tmp_path.iterdir())
    assert main(["run", path, *(word.format(**places) for word in words)]) == 1
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


def test_outputs_to_what_is_no_file_stay_there(write_artefact: Writer, tmp_path: Path) -> None:
    pipe, seen = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: seen.append(pipe.read_bytes()))
    reader.start()
    assert main(["run", str(write_artefact()), "--fill", "zeros", "--outputs", str(pipe)]) == 0
    reader.join(30)
    assert pipe.is_fifo() and seen[0].startswith(b"PK")


def test_a_full_disk_leaves_nothing(write_artefact: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = str(write_artefact()), tmp_path / "out.npz"
    before = sorted(tmp_path.iterdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        assert main(["run", path, "--fill", "zeros", "--dim", "n=999", "--outputs", str(out)]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert capsys.readouterr().err == f"error: cannot write '{out}': File too large\n"
    assert sorted(tmp_path.iterdir()) == before


def test_outputs_through_a_pipe(write_artefact: Writer, tmp_path: Path) -> None:
    words = ["run", str(write_artefact()), "--fill", "zeros", "--dim", "n=3", "--outputs", "/dev/stdout"]
    command = [sys.executable, "-m", "tilewright.tools.cli.main", *words]
    (tmp_path / "out.npz").write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_array_equal(outputs["y"], np.zeros(3, np.float32))


def test_a_member_that_is_no_array(write_artefact: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        archive.writestr("x.npy", b"text")
    assert main(["run", str(write_artefact()), "--inputs", str(tmp_path / "in.npz")]) == 1
    assert "in.npz': 'x' is no array" in capsys.readouterr().err


def test_a_bug_of_ours_is_one_line_and_a_traceback_on_request(
    write_artefact: Writer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr("tilewright.tools.cli.run.load", broken)
    assert main(["run", str(write_artefact()), "--fill", "zeros"]) == 1
    assert capsys.readouterr().err == "error: internal error: KeyError('planted') (--debug shows the traceback)\n"
    with pytest.raises(KeyError):
        main(["run", str(write_artefact()), "--fill", "zeros", "--debug"])


@pytest.mark.parametrize("words", [["--seed", "-1"], ["--threads", "x"], ["--benchmark", "\u00b2"]])
def test_numbers_that_are_none(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["run", "m.twm", *words])
    assert end.value.code == 2 and f"found '{words[1]}'" in capsys.readouterr().err


def test_inspect(write_artefact: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write_artefact())
    assert main(["inspect", path, "--kernels", "--weights"]) == 0
    shown = capsys.readouterr().out
    for part in ("written by a test", "1 kernels, 1 weights", "input x: float32[n]", "output y: float32[n]"):
        assert part in shown
    assert "kernel scale: " in shown and "weight w: float32[16] at 0" in shown
    assert main(["inspect", path, "--json"]) == 0
    assert '"producer": "a test"' in capsys.readouterr().out


def test_damaged_artefacts(write_artefact: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_artefact()
    path.write_bytes(path.read_bytes()[:-10])
    for words in (["inspect", str(path)], ["run", str(path), "--fill", "zeros"]):
        assert main(words) == 1
        assert "is damaged: the file has" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.onnx", None, "no such file"),
        ("none.ir", None, "No such file or directory"),
        ("bad.ir", b"func.func @main(", "error: "),
        ("bytes.ir", b"\xff\xfe", "it is not UTF-8 text"),
        ("bad.onnx", b"not a model", "error: "),
        (
            "huge.ir",
            b"func.func @main(%x: tensor<9000000000x4000000000xf32>) -> tensor<9000000000x4000000000xf32> {\n"
            b"  func.return %x : tensor<9000000000x4000000000xf32>\n}",
            "huge.ir:1:17: error: type tensor<9000000000x4000000000xf32> takes 2**63 bytes or more",
        ),
        (
            "weights.ir",
            b"func.func @main() -> tensor<9xf32> {\n  %w = graph.constant dense_resource<w7> : tensor<9xf32>\n"
            b"  func.return %w : tensor<9xf32>\n}",
            "weights.ir:2:8: error: 'graph.constant' op names the weight 'w7', which 'weights.safetensors' beside",
        ),
        (
            "memrefs.ir",
            b"func.func @main(%x: memref<9xf32>) {\n  func.return\n}",
            "error: 'func.func' op is public and has memref<9xf32> in its signature, expected tensors only",
        ),
    ],
)
def test_compile_failures(
    name: str, content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    before = sorted(tmp_path.iterdir())
    assert main(["compile", str(tmp_path / name), "-o", str(tmp_path / "m.twm")]) == 1
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


def test_an_output_that_cannot_be_written_is_noticed_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", "none.onnx", "-o", str(tmp_path / "no" / "m.twm")]) == 1
    assert "its folder does not exist" in capsys.readouterr().err


def test_interrupts_end_quietly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def while_importing(*_: object) -> None:
        raise KeyboardInterrupt

    def while_a_class_is_made(*_: object) -> None:
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    for interrupted in (while_importing, while_a_class_is_made):
        monkeypatch.setattr("tilewright.tools.cli.main.import_module", interrupted)
        assert main(["inspect", "m.twm"]) == 130
    assert capsys.readouterr().err == ""


def test_the_pipeline_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "--print-pipeline"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["00", "import", "-"]
    assert lines[-1].split() == ["08", "host", "convert-graph-to-vm,vm-plan-memory"]


def test_shapes_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(tmp_path / "m.onnx"), "-o", "m.twm", "--shape", "x:3"]) == 1
    assert "error: --shape takes INPUT=DIMS, such as x=n,3,224,224, found 'x:3'" in capsys.readouterr().err
