"""Keep eight of many answers: any, the likeliest, or such as differ."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from beamsplit import Hypotheses, Hypothesis
from beamsplit.errors import ArgumentError
from beamsplit.selecting import Similarity, choose
from research.novelty.settings import KEPT, SEED, WIDE, Row

__all__ = ["any_eight", "by_margin", "farthest", "keep", "likeliest", "per_token"]


def keep(row: Row, found: Sequence[Hypothesis], prompt: str, similarity: Similarity) -> list[Hypothesis]:
    """Return the answers that a setting keeps of those for a prompt, which is given by its id."""
    match row.keep:
        case "first":
            places: Sequence[int] = range(min(KEPT, len(found)))
        case "any 8":
            places = any_eight(len(found), prompt)
        case "likeliest":
            places = likeliest(found)[:KEPT]
        case "farthest":
            places = farthest(found, likeliest(found), similarity)
        case "farthest of the likelier":
            places = farthest(found, likeliest(found)[: WIDE // 2], similarity)
        case "mmr":
            places = by_margin(found, row.diversity, similarity)
        case "dpp" | "diverse-mbr":
            made = Hypotheses.ordered(found)
            places = choose(made, KEPT, by=row.keep, diversity=row.diversity, similarity=similarity)
        case _:
            raise ArgumentError(f"there is no way to keep {row.keep!r}")
    return [found[place] for place in places]


def any_eight(count: int, prompt: str) -> list[int]:
    """Return places at random: of independent samples, any eight are eight independent samples."""
    return random.Random(f"{SEED} {prompt}").sample(range(count), KEPT)


def per_token(answer: Hypothesis) -> float:
    """Return the log-probability of an answer per token, its end included."""
    return answer.log_prob / max(len(answer.tokens), 1)


def likeliest(found: Sequence[Hypothesis]) -> list[int]:
    """Return all places, the likeliest per token first."""
    return sorted(range(len(found)), key=lambda place: -per_token(found[place]))


def by_margin(
    found: Sequence[Hypothesis], weight: float, similarity: Callable[[Hypothesis, Hypothesis], float]
) -> list[int]:
    """Return places by log-probability per token, less so many times the likeness to the nearest before.

    That is how the groups of a chunk-wise search choose, and the rule of Carbonell & Goldstein 1998.
    """
    chosen: list[int] = []
    nearest = dict.fromkeys(range(len(found)), 0.0)
    while nearest and len(chosen) < KEPT:
        best = max(nearest, key=lambda place: per_token(found[place]) - weight * nearest[place])
        chosen.append(best)
        del nearest[best]
        for place in nearest:
            nearest[place] = max(nearest[place], similarity(found[place], found[best]))
    return chosen


def farthest(
    found: Sequence[Hypothesis], allowed: Sequence[int], similarity: Callable[[Hypothesis, Hypothesis], float]
) -> list[int]:
    """Return the first place that is allowed, then always the one that is least like its nearest before it.

    Of equals, the one that stands first among those allowed is taken.
    """
    chosen = list(allowed[:1])
    nearest = dict.fromkeys(allowed[1:], 0.0)
    while nearest and len(chosen) < KEPT:
        for place in nearest:
            nearest[place] = max(nearest[place], similarity(found[place], found[chosen[-1]]))
        chosen.append(min(nearest, key=nearest.__getitem__))
        del nearest[chosen[-1]]
    return chosen
