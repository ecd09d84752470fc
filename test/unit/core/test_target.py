"""Target descriptions."""

from __future__ import annotations

import platform

import pytest
from xdsl.dialects.builtin import bf16, f16, f32, f64, i1, i8

from tilewright.core.diagnostics import DiagnosticError
from tilewright.core.target import TargetInfo, host_target, make_target


def test_lanes() -> None:
    target = TargetInfo("llvm", "x86_64", "x", vector_bits=256)
    assert [target.vector_lanes(t) for t in (f32, f64, f16, bf16, i8, i1)] == [8, 4, 16, 16, 32, 32]


def test_host_is_sane() -> None:
    host = host_target()
    assert host.vector_bits in (128, 256, 512) and host.cores >= 1
    assert 4096 <= host.l1_bytes <= host.l2_bytes <= host.l3_bytes
    assert make_target() == host and make_target(mcpu="native") == host


def test_cpu_and_attributes() -> None:
    if not host_target().triple.startswith("x86_64"):
        pytest.skip("names of x86 CPUs")
    assert make_target(mcpu="x86-64").vector_bits == 128
    haswell = make_target(mcpu="haswell")
    assert (haswell.vector_bits, haswell.vector_registers, haswell.fma_units) == (256, 16, 2)
    assert make_target(mcpu="haswell", mattr="-fma").fma_units == 0
    assert make_target(mcpu="haswell", mattr="+avx512f").vector_bits == 512
    assert "+avx2" in haswell.feature_string
    with pytest.raises(DiagnosticError, match="unknown cpu 'hasswell'"):
        make_target(mcpu="hasswell")
    with pytest.raises(DiagnosticError, match=r"--mattr takes \+feature"):
        make_target(mattr="avx2")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="LLVM lists all features of a family on x86 only")
def test_features_that_do_not_exist() -> None:
    with pytest.raises(DiagnosticError, match=r"unknown processor feature 'avx22', did you mean 'avx2'\?"):
        make_target(mattr="+fma,-avx22")
