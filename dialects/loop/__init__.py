"""Loop nests with blocks over memrefs, and the vector code that they become.

Before scheduling: ``loop.alloc``, ``loop.for`` and ``loop.block``. After ``loop-lower-blocks`` and
``loop-vectorize``: plain and vector-typed ``loop.load`` / ``loop.store`` (consecutive elements of the last
dimension; a guard never differs by lane), ``loop.if``, ``loop.index``, ``arith`` and ``math`` on scalars and
vectors, ``vector.broadcast`` / ``insert`` / ``extract`` / ``reduction``, and ``loop.lanes`` for what ``arith``
has for scalars only. Tails are shorter vectors or scalar loops; there are no masks.
"""

SYNTAX = f"{__name__}.syntax:FRAGMENT"
