"""Choose a list for every input: outputs that are likely and say what no other of the list says.

Outputs are chosen one after another. Each is the one of highest score, less a price for every pair of
neighbouring tokens that an output chosen before it has too. Outputs that do not exist yet take part as
branches: a prefix and a next token that was not followed. The score that a branch is expected to end with is
that of the best output that has the prefix, with the one token exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from beamsplit.scoring import Scorer
from beamsplit.search.branching.tree import NOTHING, Outputs, Prefixes, Tree
from beamsplit.search.results import final_scores

__all__ = ["Choice", "Chooser", "Said", "pair_codes"]

_BRANCHES = 256
"""Branches of an input that are looked at: the most promising before any is chosen."""

_AGAIN = 5.0
"""A pair that the list has costs its price; one that the whole list has would cost so many prices more."""

_REPEATED = 0.5
"""The share of what follows a branch that is expected to be in the list already."""


@dataclass(frozen=True, slots=True)
class Said:
    """Pairs of neighbouring tokens, and how many times each was said in a list."""

    codes: Tensor  # [m] in order
    times: Tensor  # [m]
    count: int  # the outputs of a list

    def prices(self, codes: Tensor) -> Tensor:
        """Return what these pairs cost, in the price of one that was said once."""
        place = torch.searchsorted(self.codes, codes).clamp(max=len(self.codes) - 1)
        return price_of(torch.where(self.codes[place] == codes, self.times[place], 0), self.count)

    def add(self, codes: Tensor) -> Said:
        """Return the same with these pairs said once more."""
        every, place = torch.unique(torch.cat([self.codes, codes]), return_inverse=True)
        times = torch.cat([self.times, torch.ones_like(codes)])
        return Said(every, torch.zeros_like(every).index_add_(0, place, times), self.count)


def price_of(times: Tensor, count: int) -> Tensor:
    """Return the price of a pair that was said so many times, in a list of so many outputs.

    >>> price_of(torch.tensor([0, 1, 2, 3]), 20)
    tensor([0.0000, 1.0000, 1.2500, 1.5000])
    """
    return (times > 0) * (1 + _AGAIN / count * (times - 1))


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen for every input, in order. Tensors are [batch choice], NOTHING where there is none."""

    output: Tensor  # the place of a complete output, or NOTHING: it is a branch
    prefix: Tensor  # the place of a branch's prefix
    slot: Tensor  # which of the prefix's candidates the branch begins with
    worth: Tensor  # the score that it has or is expected to have, before the price of what the list has
    value: Tensor  # what it was chosen by
    said: Said  # the pairs of all that was chosen

    def without_branches(self, which: Tensor) -> Choice:
        """Return the choice without these branches [batch choice]."""
        return replace(self, prefix=self.prefix.masked_fill(which, NOTHING))


