"""The ``schedule`` dialect: a schedule is a straight-line program over loops and blocks (see ``ops.py``)."""
