"""Runs the lit suite (``test/**/*.ir`` and ``*.test``) as one test and shows what failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_lit_suite() -> None:
    run_lit = [sys.executable, "-c", "import lit.main; lit.main.main()"]
    command = [*run_lit, "-v", "--order=lexical", "-j2", str(ROOT / "test")]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert result.returncode == 0, f"{result.stdout[-20000:]}\n{result.stderr[-2000:]}"
    assert "PASS" in result.stdout, "no lit test ran"
