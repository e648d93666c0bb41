"""What a GPU does by itself: from the logits of one step to the tokens of the next."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit.model import FixedStep, Shortlist
from beamsplit.search import kernels
from beamsplit.search.capturing import Repeated
from beamsplit.search.frontier import Frontier
from beamsplit.search.kernels import Outcome
from beamsplit.search.setting import Setting
from beamsplit.search.state import Beams, FinishedPool

__all__ = ["Record", "Runner"]


@dataclass(frozen=True, slots=True)
class Record:
    """What the GPU did in one step."""

    outcome: Outcome
    score: Tensor  # [batch group beam] of its beams after the step; -inf where a group is done

    @classmethod
    def within(cls, memory: Tensor, like: Outcome) -> Record:
        """Return a record of tensors such as these that lie in memory, one after the other."""
        views, start = [], 0
        for part in _parts(like):
            size = part.numel() * part.element_size()
            views.append(memory[start : start + size].view(part.dtype).view(part.shape))
            start += _padded(size)
        return cls(Outcome(*views[:-1]), views[-1])

    @staticmethod
    def size(like: Outcome) -> int:
        """Return how many bytes such a record takes."""
        return sum(_padded(part.numel() * part.element_size()) for part in _parts(like))


def _parts(outcome: Outcome) -> tuple[Tensor, ...]:
    return (*outcome, outcome.live_scores[0])


def _padded(size: int) -> int:
    return -(-size // 16) * 16  # so that every part begins where a number of its type may


class Runner:
    """The state of a search on a GPU, and its step from logits to the next tokens."""

    def __init__(self, fixed: FixedStep, setting: Setting, logits: Tensor, width: int) -> None:
        """Make one for lists of this width. `logits` are what `fixed.run()` returned."""
        plan, options = setting.plan, setting.options
        groups, beams, device = plan.groups, plan.beams_per_group, logits.device
        self.width = width
        self._fixed, self._setting, self._logits = fixed, setting, logits
        shape = logits.shape[0] // (groups * beams), groups, beams
        self._log_prob = setting.like.new_zeros(shape)
        self._score = setting.like.new_zeros(shape)
        self._finished = setting.like.new_full(shape, -torch.inf)
        self._rows = torch.arange(logits.shape[0], device=device)
        self._no_tokens = self._rows.new_empty(*shape, 0)
        self._penalty = Frontier.roots(setting, range(groups)).penalty(None)
        like = Outcome.like(self._score, self._rows, beams * (1 + options.ends_per_beam), beams)
        self._memory = torch.zeros(Record.size(like), dtype=torch.uint8, device=device)
        self._record = Record.within(self._memory, like)
        self._standing = kernels.Standing(self._score, self._record.score, self._log_prob)
        fixed.time.zero_()  # a capture takes a few steps first, and there must be room for them
        self._choose = Repeated(self._step, device)
        self._mail = _Mail(self._memory, like)

    # What the processor tells it

    def set(self, beams: Beams, finished: FinishedPool, tokens: Tensor, trail: list[Tensor]) -> None:
        """Let the GPU go on from here.

        Args:
            beams: those of the search.
            finished: what its groups have finished.
            tokens: [rows] of its last step.
            trail: for every step so far, the row [rows] of the step before that each row goes on from; in
                the first, its input.
        """
        self._mail.clear()
        fixed, rows, time = self._fixed, len(self._rows), len(trail) - 1
        table = _slots_of(trail, rows)
        roots = trail[0] + rows * fixed.table.shape[1]
        fixed.table[:, :time].copy_(table.to(torch.int32))
        fixed.parents.copy_(table[:, -1] if time else roots)
        fixed.tokens.copy_(tokens)
        fixed.time.fill_(time)
        self._score.copy_(beams.score)
        self._log_prob.copy_(beams.log_prob)
        self._finished.copy_(finished.score[..., : self._finished.shape[2]])

    def launch(self) -> None:
        """Take another step, without waiting for it."""
        self._logits = self._fixed.run()  # in the same memory every time, where it is captured
        self._choose()
        self._mail.send()

    @property
    def under_way(self) -> int:
        """How many steps have been launched and not been read."""
        return self._mail.count

    def read(self) -> Record:
        """Wait for the oldest step that has not been read."""
        return self._mail.receive()

    # What the GPU does

    def _step(self) -> None:
        score = self._score
        lists = self._lists().shaped(score)
        setting = self._setting
        assert setting.is_end is not None
        kernels.pick_into(
            self._record.outcome,
            Beams(self._no_tokens, self._log_prob, score),
            lists,
            self._penalty,
            setting.is_end,
        )
        done = self._done() if setting.options.ends else None
        kernels.go_on(self._fixed, self._standing, self._record.outcome, done)

    def _lists(self) -> Shortlist:
        return kernels.reader(self._logits, kernels.available(self._logits)).shortlist(self.width)

    def _done(self) -> Tensor:
        """Finish what ends, and tell which groups [batch group] are done.

        The search has its own opinion of that (`Stopping`), and corrects this one if need be.
        """
        outcome, options, stopping = self._record.outcome, self._setting.options, self._setting.stopping
        length = self._fixed.time + 2  # of the picks: the first token came before the model's first step
        score, beams = outcome.picked_scores[1], self._finished.shape[2]
        final = options.ranking.final(score, length)[..., :beams]
        final = final.masked_fill(outcome.picked[2, ..., :beams] == 0, -torch.inf)
        best = torch.cat([self._finished, final], 2).sort(dim=2, descending=True).values[..., :beams]
        self._finished.copy_(best)
        rival = stopping.rule.rival(outcome.selection)
        bound = options.ranking.bound(rival, length, options.max_length)  # type: ignore[arg-type]
        worst = best[..., -1]
        return (worst > -torch.inf) & (worst >= bound)


def _slots_of(trail: list[Tensor], rows: int) -> Tensor:
    """Return the slots of all tokens that the model has read of each row: [rows steps]."""
    slots = torch.empty(rows, len(trail) - 1, dtype=torch.long)
    row = torch.arange(rows)
    for time in reversed(range(len(trail) - 1)):
        row = trail[time + 1][row]
        slots[:, time] = time * rows + row
    return slots


class _Mail:
    """Records on their way from the GPU to the processor, in the order of their steps."""

    def __init__(self, memory: Tensor, like: Outcome) -> None:
        """Send what is in `memory`: the record of the latest step."""
        self._memory, self._like = memory, like
        self._sent: deque[_Letter] = deque()
        self._spare: list[_Letter] = []

    @property
    def count(self) -> int:
        return len(self._sent)

    def send(self) -> None:
        letter = self._spare.pop() if self._spare else _Letter(self._memory)
        letter.write(self._memory)
        self._sent.append(letter)

    def receive(self) -> Record:
        letter = self._sent.popleft()
        self._spare.append(letter)
        return Record.within(letter.read(), self._like)

    def clear(self) -> None:
        """Forget what is on its way. Its memory may be written again, since the GPU keeps to the order."""
        self._spare += self._sent
        self._sent.clear()


class _Letter:
    """The memory of one record, where the GPU can write it while it goes on with its work."""

    def __init__(self, like: Tensor) -> None:
        is_on_gpu = like.device.type == "cuda"
        self._memory = torch.empty(like.shape, dtype=like.dtype, pin_memory=is_on_gpu)
        self._is_there = torch.cuda.Event() if is_on_gpu else None  # type: ignore[no-untyped-call]

    def write(self, memory: Tensor) -> None:
        self._memory.copy_(memory, non_blocking=True)
        if self._is_there is not None:
            # The stream of that GPU: another one may be the current.
            self._is_there.record(torch.cuda.current_stream(memory.device))

    def read(self) -> Tensor:
        """Return a copy, when the GPU has written it."""
        if self._is_there is not None:
            self._is_there.synchronize()
        return self._memory.clone()
