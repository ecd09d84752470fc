"""The ``graph`` dialect: tensors, framework-neutral ops, fused kernels. ``base.py`` says how an op is declared."""

from .ops import GRAPH

SYNTAX = f"{__name__}.syntax:FRAGMENT"

__all__ = ["GRAPH"]
