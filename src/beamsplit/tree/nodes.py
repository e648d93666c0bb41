"""From a recording to the nodes of a tree: one for each prefix that a group spelled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from beamsplit.recording import Branch, Recording

__all__ = ["ROOT", "Node", "nodes_of", "only"]

ROOT = -1


@dataclass(frozen=True, slots=True)
class Node:
    """What a group said at one step after one prefix."""

    parent: int
    """By its place among the nodes, where it stands before its children; -1 if this is a first token."""
    depth: int
    group: int
    text: str
    before: str
    """What its prefix says."""
    cost: float
    log_prob: float
    kept: bool
    """Whether it leads to a hypothesis."""
    lived: bool
    """Whether it was more than a pick that was dropped at once."""
    ended: bool
    place: int = 0
    """That of the hypothesis that ends here, in the list of different texts, from 1; 0 if none does."""
    worth: float = 0.0
    """Its log-probability."""
    extra: bool = False
    """Whether this is no token, but where a hypothesis ends that another goes on from."""


def nodes_of(recording: Recording) -> tuple[Node, ...]:
    """All that was tried; what samples have in common stands there once."""
    nodes: list[Node] = []
    known: dict[tuple[int, int, int], int] = {}
    node_of: list[int] = []  # of each branch
    for place, branch in enumerate(recording.branches):
        parent = ROOT if branch.parent == ROOT else node_of[branch.parent]
        this = known.setdefault((branch.group, parent, branch.token), len(nodes))
        made = _node(branch, parent, nodes, kept=place in recording.kept)
        if this == len(nodes):
            nodes.append(made)
        else:
            nodes[this] = _merged(nodes[this], made)
        node_of.append(this)
    _give_places(nodes, node_of, recording)
    return tuple(_with_outcomes(_mark_ends(nodes)))


def _node(branch: Branch, parent: int, nodes: Sequence[Node], kept: bool) -> Node:
    above = None if parent == ROOT else nodes[parent]
    return Node(
        parent=parent,
        depth=above.depth + 1 if above else 0,
        group=branch.group,
        text=branch.text,
        before=above.before + above.text if above else "",
        cost=branch.cost,
        log_prob=branch.log_prob,
        kept=kept,
        lived=kept or branch.fate != "dropped",
        ended=branch.fate == "ended",
    )


def _merged(one: Node, other: Node) -> Node:
    return replace(
        one,
        kept=one.kept or other.kept,
        lived=one.lived or other.lived,
        ended=one.ended or other.ended,
    )


def _give_places(nodes: list[Node], node_of: Sequence[int], recording: Recording) -> None:
    for place, end, found in zip(_places(recording), recording.ends, recording.hypotheses, strict=True):
        if end is not None:
            node = nodes[node_of[end]]
            nodes[node_of[end]] = replace(
                node,
                place=place,
                worth=found.log_prob,
                ended=node.ended or found.finished,
            )


def _places(recording: Recording) -> list[int]:
    """Those of the hypotheses in the list of different texts: what reads as another does has its place."""
    known: dict[object, int] = {}
    return [
        known.setdefault(found.tokens if found.text is None else found.text, len(known) + 1)
        for found in recording.hypotheses
    ]


def _mark_ends(nodes: list[Node]) -> list[Node]:
    """An end that was dropped is one as well: it says nothing, and nothing comes after it."""
    parents = {node.parent for node in nodes}
    return [
        replace(node, ended=True) if not (node.text or node.lived or i in parents) else node
        for i, node in enumerate(nodes)
    ]


def _with_outcomes(nodes: list[Node]) -> list[Node]:
    """Where one hypothesis goes on from another, the shorter gets a node of its own to end in."""
    goes_on = {node.parent for node in nodes if node.kept}
    made = [replace(node, place=0, ended=False) if i in goes_on else node for i, node in enumerate(nodes)]
    return made + [_outcome(i, node) for i, node in enumerate(nodes) if i in goes_on and node.place]


def _outcome(i: int, node: Node) -> Node:
    said = node.before + node.text
    return replace(node, parent=i, depth=node.depth + 1, text="", before=said, cost=0.0, extra=True)


def only(nodes: Sequence[Node], wanted: Callable[[Node], bool]) -> tuple[Node, ...]:
    """The nodes that are wanted, and those that lead to them."""
    keep = [wanted(node) for node in nodes]
    for i in reversed(_from_root(nodes)):
        if keep[i] and nodes[i].parent != ROOT:
            keep[nodes[i].parent] = True
    return _renumbered(nodes, [i for i in range(len(nodes)) if keep[i]])


def _from_root(nodes: Sequence[Node]) -> list[int]:
    return sorted(range(len(nodes)), key=lambda i: nodes[i].depth)


def _renumbered(nodes: Sequence[Node], keep: Iterable[int]) -> tuple[Node, ...]:
    new = {ROOT: ROOT}
    for i in keep:
        new[i] = len(new) - 1
    return tuple(_moved(nodes[i], new[nodes[i].parent]) for i in new if i != ROOT)


def _moved(node: Node, parent: int) -> Node:
    return node if node.parent == parent else replace(node, parent=parent)
