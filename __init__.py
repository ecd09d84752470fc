"""Tilewright: a deep-learning compiler built as a framework of dialects on xDSL.

The public API is loaded lazily (see ``__getattr__``), so that ``import tilewright`` costs nothing and the runtime
can be used where neither xDSL nor Lark is installed.
"""

__version__ = "0.1.0"
