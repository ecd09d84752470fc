"""Runs ``mypy --strict`` on the package.

The checkout is the package ``tilewright``, but mypy wants the folder to bear the package's name; so this makes a link
of that name in a temporary folder and runs mypy there.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tilewright").symlink_to(ROOT, target_is_directory=True)
        command = [
            sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"),
            "--cache-dir", str(ROOT / ".mypy_cache"), "-p", "tilewright", *sys.argv[1:],
        ]  # fmt: skip
        return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
