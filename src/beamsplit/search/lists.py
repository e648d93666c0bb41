"""The candidate lists of one step: made of logits, by a kernel or by torch, or given by the model."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from beamsplit.errors import ArgumentError, ModelError
from beamsplit.model import Answer, Guided, LogProbs, Shortlist, is_normalised, plain
from beamsplit.search import kernels, noise
from beamsplit.search.asks import LAST, Widen
from beamsplit.search.frontier import Frontier
from beamsplit.search.plan import DrawingRule, Rule
from beamsplit.search.repeats import complete_again, completions
from beamsplit.search.select import Selection
from beamsplit.search.setting import Setting
from beamsplit.search.shortlist import (
    Scores,
    by_token,
    check_finite,
    check_lists,
    check_logits,
    merge,
    top_tokens,
    without,
)

__all__ = ["StepLists", "read_lists"]

_FACTOR = 4  # by which lists grow that were too short
_LIKELIEST = 256  # tokens that mostly have all that truncated sampling may draw
_MORE = 16  # times as many, for the rows of which they have not
_MUCH = 4096  # tokens of a vocabulary so large that giving noise to all of them takes long


class StepLists(Protocol):
    """The candidate lists of one step."""

    def of(self, frontier: Frontier, width: int) -> Shortlist:
        """Return lists for the beams of a frontier: tensors are [batch group beam k]."""
        ...

    def leave_nothing_out(self, width: int) -> bool:
        """Tell whether lists of this width hold every token."""
        ...

    def check_finite(self) -> None:
        """Raise if some row has no distribution."""
        ...

    def scores(self) -> Scores | None:
        """Return the scores of every token, where a processor has them; else None."""
        ...

    def widen(
        self, frontier: Frontier, selection: Selection, width: int
    ) -> Generator[Widen, Shortlist, int | None]:
        """Return a width that gives longer lists; None if longer ones are not to be had."""
        ...


def read_lists(
    setting: Setting,
    answer: Answer,
    rows: int,
    frontiers: Sequence[Frontier],
    sources: tuple[int, ...] = (LAST,),
) -> StepLists:
    """Read a model's answer of so many rows, which is put together from these sources."""
    if isinstance(answer, Guided) != setting.guided:
        raise ModelError("the model returned guidance in some steps and none in others: return zeros")
    if isinstance(answer, Shortlist) != (setting.vocabulary is None):
        raise ModelError(
            "the model answered with a Shortlist in some steps and with logits in others: return one of them"
        )
    if _may_rise(answer):
        for frontier in frontiers:
            frontier.may_rise = True
    if isinstance(answer, Shortlist):
        return _ModelLists(setting, answer, rows, frontiers, sources)
    return _VocabularyLists(setting, answer, rows, frontiers)


def _may_rise(answer: Answer) -> bool:
    """Tell whether totals may rise from here on."""
    is_guided = isinstance(answer, Guided) or (isinstance(answer, Shortlist) and answer.is_guided)
    return is_guided and not answer.bounded  # type: ignore[union-attr]


def _young(setting: Setting, frontiers: Sequence[Frontier]) -> list[Frontier]:
    """Return those that may not end at this step."""
    return [frontier for frontier in frontiers if frontier.time + 1 < setting.options.min_length]


