"""The C target: portable C99, one source file and its header per model.

``pipeline.py`` is the target as the driver sees it, ``dialect.py`` the final level; ``lower.py`` (kernels) and
``host.py`` (public functions) lead there, ``emit.py`` turns it into text. ``docs/targets.md`` goes through this folder
as an example of a target.
"""

SYNTAX = f"{__name__}.syntax:FRAGMENT"
"""The pretty form of the ``c`` dialect."""
