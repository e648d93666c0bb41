"""Watch a model's first answers for log-probabilities that it hands over as if they were logits.

An engine that tells its top 20 has log-probabilities, normalised over the whole vocabulary. Filled up with
-inf, or with a number such as -1e9, and returned as logits they are normalised once more, over the 20
alone, and every log-probability in the results is too high. No single number is wrong, so this can be
guessed at only.
"""

from __future__ import annotations

import warnings

from torch import Tensor

from beamsplit.model import Answer

__all__ = ["LogitsWatch"]

_ANSWERS = 8  # that are looked at, at most
_ROWS = 4  # of each that are looked at
_CLOSE = 1e-2  # rounding, also in half precision, moves a sum of probabilities by less
_LEAST = 0.01  # a list of the likeliest tokens has more than this; logits far below 0 have less
_FILL = -50.0  # what stands for "not listed" is no higher


class LogitsWatch:
    """Warns once if a model's logits look like log-probabilities of part of its vocabulary.

    They do if, in all rows, most tokens have -inf (or one and the same very low number), none is above 0,
    and the probabilities add up to clearly less than 1. Logits that are masked seldom do, since nothing
    makes them add up to about 1. Where they add up to 1, normalising changes nothing; but the next answers
    may be others, so the watch goes on.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._left = _ANSWERS

    def look(self, answer: Answer) -> None:
        """Look at an answer, unless enough has been seen."""
        if self._left and isinstance(answer, Tensor):
            self._left -= 1
            self._judge(answer)

    def _judge(self, logits: Tensor) -> None:
        share = _share_listed(logits)
        if share is None:
            self._left = 0
        elif share < 1 - _CLOSE:
            self._left = 0
            self._warn(logits)

    def _warn(self, logits: Tensor) -> None:
        fill = logits[0].amin()
        listed = int((logits[0] > fill).sum())
        warnings.warn(
            f"{self._model} returns logits that look like log-probabilities of part of a vocabulary: "
            f"{listed} of {logits.shape[1]} tokens are above {fill:g}, none is above 0, and their "
            "probabilities add up to less than 1. They are normalised as logits are, so that log_prob is too "
            "high: return LogProbs(logits), or a Shortlist. If they are logits, return "
            "torch.log_softmax(logits, -1)",
            stacklevel=2,
        )


def _share_listed(logits: Tensor) -> float | None:
    """Return the least sum of probabilities of a row; None if these cannot be parts of distributions."""
    if logits.dim() != 2 or not logits.numel() or not logits.is_floating_point():
        return None  # which is refused elsewhere
    if not bool(logits[0].amax() <= _CLOSE):  # as nearly all logits are: one row tells
        return None
    rows = logits[:_ROWS].float()
    fill, total = rows.amin(1, keepdim=True), rows.exp().sum(1)
    listed = (rows > fill).sum(1)
    alike = (2 * listed < rows.shape[1]) & (fill[:, 0] <= _FILL) & (rows.amax(1) <= _CLOSE)
    alike &= (total >= _LEAST) & (total <= 1 + _CLOSE)
    alike &= (listed > 1) | (total >= 1 - _CLOSE)  # a single token may be a forced one, whatever its logit
    return float(total.amin()) if bool(alike.all()) else None