@dataclass(frozen=True, slots=True)
class Chooser:
    """How lists are chosen."""

    count: int
    price: Tensor  # [batch] of a pair of tokens that is in the list already
    scorer: Scorer
    max_length: int
    base: int  # more than any token

    def choose(self, tree: Tree, outputs: Outputs, keys: Tensor, first: Tensor, *, branches: bool) -> Choice:
        """Choose among these outputs, and among branches if so asked.

        `keys` [outputs] are equal for outputs of one input that read the same, of which one is chosen at
        most. `first` [batch] is the output that every list begins with.
        """
        found = _of_outputs(outputs, keys)
        if branches:
            found = _Flat(*map(torch.cat, zip(found, self._branches(tree, outputs), strict=True)))
        return self._greedy(self._laid_out(tree, found), first)

    def _branches(self, tree: Tree, outputs: Outputs) -> _Flat:
        """Return the most promising branches of every input."""
        prefixes = tree.prefixes
        rest, ahead = _expected(outputs, prefixes, tree.paths(), self.max_length)
        prefix, slot = prefixes.is_open.nonzero(as_tuple=True)
        # An end is treated as any other token: that it spares the rest is no merit.
        ahead, price = ahead[prefix], self.price[prefixes.input[prefix]]
        worth = prefixes.next_score[prefix, slot] + rest[prefix] - price * _REPEATED * ahead
        # The list is likely to have most pairs of the prefix.
        promise = worth - price * prefixes.length[prefix]
        best = _best_of_each(prefixes.input[prefix], promise, len(self.price))
        prefix, nothing = prefix[best], torch.full_like(best, NOTHING)
        return _Flat(
            input=prefixes.input[prefix],
            output=nothing,
            prefix=prefix,
            slot=slot[best],
            token=prefixes.next_token[prefix, slot[best]],
            worth=worth[best],
            length=prefixes.length[prefix] + 1,
            ahead=ahead[best],
            key=nothing,
        )

    def _laid_out(self, tree: Tree, flat: _Flat) -> _Options:
        """Return a table with a row for each input."""
        batch = len(self.price)
        codes, pairs = self._pairs(tree, flat)
        where, width = _places(flat.input, batch)

        def lay_out(values: Tensor, nothing: float) -> Tensor:
            laid = values.new_full((batch * width, *values.shape[1:]), nothing)
            laid[where] = values
            return laid.view(batch, width, *values.shape[1:])

        return _Options(
            output=lay_out(flat.output, NOTHING),
            prefix=lay_out(torch.where(flat.output == NOTHING, flat.prefix, NOTHING), NOTHING),
            slot=lay_out(flat.slot, NOTHING),
            worth=lay_out(flat.worth, -torch.inf),
            length=lay_out(flat.length, 0),
            ahead=lay_out(flat.ahead, 0),
            key=lay_out(flat.key, NOTHING),
            pairs=lay_out(pairs, len(codes)),
            codes=codes,
        )

    def _pairs(self, tree: Tree, flat: _Flat) -> tuple[Tensor, Tensor]:
        """Return the codes of all pairs, and which of them every option has: [n longest] places in these.

        Where an option has no more pairs, the place is one past the end.
        """
        prefixes = tree.prefixes
        last = pair_codes(flat.input, prefixes.token[flat.prefix], flat.token, self.base)
        inner = pair_codes(prefixes.input, prefixes.token[prefixes.parent], prefixes.token, self.base)
        codes, place = torch.unique(torch.cat([last, inner]), return_inverse=True)
        along = tree.paths()[flat.prefix, 1:]  # the root has no token
        before = torch.where(along == NOTHING, len(codes), place[len(last) :][along])
        return codes, torch.cat([before, place[: len(last), None]], dim=1)

    def _greedy(self, options: _Options, first: Tensor) -> Choice:
        """Choose one after another, for all inputs at once."""
        batch = torch.arange(len(first), device="cpu")
        times = torch.zeros(len(options.codes) + 1, dtype=torch.long, device="cpu")  # each pair was said
        is_open = options.length > 0
        picked, values = [], []
        for number in range(min(self.count, options.length.shape[1])):
            value = self._values(options, times).masked_fill(~is_open, -torch.inf)
            best = value.argmax(1) if number else (options.output == first.unsqueeze(1)).int().argmax(1)
            exists = is_open[batch, best]
            picked.append(torch.where(exists, best, NOTHING))
            values.append(torch.where(exists, value[batch, best], -torch.inf))
            times += _pairs_said(options, best, exists)
            key = options.key[batch, best].unsqueeze(1)
            is_open &= (options.key != key) | (options.key == NOTHING)
            is_open[batch, best] = False
        known = times[:-1] > 0
        said = Said(options.codes[known], times[:-1][known], self.count)
        return _choice(options, torch.stack(picked, 1), torch.stack(values, 1), said)

    def _values(self, options: _Options, times: Tensor) -> Tensor:
        """Return what every option [batch n] is worth when each pair was said so many times."""
        # In double precision: how a sum is rounded depends on its length, that of the batch's longest output.
        prices = price_of(times, self.count).double()
        repeated = prices[options.pairs].sum(2).to(options.worth.dtype)
        total = options.worth - self.price.unsqueeze(1) * repeated
        return final_scores(self.scorer, total, options.length + options.ahead)


@dataclass(frozen=True, slots=True)
class _Options:
    """All that may be chosen: [batch n], and of length 0 where there is nothing."""

    output: Tensor
    prefix: Tensor
    slot: Tensor
    worth: Tensor
    length: Tensor
    ahead: Tensor  # tokens that are expected to follow
    key: Tensor  # equal where two read the same; NOTHING: not known yet
    pairs: Tensor  # [batch n longest] places in `codes`; one past the end where there is none
    codes: Tensor  # [m]


class _Flat(NamedTuple):
    """The same in one column, for all inputs. A complete output has a prefix too: all but its last token."""

    input: Tensor
    output: Tensor
    prefix: Tensor
    slot: Tensor
    token: Tensor
    worth: Tensor
    length: Tensor
    ahead: Tensor
    key: Tensor


