"""The ``loop`` dialect: loop nests with blocks over memrefs, the place of order (see ``ops.py``)."""
