"""Read the likeliest next tokens of some rows of a model's answer."""

from __future__ import annotations

import torch
from torch import Tensor

from beamsplit.errors import ModelError
from beamsplit.model import Answer, Guided, LogProbs, Shortlist, is_normalised, plain
from beamsplit.search import kernels
from beamsplit.search.repeats import complete_again, completions
from beamsplit.search.setting import Setting
from beamsplit.search.shortlist import by_token, check_finite, check_lists, check_logits, without

__all__ = ["falls_short", "read_candidates"]


def read_candidates(
    setting: Setting, answer: Answer, count: int, rows: Tensor, prefix: Tensor, width: int
) -> Shortlist:
    """Return the `width` likeliest tokens after these prefixes [n time], on the CPU.

    `rows` [n] are their rows of the answer, which has `count` rows. Lists are in the order of tokens.
    """
    rows = rows.to(setting.like.device)
    if isinstance(answer, Shortlist) != (setting.vocabulary is None):
        raise ModelError(
            "the model answered with a Shortlist in some steps and with logits in others: return one of them"
        )
    if isinstance(answer, Shortlist):
        lists = _of_lists(setting, answer, count, rows, prefix, width)
    else:
        lists = _of_logits(setting, answer, count, rows, prefix, width)
    return lists.map(lambda values: values.cpu())


def _of_logits(
    setting: Setting, answer: Tensor | Guided | LogProbs, count: int, rows: Tensor, prefix: Tensor, width: int
) -> Shortlist:
    check_logits(plain(answer), count, setting.vocabulary)
    young, n = _is_young(setting, prefix), setting.options.no_repeat_ngram
    reader = kernels.reader(answer, setting.has_kernels and not young and n is None)
    if setting.guided or is_normalised(answer):
        check_finite(reader.scores, answer)
    if young or n is not None:
        scores = reader.scores.rows(rows)
        if young:
            scores.rule_out(setting.end_ids.expand(len(rows), -1))
        if n is not None:
            scores.rule_out(completions(prefix, n).to(rows.device))
        lists = scores.shortlist(width)
    else:
        lists = reader.shortlist(width).at(rows)
    if bool(lists.log_prob.isnan().any()):
        check_finite(reader.scores, answer)
    return lists


def _of_lists(
    setting: Setting, answer: Shortlist, count: int, rows: Tensor, prefix: Tensor, width: int
) -> Shortlist:
    check_lists(answer, count)
    lists = by_token(answer).at(rows)
    if _is_young(setting, prefix):
        lists = without(lists, setting.ends(lists.tokens))
    if (n := setting.options.no_repeat_ngram) is not None:
        lists = without(lists, complete_again(lists.tokens, prefix.to(rows.device), n))
    if lists.tokens.shape[1] <= width:
        return lists
    best = lists.gain.sort(dim=1, descending=True, stable=True).indices[:, :width].sort(dim=1).values
    gain = lists.gain.gather(1, best)
    # What is left out is known, so that nothing is in doubt.
    return Shortlist(lists.tokens.gather(1, best), lists.log_prob.gather(1, best), gain.amin(1), gain)


def _is_young(setting: Setting, prefix: Tensor) -> bool:
    """Tell whether an output that has one more token may not end."""
    return prefix.shape[1] + 1 < setting.options.min_length


def falls_short(lists: Shortlist, width: int) -> Tensor:
    """Tell which lists [rows] lack tokens that are among the `width` likeliest."""
    return ((lists.gain > -torch.inf).sum(1) < width) & (lists.rest > -torch.inf)
