"""Follow the branches that were chosen to their ends, all inputs and all branches at once.

A round goes from the first token on, time step by time step. A branch has the tokens of its prefix, and then
the one by which it leaves. From there on it takes the token of highest score, less the price of a pair that
the list has already. Where the model's earlier states are kept, the model is asked about new prefixes
alone. Otherwise it walks along the old ones again, once along each, however many branches share it.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from beamsplit.model import Answer
from beamsplit.search.asks import Advance
from beamsplit.search.branching.choice import Choice, pair_codes
from beamsplit.search.branching.explorer import CANDIDATES, Explorer, Reached
from beamsplit.search.branching.tree import NOTHING, Outputs
from beamsplit.search.select import Picks, Selection
from beamsplit.search.state import Beams

__all__ = ["Round"]


class Round:
    """The branches of one round. Tensors are [branch] unless they say more, in the order of inputs."""

    def __init__(self, explorer: Explorer, choice: Choice, price: Tensor) -> None:
        prefixes, paths = explorer.tree.prefixes, explorer.tree.paths()
        is_branch = choice.prefix != NOTHING
        self._explorer = explorer
        self._said = choice.said
        self._input, self._number = is_branch.nonzero(as_tuple=True)
        self.inputs, self._place = torch.unique(self._input, return_inverse=True)
        self._numbers = is_branch.shape[1]
        self._price = price[self._input]
        self._expected = choice.worth[is_branch]
        self._prefix, slot = choice.prefix[is_branch], choice.slot[is_branch]  # as far as it has come
        self._path = paths[self._prefix]  # [branch length] the old prefixes that it has
        self._leaves = prefixes.length[self._prefix]  # how many tokens it has of old
        self._tokens = self._old_tokens()
        self._token = prefixes.next_token[self._prefix, slot]  # which it takes next
        self._log_prob = prefixes.next_log_prob[self._prefix, slot]
        self._score = prefixes.next_score[self._prefix, slot]
        self._cost = torch.zeros_like(self._score)  # what was paid for the next token
        self._paid = torch.zeros_like(self._score)  # and for all before it
        self._live = torch.ones_like(self._input, dtype=torch.bool)

    @property
    def is_empty(self) -> bool:
        """Whether there is no branch to follow."""
        return not len(self._input)

    def follow(self) -> Generator[Advance | Selection, Any, None]:
        """Follow all branches to their ends. Yields what is asked of the model, and what was done."""
        for time in range(self._explorer.setting.options.max_length):
            goes = self._live & (self._leaves <= time)
            self._tokens = _with_column(self._tokens, time, self._token, goes)
            ended = self._ends(goes, time)
            self._finish(goes, ended, time)
            yield self._selection(time, ended)
            if not bool(self._live.any()):
                return
            yield from self._advance(time)

    def _old_tokens(self) -> Tensor:
        """Return the tokens that branches have before they leave: [branch length], NOTHING beyond."""
        along = self._path[:, 1:]
        return torch.where(along == NOTHING, NOTHING, self._explorer.tree.prefixes.token[along])

    def _ends(self, goes: Tensor, time: int) -> Tensor:
        """Tell which branches are complete by the token that they take now."""
        setting = self._explorer.setting
        ended = setting.ends(self._token.to(setting.like.device)).cpu() & goes
        open_ = goes & ~ended
        if setting.options.stop is None or time + 1 < setting.options.min_length or not bool(open_.any()):
            return ended
        ended[open_] = self._explorer.stopped(self._input[open_], self._tokens[open_, : time + 1])
        return ended

    def _finish(self, goes: Tensor, ended: Tensor, time: int) -> None:
        """Put down what is complete, or as long as it may be."""
        done = goes & ended if time + 1 < self._explorer.setting.options.max_length else goes
        if not bool(done.any()):
            return
        score = self._score[done]
        # A branch that ends at once has saved itself the rest, and is worth no more for that.
        at_once = self._leaves[done] == time
        self._explorer.tree.finish(
            Outputs(
                input=self._input[done],
                prefix=self._prefix[done],
                token=self._token[done],
                length=torch.full_like(self._token[done], time + 1),
                log_prob=self._log_prob[done],
                score=score,
                worth=torch.where(at_once, torch.minimum(score, self._expected[done]), score),
                ended=ended[done],
            )
        )
        self._live = self._live & ~done

    def _advance(self, time: int) -> Generator[Advance, Answer, None]:
        """Ask the model what may follow, and let every branch choose."""
        goes = self._live & (self._leaves <= time)
        old = torch.unique(self._path[self._live & ~goes][:, time + 1 : time + 2])
        reached = Reached(
            self._prefix[goes],
            self._token[goes],
            self._log_prob[goes],
            self._score[goes],
            self._tokens[goes, : time + 1],
        )
        places = yield from self._explorer.extend(reached, old)
        self._prefix[goes] = places
        self._choose(goes)

    def _choose(self, goes: Tensor) -> None:
        """Let each branch take the token of highest score, less the price of a pair that the list has."""
        prefixes, place = self._explorer.tree.prefixes, self._prefix[goes]
        tokens, scores = prefixes.next_token[place], prefixes.next_score[place]
        inputs, before = self._input[goes].unsqueeze(1), self._token[goes].unsqueeze(1)
        codes = pair_codes(inputs, before, tokens, self._explorer.base)
        cost = self._said.prices(codes) * self._price[goes].unsqueeze(1)
        best = (scores - cost).argmax(1, keepdim=True)
        self._token[goes] = tokens.gather(1, best).squeeze(1)
        self._log_prob[goes] = prefixes.next_log_prob[place].gather(1, best).squeeze(1)
        self._score[goes] = scores.gather(1, best).squeeze(1)
        self._cost[goes] = cost.gather(1, best).squeeze(1)
        self._paid[goes] += self._cost[goes]
        self._said = self._said.add(codes.gather(1, best).squeeze(1))
        self._live &= self._score > -torch.inf  # nothing may follow: a dead end

    # What others see of it

    def _selection(self, time: int, ended: Tensor) -> Selection:
        """Return what the branches did, as groups of one beam."""
        prefixes = self._explorer.tree.prefixes
        old = self._leaves > time
        place = self._path[:, min(time + 1, self._path.shape[1] - 1)]
        shown = self._shown(time)
        log_prob = torch.where(old, prefixes.log_prob[place], self._log_prob)
        score = torch.where(old, prefixes.score[place], self._score - self._paid)
        token = self._tokens[:, time]
        picks = Picks(
            parent=self._laid_out(torch.zeros_like(token), shown, 0),
            token=self._laid_out(token, shown, 0),
            log_prob=self._laid_out(log_prob, shown, 0.0),
            score=self._laid_out(score, shown, -torch.inf),
            cost=self._laid_out(torch.where(old, 0.0, self._cost), shown, 0.0),
            order=self._laid_out(score, shown, -torch.inf),
        )
        live = self._laid_out(torch.where(self._live, score, -torch.inf), shown, -torch.inf)
        survivors = replace(picks, score=live, order=live)
        tokens = self._laid_out(self._tokens[:, : time + 1], shown, NOTHING)
        return Selection(
            groups=range(self._numbers),
            time=time,
            picks=picks,
            ended=self._laid_out(ended, shown, 0),
            survivors=survivors,
            width=CANDIDATES,
            any_end=bool(ended.any()),
            beams_after=Beams(tokens, picks.log_prob, live),
        )

    def _shown(self, time: int) -> Tensor:
        """Tell which branches have a token at this time."""
        return (self._tokens[:, time] != NOTHING) if time < self._tokens.shape[1] else self._live & False

    def _laid_out(self, values: Tensor, shown: Tensor, nothing: float) -> Tensor:
        """Return [input number 1] for branches that are shown."""
        laid = torch.full(
            (len(self.inputs), self._numbers, 1, *values.shape[1:]), nothing, dtype=values.dtype, device="cpu"
        )
        laid[self._place[shown], self._number[shown], 0] = values[shown]
        return laid


def _with_column(tokens: Tensor, time: int, token: Tensor, which: Tensor) -> Tensor:
    """Return the tokens [branch length] with these at this time, for the branches that they are of."""
    missing = time + 1 - tokens.shape[1]
    tokens = torch.nn.functional.pad(tokens, (0, max(missing, 0)), value=NOTHING)
    tokens[which, time] = token[which]
    return tokens
