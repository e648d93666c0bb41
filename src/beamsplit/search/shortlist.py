"""From a model's answer to candidate lists: each row's best tokens, and a bound on every token left out.

Whole rows of the vocabulary are read here, once a step for all rows of all groups (samplers add their noise
on the way). Everything behind works on lists of a few dozen tokens.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from beamsplit.errors import ModelError
from beamsplit.model import Guided, LogProbs, Shortlist, is_normalised, log_softmax, padded, plain, score_type

__all__ = [
    "Reader",
    "Scores",
    "VocabularyReader",
    "by_token",
    "check_finite",
    "check_lists",
    "check_logits",
    "merge",
    "top_tokens",
    "without",
]

_HEIGHT = 16  # of a column; see top_tokens
_SURE = 1e-3  # rounding may put the log-probability of a sure token as far above 0


@dataclass(frozen=True, slots=True)
class Scores:
    """Every token of every row [rows vocab], before any is listed. The three may be one tensor."""

    log_prob: Tensor
    gain: Tensor
    key: Tensor

    @property
    def vocabulary(self) -> int:
        return self.key.shape[1]

    def rows(self, rows: Tensor) -> Scores:
        """Return these rows, repeated or dropped as `rows` says."""
        log_prob = self.log_prob[rows]
        gain = log_prob if self.gain is self.log_prob else self.gain[rows]
        return Scores(log_prob, gain, gain if self.key is self.gain else self.key[rows])

    def rule_out(self, tokens: Tensor) -> None:
        """Let no row have its tokens [rows p], where -1 is none."""
        row, place = (tokens >= 0).nonzero(as_tuple=True)
        for values in (self.log_prob, self.gain, self.key):
            values[row, tokens[row, place]] = -torch.inf

    def shortlist(self, width: int) -> Shortlist:
        """Return the `width` best tokens of each row by key; all of them if the vocabulary is no larger."""
        if width >= self.vocabulary:
            tokens = torch.arange(self.vocabulary, device=self.key.device).expand_as(self.key)
            rest = self.key.new_full((self.key.shape[0],), -torch.inf)
            return Shortlist(tokens, self.log_prob, rest, self.gain, self.key)
        tokens = top_tokens(self.key, width).sort(dim=1).values
        log_prob = self.log_prob.gather(1, tokens)
        gain = log_prob if self.gain is self.log_prob else self.gain.gather(1, tokens)
        key = log_prob if self.key is self.log_prob else self.key.gather(1, tokens)
        return Shortlist(tokens, log_prob, key.amin(1), gain, key)


class Reader(Protocol):
    """Reads logits over the whole vocabulary. There is one in plain torch, and one that is a GPU kernel."""

    @property
    def scores(self) -> Scores:
        """The scores of every token."""
        ...

    def shortlist(self, width: int) -> Shortlist:
        """Return the `width` best tokens of each row."""
        ...


class VocabularyReader:
    """Reads logits, with or without guidance, in plain torch."""

    def __init__(self, answer: Tensor | Guided | LogProbs) -> None:
        self._answer = answer

    @functools.cached_property
    def scores(self) -> Scores:
        log_prob = log_softmax(self._answer)
        if not isinstance(self._answer, Guided):
            return Scores(log_prob, log_prob, log_prob)
        guidance = self._answer.guidance
        if guidance.shape != log_prob.shape:
            raise ModelError(
                f"guidance is {list(guidance.shape)} for logits of {list(log_prob.shape)}: they must be alike"
            )
        gain = log_prob + guidance
        return Scores(log_prob, gain, gain)

    def shortlist(self, width: int) -> Shortlist:
        return self.scores.shortlist(width)


def top_tokens(key: Tensor, width: int) -> Tensor:
    """Return the ids of the `width` largest entries of each row [rows vocab] -> [rows width], in no order.

    On a CPU `topk` is slow on long rows. So cut them into columns of a few entries each and take the
    `width` columns with the largest maxima, which is the same task on a shorter row: among them are
    all the entries looked for.
    """
    rows, vocabulary = key.shape
    columns = vocabulary // _HEIGHT
    if key.device.type != "cpu" or columns < 8 * width:
        return key.topk(width, sorted=False).indices
    even = columns * _HEIGHT
    chosen = top_tokens(key[:, :even].view(rows, _HEIGHT, columns).amax(1), width)
    first = torch.arange(0, even, columns, device=key.device)
    tokens = (chosen.unsqueeze(1) + first.unsqueeze(1)).flatten(1)
    if even < vocabulary:  # the few that fill no column
        remaining = torch.arange(even, vocabulary, device=key.device)
        tokens = torch.cat([tokens, remaining.expand(rows, -1)], dim=1)
    return tokens.gather(1, key.gather(1, tokens).topk(width, sorted=False).indices)


def merge(lists: Shortlist, rows: Tensor, longer: Shortlist) -> Shortlist:
    """Return the lists with those of these rows replaced by longer ones."""
    width = max(lists.tokens.shape[1], longer.tokens.shape[1])
    lists, longer = padded(lists, width), padded(longer, width)

    def put(values: Tensor, replacement: Tensor) -> Tensor:
        return values.index_copy(0, rows, replacement.to(values.dtype))

    log_prob = put(lists.log_prob, longer.log_prob)
    gain = put(lists.gain, longer.gain) if lists.is_guided or longer.is_guided else log_prob
    tokens, rest = put(lists.tokens, longer.tokens), put(lists.rest, longer.rest)
    return by_token(Shortlist(tokens, log_prob, rest, gain, bounded=lists.bounded))


def by_token(lists: Shortlist) -> Shortlist:
    """Sort each list by token, as ties are broken by token. Empty places come first, and gain nothing.

    All values are rounded to one type, which never puts the smaller above the larger.
    """
    dtype, empty = score_type(lists), lists.log_prob == -torch.inf
    tokens, order = lists.tokens.masked_fill(empty, -1).sort(dim=1)
    log_prob = lists.log_prob.to(dtype).gather(1, order)
    if not lists.is_guided:
        return Shortlist(tokens, log_prob, lists.rest.to(dtype), log_prob, log_prob, lists.bounded)
    gain = lists.gain.to(dtype).masked_fill(empty, -torch.inf).gather(1, order)
    return Shortlist(tokens, log_prob, lists.rest.to(dtype), gain, gain, lists.bounded)


def without(lists: Shortlist, forbidden: Tensor) -> Shortlist:
    """Return the lists without the tokens that are forbidden [rows k]."""

    def forbid(values: Tensor) -> Tensor:
        return values.masked_fill(forbidden, -torch.inf)

    log_prob = forbid(lists.log_prob)
    gain = log_prob if lists.gain is lists.log_prob else forbid(lists.gain)
    key = gain if lists.key is lists.gain else forbid(lists.key)
    return Shortlist(lists.tokens, log_prob, lists.rest, gain, key, lists.bounded)


# Checks of answers


def check_logits(logits: Tensor, rows: int | None, vocabulary: int | None) -> None:
    """Raise unless these are logits [rows vocab], of so many rows and tokens if it is known how many."""
    if logits.dim() != 2 or not logits.is_floating_point():
        raise ModelError(
            f"the model returned {logits.dtype} logits of shape {list(logits.shape)}: "
            "they must be floating-point, [rows vocabulary]"
        )
    _check_rows(logits.shape[0], rows)
    if vocabulary is not None and logits.shape[1] != vocabulary:
        raise ModelError(
            f"the model returned logits over {logits.shape[1]} tokens after {vocabulary} before: "
            "the vocabulary must not change between steps"
        )


def check_lists(lists: Shortlist, rows: int | None, ignored: Tensor | None = None) -> None:
    """Raise unless these are candidate lists [rows k], of so many rows if it is known how many.

    What is in rows that are ignored [rows] does not matter.
    """
    shape = list(lists.tokens.shape)
    if lists.tokens.dim() != 2 or not shape[1] or lists.tokens.is_floating_point():
        raise ModelError(
            f"the model returned a Shortlist whose tokens are {lists.tokens.dtype} of shape {shape}: "
            "they must be whole numbers, [rows k]"
        )
    for name, column in {"log_prob": lists.log_prob, "gain": lists.gain}.items():
        if column.shape != lists.tokens.shape or not column.is_floating_point():
            raise ModelError(
                f"the model returned a Shortlist with {name} of {column.dtype} {list(column.shape)} for "
                f"tokens of {shape}: they must be floating-point, one for each token"
            )
    if lists.rest.shape != (shape[0],):
        raise ModelError(
            f"the model returned a Shortlist with rest of {list(lists.rest.shape)} for {shape[0]} rows: "
            "give one bound a row"
        )
    if lists.key is not lists.gain:
        raise ModelError("the model returned a Shortlist with a key, which is the search's own: leave it out")
    devices = {str(values.device) for values in (lists.tokens, lists.log_prob, lists.gain, lists.rest)}
    if len(devices) > 1:
        raise ModelError(
            f"the model returned a Shortlist on {' and '.join(sorted(devices))}: put it on one device"
        )
    _check_rows(shape[0], rows)
    _check_log_probs(lists, ignored)


def _check_log_probs(lists: Shortlist, ignored: Tensor | None) -> None:
    log_prob, present = lists.log_prob, lists.log_prob > -torch.inf
    bad = (~(log_prob <= _SURE)).any(1) | ~present.any(1)
    bad |= lists.gain.isnan().any(1) | (lists.gain == torch.inf).any(1) | lists.rest.isnan()
    if ignored is not None:
        bad &= ~ignored
    if bool(bad.any()):
        row = int(bad.nonzero()[0, 0])
        raise ModelError(
            f"the model returned a Shortlist with log-probabilities {log_prob[row].tolist()[:3]}... in "
            f"row {row} of {len(bad)}: they must be normalised, none above 0 or NaN, and one at least finite"
        )
    if bool(((lists.tokens < 0) & present).any()):
        raise ModelError("the model returned a Shortlist with a token below 0: list ids of its vocabulary")
    ordered = lists.tokens.masked_fill(~present, -1).sort(dim=1).values
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if ignored is not None:
        twice &= ~ignored.unsqueeze(1)
    if bool(twice.any()):
        row, place = twice.nonzero()[0].tolist()
        raise ModelError(
            f"the model returned a Shortlist with token {int(ordered[row, place])} twice in row {row}: "
            "list each token once"
        )


def _check_rows(got: int, rows: int | None) -> None:
    if rows is not None and got != rows:
        raise ModelError(
            f"the model returned logits for {got} rows when {rows} were asked for: "
            "select must return one row for each index it is given, and step one for each token"
        )


def check_finite(scores: Scores, answer: Tensor | Guided | LogProbs, ignored: Tensor | None = None) -> None:
    """Raise if some row has no distribution, those that are ignored [rows] aside.

    NaN spreads over a row of log-probabilities, so that one entry tells; guidance, and what the model has
    normalised itself, have to be looked at whole.
    """
    bad = scores.log_prob[:, 0].isnan()
    if is_normalised(answer):
        bad = bad | (~(scores.log_prob <= _SURE)).any(1) | (scores.log_prob == -torch.inf).all(1)
    if isinstance(answer, Guided):
        bad = bad | (scores.gain.isnan() | (scores.gain == torch.inf)).any(1)
    if ignored is not None:
        bad = bad & ~ignored
    if not bool(bad.any()):
        return
    logits = plain(answer)
    row = int(bad.nonzero()[0, 0])
    problem = _problem(logits[row], is_normalised(answer))
    cure = "mend what guides it (a logits processor?)" if "guidance" in problem else "mend the model"
    raise ModelError(f"the model's logits have {problem} (row {row} of {logits.shape[0]}): {cure}")


def _problem(values: Tensor, normalised: bool) -> str:
    if bool(values.isnan().any()):
        return f"NaN at token {int(values.isnan().nonzero()[0, 0])}"
    if bool((values == torch.inf).any()):
        return f"+inf at token {int((values == torch.inf).nonzero()[0, 0])}"
    if bool((values == -torch.inf).all()):
        return "-inf for every token, so that none can follow"
    if normalised and bool((values > _SURE).any()):
        return f"a log-probability of {float(values.max()):g}, which is above 0"
    return "guidance that is NaN or infinite"
