"""The errors of the runtime: one family, so that a caller can catch :class:`TilewrightError` and nothing
else.

Messages follow the house style: lower case, no full stop, what was found and what was expected.
"""

from __future__ import annotations


class TilewrightError(Exception):
    """Base of every error that the runtime raises on purpose."""


class ArtefactError(TilewrightError):
    """The file cannot be used: it is no artefact, damaged, cut short, or of another format version."""


class TargetError(TilewrightError):
    """The artefact was compiled for another machine than this one."""


class InputError(TilewrightError, ValueError):
    """The arrays given do not fit the model: names, element types, ranks, or sizes that disagree."""


class ExecutionError(TilewrightError):
    """The model could not finish, for instance because memory ran out."""
