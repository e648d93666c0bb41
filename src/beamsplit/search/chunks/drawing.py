"""Proposals that a model draws by itself: one call for a whole round, where an engine is behind the model.

What the model does not know of is seen to afterwards: a chunk is cut where it is complete, and before it says
an n-gram again; one that ends too early is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias

from beamsplit.model import Drawing, Drawn
from beamsplit.options import DecodeOptions
from beamsplit.search.asks import Ask, Draw
from beamsplit.search.chunks.boundaries import Ends
from beamsplit.search.chunks.paths import Proposal, Root

__all__ = ["draw"]

ToText: TypeAlias = Callable[[tuple[int, ...]], str]


def draw(
    roots: Sequence[Root], drawing: Drawing, options: DecodeOptions, complete: Ends, to_text: ToText
) -> Generator[Ask, Any, list[list[list[Proposal]]]]:
    """Return proposals by root and group. `complete` tells whether a chunk is."""
    asked = [(root.input, root.tokens) for root in roots for _ in root.groups]
    rows, prefixes = zip(*asked, strict=True)
    drawn = yield Draw(rows, prefixes, drawing)
    made = iter(
        [
            _proposals(prefix, [_one_chunk(each, drawing, complete, to_text) for each in chunks], options)
            for prefix, chunks in zip(prefixes, drawn, strict=True)
        ]
    )
    return [[next(made) for _ in root.groups] for root in roots]


def _one_chunk(drawn: Drawn, drawing: Drawing, complete: Ends, to_text: ToText) -> Drawn:
    """Return a chunk up to where it is complete. Few go on beyond, so one look at the text mostly tells."""
    tokens = drawn.tokens
    text = to_text(tokens)[:-1]
    if not any(mark in text for mark in drawing.marks):
        return drawn
    count = next((at for at in range(1, len(tokens)) if complete(tokens[:at])), len(tokens))
    return Drawn(tokens[:count], drawn.log_probs[:count])


def _proposals(prefix: tuple[int, ...], drawn: Sequence[Drawn], options: DecodeOptions) -> list[Proposal]:
    """Return what may be chosen of what was drawn after a prefix."""
    ends = frozenset(options.ends)
    cut = [_cut(prefix, each, ends, options) for each in drawn]
    return [
        Proposal(
            tokens=each.tokens,
            log_prob=sum(each.log_probs),
            gain=sum(each.log_probs),
            ended=each.tokens[-1] in ends,
            certified=True,
            where=None,
        )
        for each in cut
        if each.tokens
    ]


def _cut(prefix: tuple[int, ...], drawn: Drawn, ends: frozenset[int], options: DecodeOptions) -> Drawn:
    """Return as much of a chunk as may follow a prefix."""
    said, n = list(prefix), options.no_repeat_ngram
    known = {tuple(said[at : at + n]) for at in range(len(said) - n + 1)} if n else set()
    for token in drawn.tokens[: options.max_length - len(prefix)]:
        gram = (*said[len(said) - n + 1 :], token) if n and len(said) >= n - 1 else None
        if gram in known or (token in ends and len(said) + 1 < options.min_length):
            break
        if gram is not None:
            known.add(gram)
        said.append(token)
        if token in ends:
            break
    count = len(said) - len(prefix)
    return Drawn(drawn.tokens[:count], drawn.log_probs[:count])
