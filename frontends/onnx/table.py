"""Operator to import rule. Each family file holds one table; this joins them."""

from __future__ import annotations

from functools import cache

from .node import Rule


@cache
def rules() -> dict[tuple[str, str], Rule]:
    """All rules by ``(domain, operator)``; the standard domain is the empty string."""
    from .control import CONTROL_RULES
    from .rules_binary import BINARY_RULES
    from .rules_elementwise import ELEMENTWISE_RULES
    from .rules_grid import GRID_RULES
    from .rules_indexing import INDEXING_RULES
    from .rules_linear import LINEAR_RULES
    from .rules_nn import NN_RULES
    from .rules_quantize import QUANTIZE_RULES
    from .rules_recurrent import RECURRENT_RULES
    from .rules_reduce import REDUCE_RULES
    from .rules_shape import SHAPE_RULES

    families = (
        CONTROL_RULES, ELEMENTWISE_RULES, BINARY_RULES, NN_RULES, LINEAR_RULES, REDUCE_RULES, SHAPE_RULES,
        INDEXING_RULES, QUANTIZE_RULES, RECURRENT_RULES,
        GRID_RULES,
    )  # fmt: skip
    return {("", name): rule for family in families for name, rule in family.items()}


def find_rule(domain: str, operator: str) -> Rule | None:
    """The rule of an operator, if there is one."""
    return rules().get((domain, operator))
