"""The lists of a branching search at any moment: which outputs they have, and which branches they lack."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from beamsplit.hypotheses import Hypotheses, Hypothesis
from beamsplit.search.branching.choice import Choice, Chooser
from beamsplit.search.branching.explorer import Explorer
from beamsplit.search.branching.rounds import Round
from beamsplit.search.branching.tree import NOTHING, Outputs

__all__ = ["Lists"]

_EFFORT = 1.5
"""Rounds after the first follow fewer branches, lest the model be asked about more prefixes than this for
each token that a list of the first output would have."""


_USUAL_COUNT = 20
"""The outputs of a list whose price is the strength itself. Who looks at fewer wants them to differ more."""


_SHORT = 9
"""Outputs of fewer tokens pay less, in proportion: there are few of them, so likely ones share more."""


_HIGHEST = 1e9
"""No price is higher, lest sums of prices be infinite: no output is worth that."""


class Lists:
    """Lists of so many outputs, chosen from what an explorer knows."""

    def __init__(
        self,
        explorer: Explorer,
        count: int,
        strength: float,
        to_text: Callable[[tuple[int, ...]], str] | None,
    ) -> None:
        self._explorer = explorer
        self._count = count
        self._to_text = to_text
        self._texts: dict[tuple[int, str], int] = {}
        self._first_keys: dict[int, int] = {}
        self._keys: list[int] = []
        outputs = explorer.tree.outputs
        batch = explorer.setting.batch
        self._first = _first_of_each(outputs.input, batch)
        exists = self._first != NOTHING
        # Where no output is allowed at all, there is nothing to branch from.
        explorer.tree.prefixes.is_open[~exists[explorer.tree.prefixes.input]] = False
        self._length = torch.where(exists, outputs.length[self._first], 1)
        cost = (-outputs.log_prob[self._first]).clamp(min=0) / self._length
        shortness = (self._length / _SHORT).clamp(max=1)
        price = strength * (_USUAL_COUNT / count) ** 0.5 * shortness * cost
        self._price = price.clamp(max=_HIGHEST)
        options = explorer.setting.options
        self._chooser = Chooser(count, self._price, options.ranking, options.max_length, explorer.base)

    def branches(self, *, limited: bool) -> Round | None:
        """Return the branches that the lists lack; None if they lack none."""
        choice = self._choose(self._explorer.tree.outputs, branches=True)
        if limited:
            choice = self._within_limits(choice)
        branches = Round(self._explorer, choice, self._price)
        return None if branches.is_empty else branches

    def freeze(self) -> Callable[[], list[Hypotheses]]:
        """Return a function that returns the lists of this moment."""
        size, doubt = len(self._explorer.tree.outputs.input), self._explorer.doubt.tolist()

        def assembled() -> list[Hypotheses]:
            outputs = Outputs(*(column[:size] for column in self._explorer.tree.outputs))
            return self._hypotheses(outputs, self._choose(outputs, branches=False), doubt)

        return assembled

    def _choose(self, outputs: Outputs, *, branches: bool) -> Choice:
        keys = torch.tensor(self._keys_of(outputs), dtype=torch.long, device="cpu")
        return self._chooser.choose(self._explorer.tree, outputs, keys, self._first, branches=branches)

    def _within_limits(self, choice: Choice) -> Choice:
        """Return the choice without branches that there is no room for, the last ones first."""
        limit = _EFFORT * self._count * self._length
        room = (limit - self._explorer.asked()) / self._length
        number = (choice.prefix != NOTHING).cumsum(1)
        fits = (room > 0).unsqueeze(1) & (number <= room.clamp(min=1).unsqueeze(1))
        return choice.without_branches(~fits)

    def _keys_of(self, outputs: Outputs) -> list[int]:
        """Return a key for each output, the same for outputs of one input that read the same.

        One that says nothing has the key of the first output, so that it is not chosen after it.
        """
        size, known = len(outputs.input), len(self._keys)
        if self._to_text is None:
            return list(range(size))
        new = Outputs(*(column[known:] for column in outputs))
        for index, tokens in zip(new.input.tolist(), self._explorer.tree.spell(new), strict=True):
            text = " ".join(self._to_text(tokens).split())
            key = self._texts.setdefault((index, text), len(self._texts))
            first = self._first_keys.setdefault(index, key)
            self._keys.append(key if text else first)
        return self._keys[:size]

    def _hypotheses(self, outputs: Outputs, choice: Choice, doubt: list[bool]) -> list[Hypotheses]:
        """Return what was chosen, in the order of choice, so that the first few are a list of few.

        By log-probability, the first few would be near copies of each other.
        """
        tokens = self._explorer.tree.spell(outputs)
        log_prob, ended = outputs.log_prob.tolist(), outputs.ended.tolist()
        lists = []
        for index, (places, values) in enumerate(
            zip(choice.output.tolist(), choice.value.tolist(), strict=True)
        ):
            chosen = [
                Hypothesis(tokens[place], log_prob[place], value, group, ended[place], None, not doubt[index])
                for group, (place, value) in enumerate(zip(places, values, strict=True))
                if place != NOTHING
            ]
            lists.append(Hypotheses.ordered(chosen, asked=self._count))
        return lists


def _first_of_each(inputs: Tensor, batch: int) -> Tensor:
    """Return where each input stands first [batch]; NOTHING if nowhere."""
    first = torch.full((batch,), len(inputs), device="cpu")
    first.scatter_reduce_(0, inputs, torch.arange(len(inputs), device="cpu"), "amin")
    return torch.where(first == len(inputs), NOTHING, first)
