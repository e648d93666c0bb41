"""Ask the model about prefixes, and put down what it answers."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

import torch
from torch import Tensor

from beamsplit.model import Answer, padded
from beamsplit.search.asks import LAST, Advance
from beamsplit.search.branching.reading import falls_short, read_candidates
from beamsplit.search.branching.tree import NOTHING, Prefixes, Tree
from beamsplit.search.setting import Setting
from beamsplit.search.stopping import ask_stop

__all__ = ["CANDIDATES", "Explorer", "Reached"]

CANDIDATES = 8
"""How many next tokens of a prefix are looked at: the likeliest. As for first tokens, as many as outputs are
asked for, since an output may well begin with an unlikely word."""

_BASE = 1 << 20  # more tokens than any vocabulary has, where the model does not tell its size
_FIRST = 0  # the number of the model's first answer


class Reached(NamedTuple):
    """Prefixes that a search has reached, before the model is asked about them."""

    parent: Tensor  # [n] the place of the prefix that is one token shorter
    token: Tensor  # [n]
    log_prob: Tensor  # [n]
    score: Tensor  # [n]
    tokens: Tensor  # [n length] all of them


class Explorer:
    """A tree, and how it grows."""

    def __init__(self, setting: Setting, answer: Answer, outputs: int, *, keeps: bool) -> None:
        self.setting = setting
        self._width = max(CANDIDATES, outputs)
        self.doubt = torch.zeros(setting.batch, dtype=torch.bool, device="cpu")
        """[batch] whether some list of the model was too short."""
        self._keeps = keeps
        self._heights = [setting.batch]  # the rows of each answer
        inputs = torch.arange(setting.batch, device="cpu")
        nothing = torch.full_like(inputs, NOTHING)
        nought = torch.zeros(setting.batch, dtype=setting.like.dtype, device="cpu")
        root = Reached(nothing, nothing, nought, nought, inputs.view(-1, 1)[:, :0])
        self.tree = Tree(self._read(answer, inputs, inputs, root))

    @property
    def base(self) -> int:
        """More than any token."""
        return self.setting.vocabulary or _BASE

    def asked(self) -> Tensor:
        """Return how many prefixes of each input the model was asked about: [batch]."""
        return torch.bincount(self.tree.prefixes.input, minlength=self.setting.batch)

    def add(self, answer: Answer, height: int, rows: Tensor, reached: Reached) -> Tensor:
        """Put down what an answer of `height` rows says of prefixes in these rows. Returns their places."""
        inputs = self.tree.prefixes.input[reached.parent]
        self._heights.append(height)
        return self.tree.add(self._read(answer, rows, inputs, reached))

    def extend(self, reached: Reached, old: Tensor) -> Generator[Advance, Answer, Tensor]:
        """Ask the model about prefixes. Returns their places.

        `old` are the places of prefixes of the same length that other branches have. Where states are not
        kept, the model is asked about them again, so that these branches can go on from there.
        """
        if self._keeps:
            if not len(reached.token):
                return reached.token
            rows, sources = self._kept_rows(reached.parent)
            answer = yield self._advance(reached.token, rows, sources)
            return self.add(answer, len(rows), torch.arange(len(rows), device="cpu"), reached)
        prefixes = self.tree.prefixes
        parents = torch.cat([prefixes.parent[old], reached.parent])
        source = LAST if reached.tokens.shape[1] > 1 else _FIRST
        tokens = torch.cat([prefixes.token[old], reached.token])
        answer = yield self._advance(tokens, prefixes.row[parents], (source,))
        rows = torch.arange(len(tokens), device="cpu")
        prefixes.row[old] = rows[: len(old)]
        return self.add(answer, len(rows), rows[len(old) :], reached)

    def stopped(self, inputs: Tensor, tokens: Tensor) -> Tensor:
        """Tell which outputs [n length] the caller's `stop` finds complete."""
        stop, device = self.setting.options.stop, self.setting.like.device
        assert stop is not None
        return ask_stop(stop, inputs.to(device), tokens.to(device)).cpu()

    def _kept_rows(self, prefixes: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        """Return the rows of prefixes in the answers that have them, and which answers these are."""
        known = self.tree.prefixes
        sources, which = torch.unique(known.answer[prefixes], return_inverse=True)
        heights = torch.tensor(self._heights, device="cpu")[sources]
        return known.row[prefixes] + (heights.cumsum(0) - heights)[which], tuple(sources.tolist())

    def _advance(self, tokens: Tensor, rows: Tensor, sources: tuple[int, ...]) -> Advance:
        device = self.setting.like.device
        return Advance(tokens.to(device), rows.to(device), sources)

    def _read(self, answer: Answer, rows: Tensor, inputs: Tensor, reached: Reached) -> Prefixes:
        width = CANDIDATES if reached.tokens.shape[1] else self._width
        lists = read_candidates(self.setting, answer, self._heights[-1], rows, reached.tokens, width)
        short = falls_short(lists, width)
        if bool(short.any()):
            self.doubt[inputs[short]] = True
            self.setting.warn_once(
                f"the model listed fewer than the {width} candidates that late branching looks at: outputs "
                "of lists that may differ have certified=False"
            )
        lists = padded(lists, self._width)
        score = reached.score.unsqueeze(1) + lists.gain
        return Prefixes(
            input=inputs,
            parent=reached.parent,
            token=reached.token,
            length=torch.full_like(inputs, reached.tokens.shape[1]),
            log_prob=reached.log_prob,
            score=reached.score,
            next_token=lists.tokens,
            next_log_prob=reached.log_prob.unsqueeze(1) + lists.log_prob,
            next_score=score,
            is_open=score > -torch.inf,
            answer=torch.full_like(inputs, len(self._heights) - 1),
            row=rows,
        )
