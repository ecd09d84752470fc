"""The reference interpreter of every level (see ``interpreter.py``)."""

from .interpreter import Interpreter

__all__ = ["Interpreter"]
