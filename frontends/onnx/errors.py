"""What goes wrong in an import, and how it is told."""

from __future__ import annotations


class UnsupportedError(Exception):
    """A rule met a legal node that it cannot express; collected, so that one message names every such node."""


class ModelError(Exception):
    """The model itself is wrong: a missing input, a bad attribute, types that do not fit."""
