"""Nodes of a tree, from a recording: one node for each prefix of each group, or of all in one tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from beamsplit.tree.recording import Branch, Recording

__all__ = ["ROOT", "Node", "nodes_of", "only"]

ROOT = -1


@dataclass(frozen=True, slots=True)
class Node:
    """A token, or a chunk of tokens, that a group put after a prefix."""

    parent: int
    """The index of its parent among the nodes; parents come before children. -1 for a first token."""
    depth: int
    lane: int
    """Nodes of a lane are drawn together: its group, or 0 if all groups make one tree."""
    colour: int
    """The group that it has the colour of; where several lead through it, that of the best output."""
    text: str
    before: str
    """The text of its prefix."""
    cost: float
    log_prob: float
    kept: bool
    """Whether it leads to a hypothesis."""
    lived: bool
    """Whether it became a beam or ended, and was not dropped at once."""
    ended: bool
    rank: int = 0
    """The rank, among distinct texts, of the hypothesis that ends here, from 1; 0 if none does."""
    final_log_prob: float = 0.0
    """The log-probability of that hypothesis."""
    size: int = 1
    """How many tokens it has: a chunk has several."""
    extra: bool = False
    """Whether this is not a token, but marks the end of a hypothesis that another one continues."""


def nodes_of(recording: Recording) -> tuple[Node, ...]:
    """Return a node for everything that was tried. Prefixes that samples share become one node."""
    nodes: list[Node] = []
    known: dict[tuple[int, int, tuple[int, ...]], int] = {}
    node_of: list[int] = []  # of each branch
    for index, branch in enumerate(recording.branches):
        parent = ROOT if branch.parent == ROOT else node_of[branch.parent]
        lane = 0 if recording.one_tree else branch.group
        this = known.setdefault((lane, parent, branch.added), len(nodes))
        made = _node(branch, lane, parent, nodes, kept=index in recording.kept)
        if this == len(nodes):
            nodes.append(made)
        else:
            nodes[this] = _merged(nodes[this], made)
        node_of.append(this)
    _set_ranks(nodes, node_of, recording)
    if recording.one_tree:
        _set_colours(nodes, node_of, recording)
    return tuple(_with_outcomes(_mark_ends(nodes)))


def _node(branch: Branch, lane: int, parent: int, nodes: Sequence[Node], kept: bool) -> Node:
    above = None if parent == ROOT else nodes[parent]
    return Node(
        parent=parent,
        depth=above.depth + 1 if above else 0,
        lane=lane,
        colour=branch.group,
        text=branch.text,
        before=above.before + above.text if above else "",
        cost=branch.cost,
        log_prob=branch.log_prob,
        kept=kept,
        lived=kept or branch.fate != "dropped",
        ended=branch.fate == "ended",
        size=len(branch.added),
    )


def _merged(one: Node, other: Node) -> Node:
    return replace(
        one,
        kept=one.kept or other.kept,
        lived=one.lived or other.lived,
        ended=one.ended or other.ended,
    )


def _set_ranks(nodes: list[Node], node_of: Sequence[int], recording: Recording) -> None:
    for rank, end, found in zip(_ranks(recording), recording.ends, recording.hypotheses, strict=True):
        if end is not None:
            node = nodes[node_of[end]]
            nodes[node_of[end]] = replace(
                node,
                rank=rank,
                final_log_prob=found.log_prob,
                ended=node.ended or found.finished,
            )


def _set_colours(nodes: list[Node], node_of: Sequence[int], recording: Recording) -> None:
    """Give the path to each hypothesis the colour of its group, from where it leaves those before it."""
    coloured: set[int] = set()
    for end, found in zip(recording.ends, recording.hypotheses, strict=True):
        place = ROOT if end is None else node_of[end]
        while place != ROOT and place not in coloured:
            coloured.add(place)
            nodes[place] = replace(nodes[place], colour=found.group)
            place = nodes[place].parent


def _ranks(recording: Recording) -> list[int]:
    """Return the ranks of hypotheses among distinct texts. Those that read the same share a rank."""
    known: dict[object, int] = {}
    return [
        known.setdefault(found.tokens if found.text is None else found.text, len(known) + 1)
        for found in recording.hypotheses
    ]


def _mark_ends(nodes: list[Node]) -> list[Node]:
    """Mark dropped ends as ends too. They are those without text that nothing comes after."""
    parents = {node.parent for node in nodes}
    return [
        replace(node, ended=True) if not (node.text or node.lived or i in parents) else node
        for i, node in enumerate(nodes)
    ]


def _with_outcomes(nodes: list[Node]) -> list[Node]:
    """Add a node for the end of each hypothesis that another one continues."""
    continued = {node.parent for node in nodes if node.kept}
    made = [replace(node, rank=0, ended=False) if i in continued else node for i, node in enumerate(nodes)]
    return made + [_outcome(i, node) for i, node in enumerate(nodes) if i in continued and node.rank]


def _outcome(i: int, node: Node) -> Node:
    prefix = node.before + node.text
    return replace(node, parent=i, depth=node.depth + 1, text="", before=prefix, cost=0.0, extra=True)


def only(nodes: Sequence[Node], wanted: Callable[[Node], bool]) -> tuple[Node, ...]:
    """Return the nodes that are wanted, and those that lead to them."""
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