class _VocabularyLists:
    """Lists made of logits, when asked for and as long as asked for."""

    def __init__(
        self, setting: Setting, answer: Tensor | Guided | LogProbs, rows: int, frontiers: Sequence[Frontier]
    ) -> None:
        check_logits(plain(answer), rows, setting.vocabulary)
        self._setting = setting
        self._answer = answer
        self._lists: dict[int, Shortlist] = {}
        young = _young(setting, frontiers)
        # Of a search that runs ahead: the model's answer is on a GPU, and the beams are not.
        self._is_elsewhere = plain(answer).device != setting.like.device
        has_kernels = kernels.available(plain(answer)) if self._is_elsewhere else setting.has_kernels
        self._reader = kernels.reader(answer, has_kernels and not young)
        self._ignored = _dead_rows(setting, frontiers)
        # Guidance may be infinite without being NaN, a ruled-out NaN hides, and nobody else has normalised.
        if setting.guided or young or is_normalised(answer):
            self.check_finite()
        for frontier in young:
            self._rule_out_ends(frontier)

    def of(self, frontier: Frontier, width: int) -> Shortlist:
        if self._setting.plan.rule.noisy and bool(frontier.beams.live.any()):
            return self._perturbed(frontier, width)
        if width not in self._lists:
            lists = self._reader.shortlist(width)
            if self._is_elsewhere:
                lists = lists.map(lambda values: values.to(self._setting.like.device))
            self._lists[width] = lists if self._ignored is None else _emptied(lists, self._ignored)
        return _laid_out(self._lists[width], frontier)

    def leave_nothing_out(self, width: int) -> bool:
        return width >= plain(self._answer).shape[1]

    def check_finite(self) -> None:
        ignored = None if self._ignored is None else self._ignored.to(plain(self._answer).device)
        check_finite(self._reader.scores, self._answer, ignored)

    def scores(self) -> Scores | None:
        is_here = not self._is_elsewhere and self._setting.like.device.type == "cpu"
        plain_rows = self._ignored is None and not self._setting.plan.rule.noisy
        return self._reader.scores if is_here and plain_rows else None

    def widen(
        self, frontier: Frontier, selection: Selection, width: int
    ) -> Generator[Widen, Shortlist, int | None]:
        return width * _FACTOR
        yield  # nothing: all of the vocabulary is here

    def _perturbed(self, frontier: Frontier, width: int) -> Shortlist:
        """Beams that share a row, as all do at first, must not share their noise: a row for each."""
        beams, index, scores = frontier.beams, frontier.rows.index, self._reader.scores
        keys = noise.slot_keys(frontier.seeds, frontier.groups, frontier.time, beams.score.shape[2])
        scores = scores.rows(index[beams.live])
        if (n := self._setting.options.no_repeat_ngram) is not None:
            scores.rule_out(completions(beams.tokens[beams.live], n))
        lists = _drawn(self._setting.plan.rule, scores, keys[beams.live], width)
        place = beams.live.flatten().cumsum(0).view_as(index) - 1
        return lists.at(place.clamp(min=0))

    def _rule_out_ends(self, frontier: Frontier) -> None:
        rows = frontier.rows.index[frontier.beams.live].unsqueeze(1)
        scores = self._reader.scores
        scores.log_prob[rows, self._setting.end_ids] = -torch.inf
        scores.gain[rows, self._setting.end_ids] = -torch.inf


class _ModelLists:
    """Lists that the model has given. It may be asked for longer ones."""

    def __init__(
        self,
        setting: Setting,
        answer: Shortlist,
        rows: int,
        frontiers: Sequence[Frontier],
        sources: tuple[int, ...],
    ) -> None:
        self._ignored = _dead_rows(setting, frontiers)
        check_lists(answer, rows, self._ignored)
        _check_known(setting, answer)
        self._setting = setting
        self._sources = sources
        self._given = by_token(answer)
        self._young = _young(setting, frontiers)

    def of(self, frontier: Frontier, width: int) -> Shortlist:
        lists = self._given if self._ignored is None else _emptied(self._given, self._ignored)
        lists = _laid_out(lists, frontier)
        if frontier in self._young:
            lists = without(lists, self._setting.ends(lists.tokens))
        return self._perturbed(lists, frontier) if self._setting.plan.rule.noisy else lists

    def leave_nothing_out(self, width: int) -> bool:
        return bool((self._given.rest == -torch.inf).all())

    def check_finite(self) -> None:
        """Do nothing: lists are checked when they are read."""

    def scores(self) -> None:
        return None

    def widen(
        self, frontier: Frontier, selection: Selection, width: int
    ) -> Generator[Widen, Shortlist, int | None]:
        if not self._setting.abilities.widens or selection.doubt is None or not self._may_help:
            return None
        doubtful = selection.doubt.unsqueeze(2) & frontier.beams.live
        rows, before = torch.unique(frontier.rows.index[doubtful]), self._given.tokens.shape[1]
        longer = yield Widen(rows, before * _FACTOR, self._sources)
        check_lists(longer, len(rows))
        _check_known(self._setting, longer)
        if not _is_longer(longer, self._given.at(rows)):
            return None
        self._given = merge(self._given, rows, longer)
        return self._given.tokens.shape[1]

    @property
    def _may_help(self) -> bool:
        """Whether longer lists may be certain: not so where every token of the vocabulary may be drawn."""
        rule = self._setting.plan.rule
        return not rule.noisy or (isinstance(rule, DrawingRule) and rule.keeps_to_few)

    def _perturbed(self, lists: Shortlist, frontier: Frontier) -> Shortlist:
        """Let every beam draw by the noise that it would have with the whole vocabulary."""
        rule, n = self._setting.plan.rule, self._setting.options.no_repeat_ngram
        assert isinstance(rule, DrawingRule)
        unlisted = (1 - lists.gain.exp().sum(-1)).clamp(min=0)
        if n is not None:
            lists = without(lists, complete_again(lists.tokens, frontier.beams.tokens, n))
        is_whole = n is None and frontier not in self._young and not lists.is_guided
        keys = noise.slot_keys(frontier.seeds, frontier.groups, frontier.time, frontier.beams.score.shape[2])
        noises = noise.gumbel_of(keys, lists.tokens, lists.gain.dtype)
        return rule.perturb_lists(lists, noises, unlisted if is_whole else None)


