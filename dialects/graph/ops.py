"""The dialect object ``GRAPH``; op classes are imported from the family files."""

from xdsl.ir import Dialect

from .broadcasting import BROADCASTING_OPS
from .elementwise import UNARY_OPS
from .indexing import INDEXING_OPS
from .linear import LINEAR_OPS
from .nn import NN_OPS
from .reduce import REDUCE_OPS
from .shape import SHAPE_OPS
from .structure import STRUCTURE_OPS

GRAPH = Dialect(
    "graph",
    [
        *UNARY_OPS,
        *BROADCASTING_OPS,
        *NN_OPS,
        *LINEAR_OPS,
        *REDUCE_OPS,
        *SHAPE_OPS,
        *INDEXING_OPS,
        *STRUCTURE_OPS,
    ],
)
"""The ``graph`` dialect."""
