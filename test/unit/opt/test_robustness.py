"""tilewright-opt on malformed input: diagnostics and exit status 1, never a traceback or an internal error."""

from __future__ import annotations

import io
import random
import re
import sys

import pytest

from tilewright.tools.opt.main import main

SAMPLE = """// a sample of the syntax
#map = affine_map<(d0, d1) -> (d0 + d1)>
func.func private @callee(%x: tensor<?x4xf32, #tw.enc<dims = [n]>>) -> i32
func.func @f(%c: i1, %n: index, %a: i32, %m: memref<4x8xf32>) -> (i32, index) attributes {tag = "text \\22"} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %0:2 = "test.op"(%a) {map = #map, shape = #tw.exprs<[n, n * 4]>} : (i32) -> (i32, f32)
  %r = scf.for %i = %zero to %n step %one iter_args(%s = %a) -> (i32) {
    %t = arith.addi %s, %0#0 : i32
    scf.yield %t : i32
  }
  cf.cond_br %c, ^bb1(%r : i32), ^bb2
^bb1(%x: i32):
  func.return %x, %n : i32, index
^bb2:
  %d = arith.constant dense<[1.0, -2.5e3]> : tensor<2xf32>
  func.return %a, %zero : i32, index
}
"""


def run(text: str | bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *flags: str) -> int:
    data = text if isinstance(text, bytes) else text.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    status = main(["-", *flags])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err and "internal error" not in captured.err, captured.err
    if status:
        assert re.search(r"^(<stdin>(:\d+:\d+)?: )?error: ", captured.err, re.MULTILINE), captured.err
    else:
        assert captured.out
    return status


def test_the_sample_is_valid(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(SAMPLE, capsys, monkeypatch) == 0


@pytest.mark.parametrize("part", range(4))
def test_truncated_everywhere(part: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    failures = 0
    for size in range(part, len(SAMPLE), 4):
        failures += run(SAMPLE[:size], capsys, monkeypatch)
    assert failures > len(SAMPLE) // 5


@pytest.mark.parametrize("seed", range(4))
def test_random_token_edits(seed: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    tokens = re.findall(r"\s+|[%^@#!\"]?[\w.]+|.", SAMPLE)
    extra = [
        "(",
        ")",
        "{",
        "}",
        "<",
        ">",
        "[",
        "]",
        "-",
        "99999999999999999999",
        "%q",
        "@",
        '"',
        "#tw.map<",
        "\x00",
        "é",
    ]
    for _ in range(60):
        edited = list(tokens)
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(edited))
            match chance.randrange(4):
                case 0:
                    del edited[place]
                case 1:
                    edited[place] = chance.choice(extra)
                case 2:
                    edited.insert(place, chance.choice(tokens))
                case _:
                    other = chance.randrange(len(edited))
                    edited[place], edited[other] = edited[other], edited[place]
        run("".join(edited), capsys, monkeypatch)


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe", b"\x00" * 20, b"func.func @f() { func.return }\n// \xe9", b'"', b"{" * 5000, b"(" * 5000]
)
def test_odd_bytes(data: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run(data or b"// nothing", capsys, monkeypatch)


def test_deep_nesting(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """200 nested regions work in both forms; far more may be refused, but only by a diagnostic."""
    for depth in (200, 3000):
        text = (
            '"test.op"() ({\n' * depth
            + '"test.termop"() : () -> ()\n'
            + '}) : () -> ()\n"test.termop"() : () -> ()\n' * depth
        )
        status = run(text, capsys, monkeypatch, "--generic")
        assert status == 0 or depth > 200


@pytest.mark.parametrize(
    "pipeline", ["", ",", "{", "a{", "func.func(", "x{y=}", '"', "cse,,cse", "builtin.module(", "é"]
)
def test_malformed_pipelines(
    pipeline: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"func.func @f() { func.return }")))
    status = main(["-", "-p", pipeline])
    assert status == (1 if pipeline else 0)
    assert "error: " in capsys.readouterr().err or not pipeline


def test_usage_errors_have_their_own_status() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--no-such-flag"])
    assert caught.value.code == 2
