"""What a decode returns: hypotheses, and lists of them."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, overload

from beamsplit.errors import ArgumentError

__all__ = ["Hypotheses", "Hypothesis"]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One output."""

    tokens: tuple[int, ...]
    """Ids, the end token included if there is one."""
    log_prob: float
    """The model's log-probability of `tokens`: no penalty, no normalisation."""
    score: float
    """What its group ranks it by: penalties, guidance and length normalisation included."""
    group: int = 0
    finished: bool = True
    """Whether it ended by an end token; if not, it ran into max_length."""
    text: str | None = None
    certified: bool = True
    """Whether every choice that led to it was certain. Only lists that are too short leave doubt."""


class Hypotheses(Sequence[Hypothesis]):
    """The outputs for one input, by log-probability as the scorer sees it; `groups` has them by score.

    Of equals in a group, the one that the search ranked first comes first.

    >>> list_ = Hypotheses([Hypothesis((5, 2), -1.5, -1.5), Hypothesis((4, 2), -0.5, -2.0, group=1)])
    >>> list_.best.tokens, len(list_), list_.groups[0][0].tokens
    ((4, 2), 2, (5, 2))
    """

    __slots__ = ("_all", "_ranks")

    def __init__(self, hypotheses: Iterable[Hypothesis] = ()) -> None:
        self._all = tuple(sorted(hypotheses, key=lambda h: -h.log_prob))
        self._ranks = tuple(range(len(self._all)))  # of each, in its group: breaks ties

    @classmethod
    def ordered(cls, hypotheses: Iterable[Hypothesis], ranks: Iterable[int] | None = None) -> Hypotheses:
        """Return a list in the order given: a scorer may rank by more than log-probability.

        `ranks` say which of two equals in a group comes first; by default, the one that stands first.
        """
        made = cls()
        made._all = tuple(hypotheses)
        made._ranks = tuple(range(len(made._all)) if ranks is None else ranks)
        return made

    @property
    def best(self) -> Hypothesis:
        """The first: the likeliest, unless a length-normalising scorer had a say."""
        if not self._all:
            raise ArgumentError(
                "there is no best of no hypotheses: the search met a dead end (min_length? masks?)"
            )
        return self._all[0]

    @property
    def groups(self) -> tuple[tuple[Hypothesis, ...], ...]:
        """The same hypotheses by group, each group by score."""
        count = max((h.group for h in self._all), default=-1) + 1
        ranked = sorted(zip(self._all, self._ranks, strict=True), key=lambda pair: (-pair[0].score, pair[1]))
        return tuple(tuple(h for h, _ in ranked if h.group == g) for g in range(count))

    @property
    def texts(self) -> tuple[str | None, ...]:
        return tuple(h.text for h in self._all)

    def with_text(self, detokenise: Callable[[tuple[int, ...]], str]) -> Hypotheses:
        """Return the same list with `text` filled in from the tokens."""
        return Hypotheses.ordered([replace(h, text=detokenise(h.tokens)) for h in self._all], self._ranks)

    def sorted_by(self, values: Sequence[float]) -> Hypotheses:
        """Return the same list in the order of these numbers, one for each: the highest first."""
        order = sorted(range(len(self._all)), key=lambda index: -values[index])
        return Hypotheses.ordered([self._all[i] for i in order], [self._ranks[i] for i in order])

    def distinct(self) -> Hypotheses:
        """Return the list with each text once, where it stands first; without texts, each token sequence.

        A text may be cut into word pieces in more ways than one, so `decode(unique=True)` need not do this.
        """
        first: dict[object, tuple[Hypothesis, int]] = {}
        for hypothesis, rank in zip(self._all, self._ranks, strict=True):
            content = hypothesis.tokens if hypothesis.text is None else hypothesis.text
            first.setdefault(content, (hypothesis, rank))
        return Hypotheses.ordered([h for h, _ in first.values()], [rank for _, rank in first.values()])

    def _repr_html_(self) -> str:
        """As a table, for notebooks."""
        rows = (
            f"<tr><td>{h.log_prob:.2f}</td><td>{h.group + 1}</td><td>{_cell(h)}</td></tr>" for h in self._all
        )
        head = "<tr><th>log-probability</th><th>group</th><th>output</th></tr>"
        return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"

    def to_json(self, **options: Any) -> str:
        """As JSON; `options` go to `json.dumps`."""
        return json.dumps([asdict(h) for h in self._all], **options)

    @classmethod
    def from_json(cls, text: str) -> Hypotheses:
        """What `to_json` wrote."""
        try:
            return Hypotheses.ordered([_from_entry(entry) for entry in _entries(json.loads(text))])
        except (ValueError, TypeError, KeyError) as error:
            raise ArgumentError(
                f"not a JSON list of hypotheses: {' '.join(str(error).split())} (write it with to_json)"
            ) from error

    @overload
    def __getitem__(self, index: int) -> Hypothesis: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hypothesis, ...]: ...
    def __getitem__(self, index: int | slice) -> Hypothesis | tuple[Hypothesis, ...]:
        return self._all[index]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Hypothesis]:
        return iter(self._all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hypotheses) and self._all == other._all

    def __hash__(self) -> int:
        return hash(self._all)

    def __repr__(self) -> str:
        return f"Hypotheses({list(self._all)})"


def _cell(hypothesis: Hypothesis) -> str:
    said = hypothesis.text if hypothesis.text is not None else " ".join(map(str, hypothesis.tokens))
    return html.escape(said) + ("" if hypothesis.finished else " …")


def _entries(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"a {type(value).__name__} at the top")
    return value


_KINDS = {
    "log_prob": float,
    "score": float,
    "group": int,
    "finished": bool,
    "text": str | None,
    "certified": bool,
}


def _from_entry(entry: Any) -> Hypothesis:
    tokens = entry["tokens"]
    if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
        raise TypeError("tokens are not a list of whole numbers")
    made = Hypothesis(**{**entry, "tokens": tuple(tokens)})
    for name, kind in _KINDS.items():
        value = getattr(made, name)
        if not isinstance(value, kind) and not (kind is float and type(value) is int):
            raise TypeError(f"{name} is {value!r}")
    return made
