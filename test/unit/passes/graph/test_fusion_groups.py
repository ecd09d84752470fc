"""Post-dominators against a brute-force definition, and what every grouping must satisfy."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.passes.graph.fusion_groups import Kind, Node, fusion_groups, post_dominators

E, B, INJ, RED = Kind.ELEMENTWISE, Kind.BROADCAST, Kind.INJECTIVE, Kind.REDUCTION
CONV, OPAQUE = Kind.COMPLEX_OUT_FUSABLE, Kind.OPAQUE


def chain(*kinds: Kind) -> list[Node]:
    """A chain of nodes whose operands are of their own kind; the last one escapes."""
    nodes = [Node(kind) for kind in kinds]
    for number, kind in enumerate(kinds[1:]):
        nodes[number].uses.append((number + 1, E if kind <= B else kind))
    nodes[-1].escapes = True
    return nodes


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    count = draw(st.integers(1, 14))
    nodes = [Node(draw(st.sampled_from(list(Kind)))) for _ in range(count)]
    for number in range(count):
        for consumer in draw(st.lists(st.integers(number + 1, count), max_size=3)):
            if consumer == count:
                nodes[number].escapes = True
            else:
                kind = nodes[consumer].kind
                nodes[number].uses.append((consumer, kind if kind >= INJ else draw(st.sampled_from([E, OPAQUE]))))
    return nodes


def reaches_exit_without(nodes: list[Node], start: int, banned: int) -> bool:
    stack, seen = [start], set()
    while stack:
        number = stack.pop()
        if number == banned or number in seen:
            continue
        seen.add(number)
        if nodes[number].escapes or not nodes[number].uses:
            return True
        stack.extend(consumer for consumer, _ in nodes[number].uses)
    return False


@given(graphs())
@settings(max_examples=200, deadline=None)
def test_post_dominator_is_the_first_node_on_every_way_out(nodes: list[Node]) -> None:
    for number, entry in enumerate(post_dominators(nodes)):
        dominating = [
            other for other in range(number + 1, len(nodes)) if not reaches_exit_without(nodes, number, other)
        ]
        assert entry.parent == (dominating[0] if dominating else None)


@given(graphs(), st.integers(1, 6))
@settings(max_examples=200, deadline=None)
def test_groups_are_legal(nodes: list[Node], limit: int) -> None:
    groups = fusion_groups(nodes, limit)
    for root in set(groups):
        members = [number for number, group in enumerate(groups) if group == root]
        assert max(members) == root and len(members) <= limit
        assert sum(nodes[number].kind in (RED, CONV) for number in members) <= 1
        if len(members) > 1:
            assert all(nodes[number].kind != OPAQUE for number in members)
        for number in members:
            if number != root:
                assert not nodes[number].escapes
                assert all(groups[consumer] == root for consumer, _ in nodes[number].uses)


def test_contraction_takes_its_epilogue() -> None:
    assert fusion_groups(chain(CONV, B, E)) == [2, 2, 2]


def test_contraction_takes_no_prologue() -> None:
    assert fusion_groups(chain(E, CONV, E)) == [0, 2, 2]


def test_elementwise_is_read_by_a_reduction_and_follows_it() -> None:
    assert fusion_groups(chain(E, RED, E)) == [2, 2, 2]


def test_two_reductions_stay_apart() -> None:
    assert fusion_groups(chain(RED, E, RED)) == [1, 1, 2]


def test_contraction_before_data_movement_stays_apart() -> None:
    assert fusion_groups(chain(CONV, E, INJ, E)) == [1, 1, 3, 3]


def test_diamond_closes_at_the_post_dominator() -> None:
    nodes = [Node(CONV, [(1, E), (2, E)]), Node(E, [(2, E)]), Node(E, escapes=True)]
    assert fusion_groups(nodes) == [2, 2, 2]


def test_diamond_with_a_reduction_does_not_fuse() -> None:
    nodes = [Node(E, [(1, RED), (2, E)]), Node(RED, [(2, OPAQUE)]), Node(B, escapes=True)]
    assert fusion_groups(nodes) == [0, 1, 2]


def test_residual_add_joins_one_of_two_contractions() -> None:
    nodes = [Node(CONV, [(2, E)]), Node(CONV, [(2, E)]), Node(B, escapes=True)]
    assert fusion_groups(nodes) in ([2, 1, 2], [0, 2, 2])


def test_value_used_twice_ends_a_group() -> None:
    nodes = [Node(CONV, [(1, E)]), Node(E, [(2, CONV), (3, E)]), Node(CONV, [(3, E)]), Node(B, escapes=True)]
    assert fusion_groups(nodes) == [1, 1, 3, 3]


def test_size_limit() -> None:
    groups = fusion_groups(chain(*[E] * 600), 256)
    assert max(groups.count(group) for group in groups) <= 256 and len(set(groups)) == 3


def test_long_chain_is_quick() -> None:
    start = time.perf_counter()
    fusion_groups(chain(*([CONV, B, E] * 2000)))
    assert time.perf_counter() - start < 2
