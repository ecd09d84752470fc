"""Splitting a file at ``// -----`` lines into chunks that keep their line numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass

SEPARATOR = "// -----"
_LINE = re.compile(r"^// -----[ \t]*(?:\r?\n|\Z)", re.MULTILINE)


@dataclass(frozen=True)
class Chunk:
    """A part of a file: its text, and the line of the file that it begins at."""

    name: str
    text: str
    first_line: int

    @property
    def padded_text(self) -> str:
        """The text behind empty lines, so that positions in it are positions in the file."""
        return "\n" * (self.first_line - 1) + self.text


def split_chunks(name: str, text: str) -> list[Chunk]:
    chunks: list[Chunk] = []
    position, line = 0, 1
    for match in _LINE.finditer(text):
        chunks.append(Chunk(name, text[position : match.start()], line))
        line += text.count("\n", position, match.end())
        position = match.end()
    chunks.append(Chunk(name, text[position:], line))
    return chunks
