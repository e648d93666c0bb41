"""The search that follows a GPU."""

from __future__ import annotations

from collections.abc import Generator, Hashable

import torch
from torch import Tensor

from beamsplit.diversity import Hamming
from beamsplit.model import Answer, FixedStep, Room
from beamsplit.search import capturing, kernels
from beamsplit.search.ahead.runner import Runner
from beamsplit.search.asks import Fix, Search
from beamsplit.search.frontier import Frontier, short_width
from beamsplit.search.lists import read_lists
from beamsplit.search.picking import pick
from beamsplit.search.rules import Maximise
from beamsplit.search.select import Selection
from beamsplit.search.setting import Setting
from beamsplit.search.snapshots import snapshot
from beamsplit.search.step import Step

__all__ = ["fix", "may_fix", "may_run_ahead", "run_ahead"]

_KEPT = 8  # runners for each step of a model, with their graphs
_AHEAD = 4  # steps that the GPU may be in front of the processor
_LONGEST = 64  # candidates of a beam, unless these are too few: a kernel makes lists of so many at once
_FEWEST = capturing.WARM_UPS + 1  # steps of a search that are worth a capture, and have room for its warm-ups


def may_fix(setting: Setting, answer: Answer) -> bool:
    """Tell whether the model's step is worth a capture, whatever the search makes of its answers."""
    return (
        capturing.are_wanted(setting.like.device)
        and isinstance(answer, Tensor)
        and not setting.abilities.fixed_rows
        and setting.options.max_length >= _FEWEST
    )


def may_run_ahead(setting: Setting) -> bool:
    """Tell whether a GPU can do by itself what this search asks for."""
    plan, options = setting.plan, setting.options
    return (
        type(plan.rule) is Maximise
        and (not plan.penalises or type(plan.diversity) is Hamming)
        and options.stop is None
        and not options.unique
        and options.no_repeat_ngram is None
        and options.min_length <= 1
        and _is_capturable(options.ranking)
        and _is_capturable(setting.stopping.rule)
        and _can_pick_from(setting, _width(setting))
    )


def _width(setting: Setting) -> int:
    """Return how many candidates of each beam the GPU looks at, unless that turns out to be too few.

    Where nobody pays, lists as long as a group has beams, and ends, are hardly ever too short. Shorter ones
    are made sooner, but a step that is not certain costs another step of the model. Very long ones are
    seldom needed.
    """
    options, plan = setting.options, setting.plan
    if options.list_width:
        return options.list_width
    return max(short_width(options), min(plan.beams_per_group + len(options.ends) + 1, _LONGEST))


def _can_pick_from(setting: Setting, width: int) -> bool:
    plan = setting.plan
    return kernels.can_pick_into(setting.like, plan.groups, plan.beams_per_group, width, plan.penalises)


def _is_capturable(rule: object) -> bool:
    """Tell whether the class of a scorer or stopping rule says so itself: its heirs may do otherwise."""
    return bool(vars(type(rule)).get("capturable", False))


def fix(setting: Setting) -> Fix:
    """Return what to ask of a model whose step is to be captured."""
    plan, options = setting.plan, setting.options
    room = Room(beams=plan.groups * plan.beams_per_group, length=options.max_length - 1, candidates=0)
    return Fix(setting.batch, room, setting.like.device)


def run_ahead(setting: Setting, answer: Answer, fixed: FixedStep) -> Search:
    """Search as `lockstep` does, with all groups at the same time step, behind a GPU."""
    yield from _Follower(setting, fixed).follow(answer)


class _Follower:
    """A search on the processor, behind a GPU that takes the same steps."""

    def __init__(self, setting: Setting, fixed: FixedStep) -> None:
        self._setting, self._fixed = setting, fixed
        self._groups = Frontier.roots(setting.at_home(), range(setting.plan.groups))
        self._groups.width = _width(setting)
        self._tokens = torch.empty(0, dtype=torch.long)  # [rows] of the last step
        self._trail: list[Tensor] = []  # of every step, the row that each row goes on from

    def follow(self, answer: Answer) -> Search:
        """Search to the end. `answer` is the model's first."""
        while True:
            yield from self._step_carefully(answer)
            if self._groups.is_done:
                return
            runner = self._runner()
            yield from self._behind(runner)
            if self._groups.is_done:
                return
            self._set(runner)
            answer = self._fixed.run()

    def _step_carefully(self, answer: Answer) -> Search:
        """Take a step from the model's answer, with lists as long as it takes to be certain."""
        groups = self._groups
        lists = read_lists(groups.setting, answer, groups.rows.count, [groups])
        selection = yield from pick(groups, lists)
        yield self._apply(selection)

    def _behind(self, runner: Runner) -> Generator[Step, None, None]:
        """Go behind the GPU, until all is done, or until it was not certain what to choose."""
        groups = self._groups
        self._set(runner)
        while not groups.is_done:
            while runner.under_way < min(_AHEAD, groups.setting.options.max_length - groups.time):
                runner.launch()
            record = runner.read()
            if record.outcome.is_uncertain:
                return
            chosen = record.outcome.read()
            selection = Selection(groups.groups, groups.time, width=runner.width, **chosen._asdict())
            yield self._apply(selection)
            if not groups.is_done and not torch.equal(groups.beams.score, record.score):
                self._set(runner)  # the GPU has stopped a group too early or too late

    def _apply(self, selection: Selection) -> Step:
        groups = self._groups
        number = groups.time
        selection = groups.apply(selection)
        step = Step(number, groups.inputs, (selection,), snapshot([groups], []))
        self._tokens, parents = groups.hand_out_rows()
        self._trail.append(parents)
        return step

    def _set(self, runner: Runner) -> None:
        groups = self._groups
        runner.set(groups.beams, groups.pool, self._tokens, self._trail)

    def _runner(self) -> Runner:
        """Return a runner for lists of the present width: the one of an earlier search, if it will do."""
        width = self._groups.first_width
        while width > 1 and not _can_pick_from(self._setting, width):
            width -= width // 2  # the longest lists that will do: short ones are seldom certain
        key = _key_of(self._setting, width)
        runner = self._fixed.kept.get(key)
        if runner is None:
            runner = Runner(self._fixed, self._setting, self._fixed.run(), width)
            if key is not None:
                self._keep(key, runner)
        return runner

    def _keep(self, key: Hashable, runner: Runner) -> None:
        kept = self._fixed.kept
        kept[key] = runner
        if len(kept) > _KEPT:
            del kept[next(iter(kept))]  # the oldest


def _key_of(setting: Setting, width: int) -> Hashable | None:
    """Return what a runner depends on; None if that cannot be compared."""
    plan, options = setting.plan, setting.options
    key = plan.groups, plan.strengths, tuple(options.ends), options.max_length, options.scorer, width
    try:
        hash(key)
    except TypeError:
        return None
    return key
