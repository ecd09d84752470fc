"""The ``te`` dialect: one tensor expression per value, the place of meaning (see ``ops.py``)."""
