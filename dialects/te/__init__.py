"""The ``te`` dialect: one tensor expression per value, its ops (``ops``) and its text form (``syntax``)."""

SYNTAX = f"{__name__}.syntax:FRAGMENT"
