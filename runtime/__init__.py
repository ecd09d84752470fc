"""Load compiled models and run them. Needs NumPy and llvmlite, nothing of the compiler."""

from .errors import ArtefactError, ExecutionError, InputError, TargetError, TilewrightError
from .model import Entry, Model, load
from .tensors import TensorSpec
from .threads import get_num_threads, set_num_threads

__all__ = [
    "ArtefactError",
    "Entry",
    "ExecutionError",
    "InputError",
    "Model",
    "TargetError",
    "TensorSpec",
    "TilewrightError",
    "get_num_threads",
    "load",
    "set_num_threads",
]
