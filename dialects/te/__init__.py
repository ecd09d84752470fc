"""The ``te`` dialect: one tensor expression per value, the place of meaning (``ops``), and its text form (``syntax``)."""

SYNTAX = f"{__name__}.syntax:FRAGMENT"
