"""What a decode returns: hypotheses, and lists of them."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, SupportsIndex, overload

from beamsplit.errors import ArgumentError

__all__ = ["Hypotheses", "Hypothesis", "Results", "blank_sign", "text_of"]

_LINES = 20  # what a repr shows of a list, and a notebook of a list of lists
_WIDTH = 79  # the longest line of a repr


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
    """Counts from 0; the first group has no penalty."""
    finished: bool = True
    """Whether it ended by an end token; if not, it ran into max_length."""
    text: str | None = None
    certified: bool = True
    """Whether every choice that led to it was certain. Only lists that are too short leave doubt."""


class Hypotheses(Sequence[Hypothesis]):
    """The outputs for one input, by log-probability as the scorer sees it; `groups` has them by score.

    Lists of `LateBranching` are in the order of choice instead: the first few of them differ most.

    Of equals in a group, the one that the search ranked first comes first. A list may fall short of what was
    `asked`: see `missing` and `repeats`. Two lists are equal if their outputs are.

    >>> list_ = Hypotheses([Hypothesis((5, 2), -1.5, -1.5), Hypothesis((4, 2), -0.5, -2.0, group=1)])
    >>> list_.best.tokens, len(list_), list_.groups[0][0].tokens
    ((4, 2), 2, (5, 2))
    """

    __slots__ = ("_all", "_asked", "_ranks")

    def __init__(self, hypotheses: Iterable[Hypothesis] = (), *, asked: int | None = None) -> None:
        self._all = tuple(sorted(hypotheses, key=lambda h: -h.log_prob))
        self._ranks = tuple(range(len(self._all)))  # of each, in its group: breaks ties
        self._asked = asked

    @classmethod
    def ordered(
        cls,
        hypotheses: Iterable[Hypothesis],
        ranks: Iterable[int] | None = None,
        *,
        asked: int | None = None,
    ) -> Hypotheses:
        """Return a list in the order given: not all are ranked by log-probability.

        `ranks` say which of two equals in a group comes first; by default, the one that stands first.
        """
        made = cls(asked=asked)
        made._all = tuple(hypotheses)
        made._ranks = tuple(range(len(made._all)) if ranks is None else ranks)
        return made

    @property
    def best(self) -> Hypothesis:
        """The first: the likeliest, unless a length-normalising scorer or `LateBranching` had a say."""
        if not self._all:
            raise ArgumentError(
                "there is no best hypothesis in an empty list: the search found no output that is allowed "
                "(look at min_length, and at tokens that the model rules out)"
            )
        return self._all[0]

    @property
    def groups(self) -> tuple[tuple[Hypothesis, ...], ...]:
        """The same hypotheses by group, each group by score."""
        count = max((h.group for h in self._all), default=-1) + 1
        ranked = sorted(zip(self._all, self._ranks, strict=True), key=lambda pair: (-pair[0].score, pair[1]))
        return tuple(tuple(h for h, _ in ranked if h.group == g) for g in range(count))

    @property
    def asked(self) -> int | None:
        """How many outputs were asked for; None if that is not known, as of a part of a list."""
        return self._asked

    @property
    def missing(self) -> int:
        """How many outputs fewer there are than were asked for.

        >>> Hypotheses([Hypothesis((5, 2), -1.5, -1.5)], asked=3).missing
        2
        """
        return 0 if self._asked is None else max(0, self._asked - len(self._all))

    @property
    def repeats(self) -> int:
        """How many outputs read as an earlier one does: those that `distinct` leaves out."""
        return len(self._all) - len(self.distinct())

    @property
    def texts(self) -> tuple[str | None, ...]:
        return tuple(h.text for h in self._all)

    def with_text(self, detokenise: Callable[[tuple[int, ...]], str]) -> Hypotheses:
        """Return the same list with `text` filled in from the tokens."""
        spoken = [replace(h, text=detokenise(h.tokens)) for h in self._all]
        return Hypotheses.ordered(spoken, self._ranks, asked=self._asked)

    def sorted_by(self, values: Sequence[float]) -> Hypotheses:
        """Return the same list in the order of these numbers, one for each: the highest first."""
        order = sorted(range(len(self._all)), key=lambda index: -values[index])
        return self.only(order, asked=self._asked)

    def only(self, indices: Iterable[int], *, asked: int | None = None) -> Hypotheses:
        """Return the outputs at these places of the list, in this order; `asked` is of the new list."""
        places = list(indices)
        chosen = [self._all[i] for i in places]
        return Hypotheses.ordered(chosen, [self._ranks[i] for i in places], asked=asked)

    def distinct(self) -> Hypotheses:
        """Return the list with each text once, where it stands first; without texts, each token sequence.

        A text may be cut into word pieces in more ways than one, so `decode(unique=True)` need not do this.
        """
        first: dict[object, tuple[Hypothesis, int]] = {}
        for hypothesis, rank in zip(self._all, self._ranks, strict=True):
            content = hypothesis.tokens if hypothesis.text is None else hypothesis.text
            first.setdefault(content, (hypothesis, rank))
        ranks = [rank for _, rank in first.values()]
        return Hypotheses.ordered([h for h, _ in first.values()], ranks, asked=self._asked)

    def _repr_html_(self) -> str:
        """Return a table, for notebooks."""
        rows = (f"<tr><td>{h.log_prob:.2f}</td><td>{h.group}</td>{_cell(h)}</tr>" for h in self._all)
        head = "<tr><th>log-probability</th><th>group</th><th>output</th></tr>"
        size, whole = _size(self), _count(len(self), "output")
        short = "" if size == whole else f"<p>{size}</p>"
        return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>{short}"

    def to_json(self, **options: Any) -> str:
        """Return its outputs as a JSON list, without what was `asked`; `options` go to `json.dumps`."""
        return json.dumps([asdict(h) for h in self._all], **options)

    @classmethod
    def from_json(cls, text: str, *, asked: int | None = None) -> Hypotheses:
        """Read what `to_json` wrote; `asked` is how many outputs were asked for, if that is known."""
        with _reading("a JSON list of hypotheses"):
            if asked is not None and type(asked) is not int:
                raise TypeError(f"asked is {asked!r}")
            return _from_entries(json.loads(text), asked)

    @overload
    def __getitem__(self, index: int) -> Hypothesis: ...
    @overload
    def __getitem__(self, index: slice) -> Hypotheses: ...
    def __getitem__(self, index: int | slice) -> Hypothesis | Hypotheses:
        if isinstance(index, slice):
            return Hypotheses.ordered(self._all[index], self._ranks[index])
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
        """Return a line for each hypothesis: its log-probability, its group and its text."""
        shown = self._all[:_LINES]
        values = [f"{h.log_prob:.2f}" for h in shown]
        width = max(map(len, values), default=0)
        lines = [
            _cut(f"  {value:>{width}}  group {h.group}  ", _quoted(h))
            for value, h in zip(values, shown, strict=True)
        ]
        return "\n".join([f"Hypotheses: {_size(self)}", *lines, *_more(len(self), "output")])


class Results(list[Hypotheses]):
    """The lists for several inputs, in their order: a list of `Hypotheses` that is shown briefly.

    >>> Results([Hypotheses([Hypothesis((5, 2), -1.5, -1.5, text="I see.")]), Hypotheses()])
    Results: 2 inputs
      0: 1 output, best -1.50 'I see.'
      1: 0 outputs

    Those of `decode(resumable=True)` can be gone on with: see `more`.
    """

    _continuation: Any = None  # see `beamsplit.continuing`, which is built on this module

    @classmethod
    def with_continuation(cls, lists: Iterable[Hypotheses], continuation: Any) -> Results:
        """Return lists that know how to go on."""
        made = cls(lists)
        made._continuation = continuation
        return made

    def more(
        self, model: Any, groups: int = 1, *, strength: float | Sequence[float] | None = None
    ) -> Results:
        """Search with so many groups more, and return the longer lists, without running the others again.

        They are what a search with all these groups would have returned, and can be gone on with in turn.
        The outputs of group g are `found[0].groups[g]`.

        Args:
            model: the model that found these lists.
            groups: how many groups to add.
            strength: the strength of these groups: one number, or one for each. It must be given where the
                strategy has one for each group; otherwise it is the strategy's own.

        >>> import beamsplit, torch
        >>> model = beamsplit.testing.MarkovModel(torch.tensor([[5.0, 4.0, 3.0]]).expand(3, 3))
        >>> strategy = beamsplit.DiverseBeamSearch(groups=1, strength=9.0)
        >>> found = beamsplit.decode(model, [0], strategy, max_length=2, resumable=True)
        >>> found.more(model)[0]
        Hypotheses: 2 outputs
          -0.82  group 0  tokens 0 0…
          -2.82  group 1  tokens 1 1…
        """
        return self._known_continuation().more(model, groups, strength)  # type: ignore[no-any-return]

    async def more_async(
        self, model: Any, groups: int = 1, *, strength: float | Sequence[float] | None = None
    ) -> Results:
        """Do what `more` does with a model whose verbs may be coroutines."""
        return await self._known_continuation().more_async(  # type: ignore[no-any-return]
            model, groups, strength
        )

    def _known_continuation(self) -> Any:
        if self._continuation is None:
            raise ArgumentError(
                "these lists do not have what it takes to go on, as lists from files and parts of lists have "
                "not: decode with resumable=True, and call more on what it returns"
            )
        return self._continuation

    def to_json(self, **options: Any) -> str:
        """Return a JSON list of lists; `options` go to `json.dumps`."""
        return json.dumps([[asdict(h) for h in found] for found in self], **options)

    @classmethod
    def from_json(cls, text: str) -> Results:
        """Read what `to_json` wrote."""
        with _reading("a JSON list of lists of hypotheses"):
            return cls(_from_entries(entries) for entries in _entries(json.loads(text)))

    @overload
    def __getitem__(self, index: SupportsIndex) -> Hypotheses: ...
    @overload
    def __getitem__(self, index: slice) -> Results: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Hypotheses | Results:
        if isinstance(index, slice):
            return Results(super().__getitem__(index))
        return super().__getitem__(index)

    def _repr_html_(self) -> str:
        """Return a table for each input, for notebooks."""
        if not self._is_whole:
            return f"<pre>{html.escape(repr(self))}</pre>"
        tables = [f"<p>input {i}</p>{found._repr_html_()}" for i, found in enumerate(self[:_LINES])]
        more = [f"<p>{line.strip()}</p>" for line in _more(len(self), "input")]
        return f"<div>{''.join([*tables, *more])}</div>"

    def __repr__(self) -> str:
        """Return a line for each input: how many outputs it has, and the first of them."""
        if not self._is_whole:
            return f"Results({list(self)})"
        lines = [_summary(i, found) for i, found in enumerate(self[:_LINES])]
        return "\n".join([f"Results: {_count(len(self), 'input')}", *lines, *_more(len(self), "input")])

    @property
    def _is_whole(self) -> bool:
        """Whether nobody has put something else into the list, as into any list."""
        return all(isinstance(found, Hypotheses) for found in self)


def text_of(hypothesis: Hypothesis) -> str:
    """Return the text; token ids if the model has no words.

    >>> text_of(Hypothesis((5, 2), -1.5, -1.5)), text_of(Hypothesis((2,), -1.5, -1.5, text=""))
    ('5 2', '')
    """
    return " ".join(map(str, hypothesis.tokens)) if hypothesis.text is None else hypothesis.text


def blank_sign(text: str) -> str:
    """Return what to show people in place of a text without letters; nothing if it has some.

    >>> blank_sign(""), blank_sign(" "), blank_sign("a")
    ('(empty)', '(blank)', '')
    """
    return "" if text.strip() else "(blank)" if text else "(empty)"


def _cell(hypothesis: Hypothesis) -> str:
    said = text_of(hypothesis)
    sign = blank_sign(said)
    shown = (f"<i>{sign}</i>" if sign else html.escape(said)) + ("" if hypothesis.finished else " …")
    return f'<td style="text-align: left; white-space: pre-wrap">{shown}</td>'  # lines of a text stay lines


def _summary(index: int, found: Hypotheses) -> str:
    line = f"  {index}: {_size(found)}"
    return _cut(f"{line}, best {found.best.log_prob:.2f} ", _quoted(found.best)) if found else line


def _quoted(hypothesis: Hypothesis) -> str:
    """Return the text as Python writes it, so that an empty one and one of several lines can be read."""
    goes_on = "" if hypothesis.finished else "…"
    if hypothesis.text is None:
        return f"tokens {' '.join(map(str, hypothesis.tokens[:_WIDTH]))}{goes_on}"
    return f"{hypothesis.text[:_WIDTH]!r}{goes_on}"  # the rest does not fit, and may be very long


def _cut(head: str, text: str) -> str:
    line = head + text
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."


def _size(found: Hypotheses) -> str:
    """Return how many outputs there are, and by how much that falls short of what was asked, if known.

    >>> hypothesis = Hypothesis((5, 2), -1.5, -1.5)
    >>> _size(Hypotheses([hypothesis], asked=1)), _size(Hypotheses([hypothesis, hypothesis], asked=3))
    ('1 output', '2 outputs of the 3 asked for, 1 of them different')
    """
    short = f" of the {found.asked} asked for" if found.missing else ""
    repeats = 0 if found.asked is None else found.repeats
    same = f", {len(found) - repeats} of them different" if repeats else ""
    return f"{_count(len(found), 'output')}{short}{same}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _more(number: int, noun: str) -> list[str]:
    return [f"  ... and {_count(number - _LINES, f'more {noun}')}"] if number > _LINES else []


@contextmanager
def _reading(kind: str) -> Iterator[None]:
    """Raise an error of ours for whatever is wrong with a JSON text."""
    try:
        yield
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ArgumentError(f"not {kind}: {' '.join(str(error).split())} (write it with to_json)") from error


def _entries(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"a {type(value).__name__} at the top")
    return value


def _from_entries(value: Any, asked: int | None = None) -> Hypotheses:
    return Hypotheses.ordered([_from_entry(entry) for entry in _entries(value)], asked=asked)


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
