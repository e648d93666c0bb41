"""The beam search that comes first. Its steps are passed on, and all that it sees is put down."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from beamsplit.hypotheses import Hypotheses, Hypothesis
from beamsplit.model import Answer
from beamsplit.options import DecodeOptions
from beamsplit.search.asks import Abilities, Advance, Ask, Fix, Search, Start
from beamsplit.search.branching.explorer import Explorer, Reached
from beamsplit.search.branching.tree import Outputs
from beamsplit.search.loop import lockstep
from beamsplit.search.plan import Plan
from beamsplit.search.setting import Setting
from beamsplit.search.step import Step

__all__ = ["FirstSearch"]


class FirstSearch:
    """A beam search that fills a tree."""

    def __init__(
        self, plan: Plan, options: DecodeOptions, abilities: Abilities, start: Start, outputs: int
    ) -> None:
        self._plan = plan
        self._outputs = outputs
        self._options = replace(options, return_per_group=None, unique=False)
        self._abilities = abilities
        self._begin = start
        self._places: dict[tuple[int, tuple[int, ...]], int] = {}  # of prefixes, by input and tokens
        self._totals: dict[tuple[int, int], float] = {}  # of complete outputs, by prefix and last token
        self._row: Tensor  # [rows] the prefix of each row of the last answer
        self._beam: Tensor  # [batch beam] the prefix of each beam
        self.explorer: Explorer | None = None
        self.last: Step | None = None

    def search(self) -> Search:
        """Run the search, and show all steps but the last, which is kept as `last`.

        Steps show its best so far, each in a group of its own, and no more outputs than are asked for.
        """
        search = lockstep(self._plan, self._options, self._abilities)
        event = _next(search, None)
        while event is not None:
            if isinstance(event, Step):
                self._note_totals(event)
                self.last, event = event, _next(search, None)
                if event is not None:
                    yield self.show(self.last)
            else:
                event = _next(search, (yield from self._relay(event)))
        if self.last is not None:
            self._finish(self.last.hypotheses)

    def show(self, step: Step) -> Step:
        """Return a step that shows the best so far."""
        return replace(step, assemble=partial(_best, step.assemble, self._outputs))

    def _relay(self, ask: Ask) -> Generator[Ask, Any, Any]:
        """Pass on what is asked of the model, and put down what it answers about prefixes."""
        if isinstance(ask, Start):
            answer = yield self._begin
            self._start(answer)
            return answer
        if isinstance(ask, Fix):
            return None  # a search that runs ahead does not tell what the model answers
        if not isinstance(ask, Advance):
            return (yield ask)
        reached = self._reached(ask)  # before the model may write into what it is given
        answer = yield ask
        self._note(answer, reached)
        return answer

    def _start(self, answer: Answer) -> None:
        setting = Setting.of(self._plan, self._options, self._abilities, answer)
        if setting.batch:
            keeps = self._begin.keeps == "all"
            self.explorer = Explorer(setting, answer, self._outputs, keeps=keeps)
            self._row = torch.arange(setting.batch, device="cpu")
            self._beam = self._row.unsqueeze(1).repeat(1, self._plan.beams_per_group)
            self._places = {(index, ()): index for index in range(setting.batch)}

    def _reached(self, ask: Advance) -> Reached:
        """Return the prefixes that the model is asked about: the live beams, in their order."""
        assert self.last is not None
        (selection,) = self.last.selections
        beams, live = selection.beams_after, selection.live
        assert beams is not None
        tokens = beams.tokens[live].cpu()
        return Reached(
            parent=self._row if ask.parents is None else self._row[ask.parents.cpu()],
            token=tokens[:, -1],
            log_prob=beams.log_prob[live].cpu(),
            score=beams.score[live].cpu(),
            tokens=tokens,
        )

    def _note_totals(self, step: Step) -> None:
        """Put down the scores of outputs that are complete by this step, before the scorer has its say."""
        (selection,) = step.selections
        is_last = selection.time + 1 == self._options.max_length
        if not selection.any_end and not is_last:
            return
        picks = selection.picks
        complete = (selection.ended | is_last) & (picks.score > -torch.inf)
        index, _, pick = complete.nonzero(as_tuple=True)
        beam = picks.parent[index, 0, pick]
        places = self._beam[step.inputs[index].cpu(), beam.cpu()].tolist()
        tokens, scores = picks.token[complete].tolist(), picks.score[complete].tolist()
        self._totals.update(zip(zip(places, tokens, strict=True), scores, strict=True))

    def _note(self, answer: Answer, reached: Reached) -> None:
        assert self.explorer is not None
        assert self.last is not None
        rows = torch.arange(len(reached.token), device="cpu")
        self._row = self.explorer.add(answer, len(rows), rows, reached)
        index, _, beam = self.last.selections[0].live.cpu().nonzero(as_tuple=True)
        self._beam[self.last.inputs.cpu()[index], beam] = self._row
        inputs = self.explorer.tree.prefixes.input[self._row].tolist()
        for index, tokens, place in zip(inputs, reached.tokens.tolist(), self._row.tolist(), strict=True):
            self._places[index, tuple(tokens)] = place

    def _finish(self, lists: list[Hypotheses]) -> None:
        """Put down the outputs, best first."""
        assert self.explorer is not None
        tree, like = self.explorer.tree, self.explorer.setting.like
        found = [(index, h) for index, hypotheses in enumerate(lists) for h in _by_score(hypotheses)]
        prefix = [self._places[index, h.tokens[:-1]] for index, h in found]
        totals = [self._totals[place, h.tokens[-1]] for place, (_, h) in zip(prefix, found, strict=True)]
        score = torch.tensor(totals, dtype=like.dtype, device="cpu")
        tree.finish(
            Outputs(
                input=_column([index for index, _ in found]),
                prefix=_column(prefix),
                token=_column([h.tokens[-1] for _, h in found]),
                length=_column([len(h.tokens) for _, h in found]),
                log_prob=torch.tensor([h.log_prob for _, h in found], dtype=like.dtype, device="cpu"),
                score=score,
                worth=score,
                ended=torch.tensor([h.finished for _, h in found], dtype=torch.bool, device="cpu"),
            )
        )
        for index, hypotheses in enumerate(lists):
            if not all(h.certified for h in hypotheses):
                self.explorer.doubt[index] = True


def _best(assemble: Callable[[], list[Hypotheses]], count: int) -> list[Hypotheses]:
    """Return the best few of each list, each in a group of its own."""
    return [_numbered(found, count) for found in assemble()]


def _numbered(found: Hypotheses, count: int) -> Hypotheses:
    groups = {h.tokens: group for group, h in enumerate(_by_score(found)[:count])}
    best = [replace(h, group=groups[h.tokens]) for h in found if h.tokens in groups]
    return Hypotheses.ordered(best, asked=count)


def _by_score(found: Hypotheses) -> list[Hypothesis]:
    """Return the hypotheses in the order of the beam search, which guidance has a part in."""
    return [h for group in found.groups for h in group]


def _next(search: Search, reply: Any) -> Ask | Step | None:
    """Return the next event of a search; None if it is over."""
    try:
        return search.send(reply)
    except StopIteration:
        return None


def _column(values: list[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.long, device="cpu")