def _drawn(rule: Rule, scores: Scores, keys: Tensor, width: int, count: int = _LIKELIEST) -> Shortlist:
    """Return the best tokens of each row by keys that are made random.

    Where a rule draws from a few likely tokens alone, only so many are given noise: the same as otherwise.
    """
    is_much = scores.vocabulary >= max(_MUCH, 2 * count)
    if not (isinstance(rule, DrawingRule) and rule.keeps_to_few and is_much):
        return _drawn_of_all(rule, scores, keys, width)
    tokens = top_tokens(scores.gain, max(count, width)).sort(dim=1).values
    log_prob, complete = rule.likeliest(scores.gain, tokens)
    key = log_prob + noise.gumbel_of(keys, tokens, scores.gain.dtype)
    best = key.topk(width).indices.sort(dim=1).values
    lists = _listed(scores, tokens.gather(1, best), key.gather(1, best))
    if bool(complete.all()):
        return lists
    others = (~complete).nonzero().squeeze(1)
    return _replaced(lists, others, _drawn(rule, scores.rows(others), keys[others], width, _MORE * count))


def _drawn_of_all(rule: Rule, scores: Scores, keys: Tensor, width: int) -> Shortlist:
    return rule.perturb(scores, noise.gumbel(keys, scores.vocabulary, scores.gain.dtype)).shortlist(width)


def _replaced(lists: Shortlist, rows: Tensor, others: Shortlist) -> Shortlist:
    """Return the lists with those of these rows replaced by others, which are as long."""

    def put(values: Tensor, replacement: Tensor) -> Tensor:
        return values.index_copy(0, rows, replacement)

    log_prob = put(lists.log_prob, others.log_prob)
    gain = put(lists.gain, others.gain) if lists.is_guided else log_prob
    key = put(lists.key, others.key)
    return Shortlist(put(lists.tokens, others.tokens), log_prob, put(lists.rest, others.rest), gain, key)


def _listed(scores: Scores, tokens: Tensor, key: Tensor) -> Shortlist:
    """Return lists of these tokens [rows k], which have these keys."""
    log_prob = scores.log_prob.gather(1, tokens)
    gain = log_prob if scores.gain is scores.log_prob else scores.gain.gather(1, tokens)
    return Shortlist(tokens, log_prob, key.amin(1), gain, key)


def _is_longer(longer: Shortlist, before: Shortlist) -> bool:
    """Tell whether some list has more candidates than before, or leaves less out."""
    more = (longer.log_prob > -torch.inf).sum(1) > (before.log_prob > -torch.inf).sum(1)
    return bool((more | (longer.rest.to(before.rest.dtype) < before.rest)).any())


def _check_known(setting: Setting, lists: Shortlist) -> None:
    """Raise if a token is listed that the diversity term does not know."""
    known = getattr(setting.plan.diversity, "vocabulary", None)
    if known is not None and int(lists.tokens.max()) >= known:
        raise ArgumentError(
            f"{type(setting.plan.diversity).__name__} knows {known} tokens, and the model lists token "
            f"{int(lists.tokens.max())}: give it one row for each token of the model"
        )


def _laid_out(lists: Shortlist, frontier: Frontier) -> Shortlist:
    index = frontier.rows.index
    return lists.shaped(index) if frontier.rows.in_order else lists.at(index)


def _dead_rows(setting: Setting, frontiers: Sequence[Frontier]) -> Tensor | None:
    """Return the rows [rows] that stand for no live beam, where the model has a fixed number of rows."""
    (first, *_) = frontiers
    if not setting.abilities.fixed_rows or not first.time or first.dense:
        return None
    return ~first.beams.live.flatten()


def _emptied(lists: Shortlist, rows: Tensor) -> Shortlist:
    """Return the lists with nothing in these rows: their answers may be anything."""

    def empty(values: Tensor) -> Tensor:
        return values.masked_fill(rows.view(-1, *[1] * (values.dim() - 1)), -torch.inf)

    log_prob = empty(lists.log_prob)
    gain = log_prob if lists.gain is lists.log_prob else empty(lists.gain)
    key = gain if lists.key is lists.gain else empty(lists.key)
    return Shortlist(lists.tokens, log_prob, empty(lists.rest), gain, key, lists.bounded)
