"""The data that a picture is drawn from: every branch that a search tried, and the hypotheses it found."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses

__all__ = ["ROOT", "Branch", "Fate", "Recording"]

Fate = Literal["lives", "ended", "dropped"]
ROOT = -1


@dataclass(frozen=True, slots=True)
class Branch:
    """A token that a group put after a prefix, or considered. In a chunk-wise search, a chunk of tokens."""

    parent: int
    """The index of the branch that it extends; -1 for a first token."""
    group: int
    time: int
    token: int
    text: str
    """The text that it adds to its prefix, with a space in front if it starts a new word."""
    log_prob: float
    """The model's log-probability of the whole prefix, this token included."""
    score: float
    """The score by which its group ranked the whole prefix."""
    cost: float
    """The penalty of this token alone, times the strength: what was taken off the score."""
    fate: Fate
    """`lives`: it was a beam after this step; `ended`: it was complete; `dropped`: others ranked higher."""
    tokens: tuple[int, ...] = ()
    """All tokens of a chunk of several, of which `token` is the last; empty for a token alone."""

    @property
    def added(self) -> tuple[int, ...]:
        """The tokens that it adds to its prefix."""
        return self.tokens or (self.token,)


@dataclass(frozen=True)
class Recording:
    """The search for one input, from its first step to its last, or so far."""

    title: str
    branches: tuple[Branch, ...]
    hypotheses: Hypotheses
    one_tree: bool = False
    """Whether groups went on from prefixes of each other. They are drawn as one tree, not side by side."""

    @functools.cached_property
    def groups(self) -> int:
        return 1 + max((branch.group for branch in self.branches), default=-1)

    @functools.cached_property
    def ends(self) -> tuple[int | None, ...]:
        """The last branch of each hypothesis: of its own group if there is one, otherwise of any."""
        of_any = {tokens: branch for (_, tokens), branch in self._branch_of.items()}
        return tuple(self._branch_of.get((h.group, h.tokens), of_any.get(h.tokens)) for h in self.hypotheses)

    @functools.cached_property
    def kept(self) -> frozenset[int]:
        """The branches that lead to a hypothesis."""
        kept: set[int] = set()
        for end in self.ends:
            branch = ROOT if end is None else end
            while branch != ROOT and branch not in kept:
                kept.add(branch)
                branch = self.branches[branch].parent
        return frozenset(kept)

    def __repr__(self) -> str:
        """Return one line: all that was tried would fill many screens."""
        counts = {"groups": self.groups, "branches": len(self.branches), "hypotheses": len(self.hypotheses)}
        return f"<Recording {self.title!r}: {', '.join(f'{count} {name}' for name, count in counts.items())}>"

    def svg(self) -> str:
        """Return a picture of the search."""
        from beamsplit.tree import draw

        return draw([self])

    _repr_svg_ = svg

    def to_json(self, **options: Any) -> str:
        """Return the recording as JSON. `options` go to `json.dumps`."""
        return json.dumps(self.as_dict(), **options)

    def as_dict(self) -> dict[str, Any]:
        """Return the content of `to_json` as a dictionary."""
        return {
            "title": self.title,
            "branches": [_as_dict(branch) for branch in self.branches],
            "asked": self.hypotheses.asked,
            "hypotheses": [asdict(hypothesis) for hypothesis in self.hypotheses],
            "one_tree": self.one_tree,
        }

    @classmethod
    def from_json(cls, text: str) -> Recording:
        """Read what `to_json` wrote."""
        try:
            content = json.loads(text)
            branches = _checked(tuple(_branch(**each) for each in content["branches"]))
            hypotheses = Hypotheses.from_json(json.dumps(content["hypotheses"]), asked=content.get("asked"))
            if not isinstance(content["title"], str):
                raise TypeError(f"title is {content['title']!r}")
            return cls(content["title"], branches, hypotheses, bool(content.get("one_tree", False)))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ArgumentError(f"not the JSON of a recording: {' '.join(str(error).split())}") from error

    @functools.cached_property
    def _branch_of(self) -> dict[tuple[int, tuple[int, ...]], int]:
        """Branches by group and tokens."""
        sequences: list[tuple[int, ...]] = []
        for branch in self.branches:
            before = () if branch.parent == ROOT else sequences[branch.parent]
            sequences.append(before + branch.added)
        return {
            (branch.group, tokens): i
            for i, (branch, tokens) in enumerate(zip(self.branches, sequences, strict=True))
        }


def _as_dict(branch: Branch) -> dict[str, Any]:
    """Return a branch as a dictionary, without the tokens of a chunk where there is none."""
    return {name: value for name, value in asdict(branch).items() if name != "tokens" or value}


_KINDS = {
    "parent": int,
    "group": int,
    "time": int,
    "token": int,
    "text": str,
    "log_prob": int | float,
    "score": int | float,
    "cost": int | float,
    "fate": str,
}
_MOST = 1_000_000  # groups and steps: to draw a picture takes some room for each


def _branch(tokens: Sequence[int] = (), **content: Any) -> Branch:
    made = Branch(**content, tokens=tuple(tokens))
    for name, kind in _KINDS.items():
        if not isinstance(getattr(made, name), kind):
            raise TypeError(f"{name} is {getattr(made, name)!r}")
    if made.fate not in get_args(Fate):
        raise ValueError(f"fate is {made.fate!r}")
    if not (0 <= made.group < _MOST and 0 <= made.time < _MOST):
        raise ValueError(f"group {made.group} and time {made.time} must be from 0 to {_MOST}")
    return made


def _checked(branches: tuple[Branch, ...]) -> tuple[Branch, ...]:
    for i, branch in enumerate(branches):
        if branch.parent not in range(ROOT, i):
            raise ValueError(f"branch {i} extends branch {branch.parent}, which does not come before it")
    return branches