def _pairs_said(options: _Options, best: Tensor, exists: Tensor) -> Tensor:
    """Return 1 for each pair that some input's best option has, also if it has it twice: [pairs+1]."""
    pairs = options.pairs[torch.arange(len(best), device="cpu"), best]
    said = torch.zeros(len(options.codes) + 1, dtype=torch.long, device="cpu")
    said[pairs[exists]] = 1
    said[-1] = 0  # the place of no pair
    return said


def pair_codes(input_: Tensor, before: Tensor, token: Tensor, base: int) -> Tensor:
    """Return a number for each pair of neighbouring tokens of an input; NOTHING stands before the first."""
    return (input_ * (base + 1) + before + 1) * base + token


def _places(inputs: Tensor, batch: int) -> tuple[Tensor, int]:
    """Return the place of every entry in a table [batch width] with a row for each input, and the width."""
    counts = torch.bincount(inputs, minlength=batch)
    width = int(counts.max())
    order = inputs.argsort(stable=True)
    within = torch.arange(len(inputs), device="cpu") - (counts.cumsum(0) - counts)[inputs[order]]
    where = torch.empty_like(order)
    where[order] = inputs[order] * width + within
    return where, width


def _of_outputs(outputs: Outputs, keys: Tensor) -> _Flat:
    """Return complete outputs as what may be chosen."""
    count = torch.arange(len(outputs.input), device="cpu")
    nothing = torch.full_like(count, NOTHING)
    return _Flat(
        input=outputs.input,
        output=count,
        prefix=outputs.prefix,
        slot=nothing,
        token=outputs.token,
        worth=outputs.worth,
        length=outputs.length,
        ahead=torch.zeros_like(count),
        key=keys,
    )


def _expected(outputs: Outputs, prefixes: Prefixes, paths: Tensor, max_length: int) -> tuple[Tensor, Tensor]:
    """Return what is expected after one more token [n]: what it adds to the score, and how many tokens.

    It is what follows in the best output that has the prefix. A prefix that no output has looks at the
    nearest of its own prefixes that some output has. Nothing follows where an output is as long as it may be.
    """
    output = _best_outputs(outputs, paths)
    # The output's score before the token that stands where the next one but one would.
    place = torch.minimum(prefixes.length + 1, outputs.length[output] - 1)
    before = prefixes.score[paths[outputs.prefix[output], place]]
    ahead = (outputs.length[output] - prefixes.length - 1).clamp(min=1)
    is_last = prefixes.length + 1 == max_length
    return (outputs.score[output] - before).masked_fill(is_last, 0.0), ahead.masked_fill(is_last, 0)


def _best_outputs(outputs: Outputs, paths: Tensor) -> Tensor:
    """Return the best output of each prefix, or else of its nearest prefix that has one: [n].

    For an input without outputs it is that of some other input: its prefixes are not open.
    """
    size, longest = paths.shape
    order = outputs.worth.argsort(stable=True)  # from the worst to the best
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device="cpu")
    # Every output tells its rank to all of its prefixes, and these keep the highest.
    along = paths[outputs.prefix]
    told = torch.where(along == NOTHING, size, along).flatten()
    highest = torch.full((size + 1,), NOTHING, device="cpu")
    highest.scatter_reduce_(0, told, rank.unsqueeze(1).expand_as(along).flatten(), "amax")
    highest[size] = NOTHING  # the place of no prefix
    known = highest[torch.where(paths == NOTHING, size, paths)]  # [n longest]
    nearest = ((known != NOTHING) * torch.arange(longest, device="cpu")).amax(1, keepdim=True)
    return order[known.gather(1, nearest).squeeze(1)]


def _best_of_each(inputs: Tensor, value: Tensor, batch: int) -> Tensor:
    """Return the places of the best few of every input."""
    order = value.argsort(descending=True, stable=True)
    order = order[inputs[order].argsort(stable=True)]
    counts = torch.bincount(inputs, minlength=batch)
    within = torch.arange(len(order), device="cpu") - (counts.cumsum(0) - counts)[inputs[order]]
    return order[within < _BRANCHES]


def _choice(options: _Options, picked: Tensor, value: Tensor, said: Said) -> Choice:
    """Return what was picked: [batch choice] places in the options."""

    def taken(values: Tensor) -> Tensor:
        nothing = NOTHING if values.dtype == torch.long else -torch.inf
        return values.gather(1, picked.clamp(min=0)).masked_fill(picked == NOTHING, nothing)

    return Choice(
        output=taken(options.output),
        prefix=taken(options.prefix),
        slot=taken(options.slot),
        worth=taken(options.worth),
        value=value,
        said=said,
    )
