"""The model's captured step for searches that look at each answer before they say how to go on."""

from __future__ import annotations

import torch
from torch import Tensor

from beamsplit.model import FixedStep
from beamsplit.search.asks import Advance

__all__ = ["Stepping"]


class Stepping:
    """Takes what a search asks of the model's last answer, all of whose rows stay, as the next step."""

    def __init__(self, fixed: FixedStep) -> None:
        self._fixed = fixed
        self._time = 0
        self._row = torch.arange(len(fixed.tokens), device=fixed.tokens.device)

    def answer(self, ask: Advance) -> Tensor:
        """Return the model's logits after these tokens, one for each row there is."""
        fixed, rows, time = self._fixed, len(self._row), self._time
        source = self._row if ask.parents is None else ask.parents
        assert len(ask.tokens) == len(source) == rows, "a search with fixed rows asks for all"
        if time:
            before = (time - 1) * rows  # the slots of what the rows have just read
            fixed.table[:, time - 1] = before + self._row
            if ask.parents is not None:
                fixed.table.copy_(fixed.table.index_select(0, source))
            fixed.parents.copy_(before + source)
        else:
            fixed.parents.copy_(rows * fixed.table.shape[1] + source)
        fixed.tokens.copy_(ask.tokens)
        fixed.time.fill_(time)
        self._time += 1
        return fixed.run()
