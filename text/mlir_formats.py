"""Formats that MLIR declares for operations which have no custom syntax in xDSL.

They are read and printed like an ``assembly_format`` of the class. Asynchronous forms and the like, which a format does
not say, stay generic.
"""

from __future__ import annotations

from collections.abc import Mapping

FORMATS: Mapping[str, str] = {
    "gpu.all_reduce": "($op^)? $operand (`uniform` $uniform^)? $body attr-dict `:` functional-type(operands, results)",
    "gpu.barrier": "attr-dict",
    "gpu.block_dim": "$dimension attr-dict",
    "gpu.block_id": "$dimension attr-dict",
    "gpu.global_id": "$dimension attr-dict",
    "gpu.grid_dim": "$dimension attr-dict",
    "gpu.host_register": "$value attr-dict `:` type($value)",
    "gpu.host_unregister": "$value attr-dict `:` type($value)",
    "gpu.lane_id": "attr-dict",
    "gpu.module": "$sym_name attr-dict-with-keyword $body",
    "gpu.num_subgroups": "attr-dict `:` type($result)",
    "gpu.return": "attr-dict ($args^ `:` type($args))?",
    "gpu.set_default_device": "attr-dict $devIndex",
    "gpu.subgroup_id": "attr-dict `:` type($result)",
    "gpu.subgroup_size": "attr-dict `:` type($result)",
    "gpu.terminator": "attr-dict",
    "gpu.thread_id": "$dimension attr-dict",
    "gpu.yield": "attr-dict ($values^ `:` type($values))?",
    "memref.cast": "$source attr-dict `:` type($source) `to` type($dest)",
    "memref.copy": "$source `,` $destination attr-dict `:` type($source) `to` type($destination)",
    "memref.extract_aligned_pointer_as_index": ("$source attr-dict `:` type($source) `->` type($aligned_pointer)"),
    "memref.memory_space_cast": "$source attr-dict `:` type($source) `to` type($dest)",
    "memref.rank": "$source attr-dict `:` type($source)",
    "vector.print": "$source attr-dict `:` type($source)",
}
