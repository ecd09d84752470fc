"""Fragments for the operations of xDSL's dialects whose syntax is imperative there; one file per dialect.

They follow MLIR's own syntax. Found through ``fragment.XDSL_FRAGMENTS``. Everything that has an ``assembly_format``
needs no entry here, and what has neither is printed in the generic form.
"""
