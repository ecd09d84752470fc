"""Weights as constant arrays of C: exact, since floats are written in hexadecimal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .emit_exprs import float_literal, integer_literal, type_name
from .library import type_suffix
from .structure import TableOp

_PER_LINE = 8
_LINES_PER_PIECE = 512


def table_text(op: TableOp, name: str, data: bytes | memoryview) -> Iterator[str]:
    """The definition of a table in pieces; ``data`` are its elements as they lie in memory."""
    suffix = type_suffix(op.element)
    values = np.frombuffer(data, np.dtype(f"{suffix[0]}{int(suffix[1:]) // 8}"))
    assert values.size == op.count.value.data, f"{name}: {values.size} values, expected {op.count.value.data}"
    make: Callable[[Any, Any], Any] = float_literal if suffix[0] == "f" else integer_literal
    yield f"static const {type_name(op.element, op)} {name}[{max(1, values.size)}] = {{\n"
    step = _PER_LINE * _LINES_PER_PIECE
    for start in range(0, values.size, step):
        words = [make(value, op.element).text for value in values[start : start + step].tolist()]
        lines = [f"  {', '.join(words[i : i + _PER_LINE])},\n" for i in range(0, len(words), _PER_LINE)]
        yield "".join(lines)
    yield "};\n\n" if values.size else "  0\n};\n\n"
