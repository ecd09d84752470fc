"""The program of one code generation process: requests on standard input, replies on standard output.

A request is a line of JSON with the machine's fields and `bytes`, the length of the IR text that follows. A
reply is a line of JSON with `ok` and `bytes`, followed by the object code or by a message. The program ends
when its input does. LLVM aborts the process on some inputs it cannot compile; that is why it is a process.
Its parent is `workers.py`.
"""

from __future__ import annotations

import json
import sys
from typing import BinaryIO

from .codegen import CodegenError, Machine, compile_ir


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until the input ends."""
    while line := requests.readline():
        head = json.loads(line)
        text = requests.read(head.pop("bytes")).decode()
        try:
            ok, payload = True, compile_ir(text, Machine(**head))
        except CodegenError as error:
            ok, payload = False, str(error).encode()
        replies.write(json.dumps({"ok": ok, "bytes": len(payload)}).encode() + b"\n" + payload)
        replies.flush()


def main() -> None:
    """Serve on the process's standard streams."""
    serve(sys.stdin.buffer, sys.stdout.buffer)
