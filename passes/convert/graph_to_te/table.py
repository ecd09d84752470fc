"""Which function lowers which graph op, by name; loaded at first use. Plugins add entries of the registry's kind
``lowering``.

A lowering is ``function(op, te: TeBuilder) -> SSAValue`` (or one value for each result): it makes ``te.compute``
ops before ``op`` and returns what replaces its results.
"""

_HERE = "tilewright.passes.convert.graph_to_te"
_ELEMENTWISE = (
    "neg abs sign relu exp log log1p expm1 sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh erf sigmoid ceil floor "
    "round not is_nan add sub mul div pow max min and or xor shift_left shift_right where"
)
_REDUCE = "reduce_sum reduce_prod reduce_mean reduce_max reduce_min"

LOWERINGS: dict[str, str] = {
    **{f"graph.{name}": f"{_HERE}.elementwise:lower_elementwise" for name in _ELEMENTWISE.split()},
    "graph.compare": f"{_HERE}.elementwise:lower_compare",
    "graph.cast": f"{_HERE}.elementwise:lower_cast",
    "graph.mod": f"{_HERE}.elementwise:lower_mod",
    "graph.conv": f"{_HERE}.conv:lower_conv",
    "graph.conv_transpose": f"{_HERE}.conv:lower_conv_transpose",
    "graph.max_pool": f"{_HERE}.pool:lower_max_pool",
    "graph.avg_pool": f"{_HERE}.pool:lower_avg_pool",
    "graph.softmax": f"{_HERE}.normalize:lower_softmax",
    "graph.log_softmax": f"{_HERE}.normalize:lower_log_softmax",
    "graph.normalize": f"{_HERE}.normalize:lower_normalize",
    "graph.batch_norm": f"{_HERE}.normalize:lower_batch_norm",
    "graph.lrn": f"{_HERE}.normalize:lower_lrn",
    "graph.matmul": f"{_HERE}.linear:lower_matmul",
    **{f"graph.{name}": f"{_HERE}.reduce:lower_reduce" for name in _REDUCE.split()},
    "graph.argmax": f"{_HERE}.reduce:lower_arg_reduce",
    "graph.argmin": f"{_HERE}.reduce:lower_arg_reduce",
    "graph.reshape": f"{_HERE}.shape:lower_reshape",
    "graph.transpose": f"{_HERE}.shape:lower_transpose",
    "graph.broadcast_to": f"{_HERE}.shape:lower_broadcast_to",
    "graph.concat": f"{_HERE}.shape:lower_concat",
    "graph.slice": f"{_HERE}.shape:lower_slice",
    "graph.pad": f"{_HERE}.shape:lower_pad",
    "graph.iota": f"{_HERE}.shape:lower_iota",
    "graph.dims": f"{_HERE}.shape:lower_dims",
    "graph.constant": f"{_HERE}.shape:lower_constant",
    "graph.gather": f"{_HERE}.indexing:lower_gather",
    "graph.gather_elements": f"{_HERE}.indexing:lower_gather_elements",
    "graph.gather_nd": f"{_HERE}.indexing:lower_gather_nd",
    "graph.scatter_elements": f"{_HERE}.indexing:lower_scatter_elements",
    "graph.scatter_nd": f"{_HERE}.indexing:lower_scatter_nd",
    "graph.cumsum": f"{_HERE}.indexing:lower_cumsum",
    "graph.topk": f"{_HERE}.indexing:lower_topk",
    "graph.resize": f"{_HERE}.resize:lower_resize",
    "graph.relayout": f"{_HERE}.shape:lower_copy",
}
"""``"graph op": "module:function"``."""
