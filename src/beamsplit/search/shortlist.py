"""Short candidate lists: each row's best tokens, and a bound on every token left out.

Whole rows of the vocabulary are read here, once a step for all rows of all groups (samplers add their noise
on the way); everything behind works on lists of a few dozen tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit.errors import ModelError
from beamsplit.model import Guided, Logits, wide
from beamsplit.model import plain as as_plain

__all__ = ["Candidates", "Scores"]

_HEIGHT = 16  # of a column; see top_tokens


@dataclass(frozen=True, slots=True)
class Candidates:
    """Some tokens of each row, in the order of their ids. What is not listed has a key of at most `rest`."""

    tokens: Tensor  # [rows k]
    log_prob: Tensor  # [rows k] the model's
    gain: Tensor  # [rows k] what the token adds to a beam's score: log_prob and guidance
    key: Tensor  # [rows k] what tokens are listed by: the gain, or a random perturbation of it
    rest: Tensor  # [rows]

    def at(self, rows: Tensor) -> Candidates:
        """The lists of these rows: `rows` may have any shape, and its axes replace the first one."""
        return Candidates(
            self.tokens[rows],
            log_prob := self.log_prob[rows],
            log_prob if self.gain is self.log_prob else self.gain[rows],
            log_prob if self.key is self.log_prob else self.key[rows],
            self.rest[rows],
        )

    def shaped(self, like: Tensor) -> Candidates:
        """The same lists, with the axes of `like` for the first one."""
        return Candidates(
            self.tokens.view(*like.shape, -1),
            log_prob := self.log_prob.view(*like.shape, -1),
            log_prob if self.gain is self.log_prob else self.gain.view(*like.shape, -1),
            log_prob if self.key is self.log_prob else self.key.view(*like.shape, -1),
            self.rest.view(like.shape),
        )


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
        """These rows, repeated or dropped as `rows` says."""
        log_prob = self.log_prob[rows]
        gain = log_prob if self.gain is self.log_prob else self.gain[rows]
        return Scores(log_prob, gain, gain if self.key is self.gain else self.key[rows])

    def shortlist(self, width: int) -> Candidates:
        """The `width` best tokens of each row by key; all of them if the vocabulary is no larger."""
        if width >= self.vocabulary:
            tokens = torch.arange(self.vocabulary, device=self.key.device).expand_as(self.key)
            rest = self.key.new_full((self.key.shape[0],), -torch.inf)
            return Candidates(tokens, self.log_prob, self.gain, self.key, rest)
        tokens = top_tokens(self.key, width).sort(dim=1).values
        log_prob = self.log_prob.gather(1, tokens)
        gain = log_prob if self.gain is self.log_prob else self.gain.gather(1, tokens)
        key = log_prob if self.key is self.log_prob else self.key.gather(1, tokens)
        return Candidates(tokens, log_prob, gain, key, key.amin(1))


def join_logits(upper: Logits, lower: Logits) -> Logits:
    """One above the other."""
    if isinstance(upper, Guided) and isinstance(lower, Guided):
        logits = torch.cat([upper.logits, lower.logits])
        guidance = torch.cat([upper.guidance, lower.guidance])
        return Guided(logits, guidance, upper.bounded and lower.bounded)
    return torch.cat([as_plain(upper), as_plain(lower)])


def read(logits: Logits) -> Scores:
    """Log-probabilities of a model's answer."""
    plain = as_plain(logits)
    log_prob = torch.log_softmax(plain, dim=-1, dtype=wide(plain.dtype))
    if not isinstance(logits, Guided):
        return Scores(log_prob, log_prob, log_prob)
    if logits.guidance.shape != plain.shape:
        raise ModelError(
            f"guidance is {list(logits.guidance.shape)} for logits of {list(plain.shape)}: they must be alike"
        )
    gain = log_prob + logits.guidance
    return Scores(log_prob, gain, gain)


def check_finite(scores: Scores, logits: Logits) -> None:
    """Raise if some row has no distribution. NaN spreads over a row of log-probabilities, so that one
    entry tells; guidance has to be looked at whole.
    """
    bad = scores.log_prob[:, 0].isnan()
    if isinstance(logits, Guided):
        bad = bad | (scores.gain.isnan() | (scores.gain == torch.inf)).any(1)
    if not bool(bad.any()):
        return
    plain = as_plain(logits)
    row = int(bad.nonzero()[0, 0])
    values = plain[row]
    if bool(values.isnan().any()):
        problem = f"NaN at token {int(values.isnan().nonzero()[0, 0])}"
    elif bool((values == torch.inf).any()):
        problem = f"+inf at token {int((values == torch.inf).nonzero()[0, 0])}"
    elif bool((values == -torch.inf).all()):
        problem = "-inf for every token, so that none can follow"
    else:
        problem = "guidance that is NaN or infinite"
    cure = "mend what guides it (a logits processor?)" if "guidance" in problem else "mend the model"
    raise ModelError(f"the model's logits have {problem} (row {row} of {plain.shape[0]}): {cure}")


def top_tokens(key: Tensor, width: int) -> Tensor:
    """Ids of the `width` largest entries of each row [rows vocab] -> [rows width], in no order.

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
    tokens = (chosen.unsqueeze(1) + torch.arange(0, even, columns).unsqueeze(1)).view(rows, -1)
    if even < vocabulary:  # the few that fill no column
        tokens = torch.cat([tokens, torch.arange(even, vocabulary).expand(rows, -1)], dim=1)
    return tokens.gather(1, key.gather(1, tokens).topk(width, sorted=False).indices)


def check_shape(logits: Tensor, rows: int | None, vocabulary: int | None) -> None:
    """Raise unless these are logits [rows vocab], of so many rows and words if it is known how many."""
    if logits.dim() != 2 or not logits.is_floating_point():
        raise ModelError(
            f"the model returned {logits.dtype} logits of shape {list(logits.shape)}: "
            "they must be floating-point, [rows vocabulary]"
        )
    if rows is not None and logits.shape[0] != rows:
        raise ModelError(
            f"the model returned logits for {logits.shape[0]} rows when {rows} were asked for: "
            "select must return one row for each index it is given, and step one for each token"
        )
    if vocabulary is not None and logits.shape[1] != vocabulary:
        raise ModelError(
            f"the model returned logits over {logits.shape[1]} tokens after {vocabulary} before: "
            "the vocabulary must not change between steps"
        )
