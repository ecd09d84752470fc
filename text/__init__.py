"""The ``.ir`` text format: MLIR's syntax, read with Lark's tables and printed so that it reads back.

    module = parse_module(text, filename="model.ir", context=context)
    print_module(module)

Parts: ``core.lark`` (the generic form), ``grammar.py`` (adds the pretty forms of the dialects in use), ``formats.py``
(pretty forms from ``assembly_format``), ``fragment.py`` (how a dialect gives its own syntax), ``syntax/`` (fragments
for xDSL's dialects), ``tables.py`` and ``driver.py`` (tables and token loop), ``builder.py`` (makes the IR),
``printer.py``, ``errors.py``, ``recovery.py`` (several errors of one text). Operations that xDSL's classes parse or
print themselves: ``foreign.py``, ``self_printing.py``; formats of MLIR that xDSL lacks: ``mlir_formats.py``.
"""

from .parser import parse_attribute, parse_module, parse_type
from .printer import Printer, print_attribute, print_module

__all__ = [
    "Printer",
    "parse_attribute",
    "parse_module",
    "parse_type",
    "print_attribute",
    "print_module",
]
