"""The front door: decode a batch at once or a step at a time, and wait for the model or await it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator, Sized
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Unpack

from torch import Tensor

from beamsplit import checks
from beamsplit.continuing import Continuation, Notebook, run, run_async
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses, Results
from beamsplit.messages import Conversation, as_conversation
from beamsplit.model import StepModel, check_model, end_of, joinable
from beamsplit.options import DecodeOptions, OptionArguments, shows_options
from beamsplit.progress import Bar, Progress
from beamsplit.scoring import LogProb
from beamsplit.search.asks import Abilities, Search, SearchingStrategy
from beamsplit.search.loop import lockstep
from beamsplit.search.plan import Strategy
from beamsplit.search.softening import soften_search
from beamsplit.search.staggered import staggered
from beamsplit.search.step import Step
from beamsplit.strategies.defaults import DEFAULTS, default_strategy
from beamsplit.strategies.spec import StrategySpec

__all__ = ["answer_chat", "decode", "decode_async", "groups", "groups_async", "steps", "steps_async"]


@shows_options
def decode(
    model: StepModel,
    inputs: Any,
    strategy: Strategy | None = None,
    *,
    progress: bool = False,
    resumable: bool = False,
    **options: Unpack[OptionArguments],
) -> Results:
    """Decode a batch of inputs: for each, return a list of outputs, best first.

    Args:
        model: any `StepModel`.
        inputs: whatever the model's `start` takes; a batch.
        strategy: `LateBranching`, `DiverseBeamSearch`, `BeamSearch`, ... By default, what suits such a
            model: late branching with six outputs.
        max_length: the most tokens of a hypothesis, its end token included.
        end: id of the end token, or several, or None: every hypothesis then has max_length tokens.
            By default, what the model names as its `end`; None if it names nothing.
        min_length: the fewest tokens of a hypothesis, its end token included.
        no_repeat_ngram: no output has the same n tokens in a row twice. 3 or 4 keeps long texts from loops.
        model_temperature: the model's logits are divided by it before the strategy sees them. Above 1 a model
            is less sure of itself, and groups part sooner. `score` is by the softened distribution, and
            `log_prob` stays the model's own. A temperature that a sampler has comes on top.
        stop: another way to end: a function of (inputs [n], tokens [n time]) that tells which of these
            outputs are complete, where `inputs` are places in the batch. It is not asked about outputs
            shorter than min_length.
        scorer: ranks hypotheses of different length; by default, log-probability does.
        unique: leave out sequences that an earlier group has found; groups of beams look on for the next.
        return_per_group: how many hypotheses of each group to return; by default as many as beams.
        seed: for strategies that sample: one number, which counts together with an input's number; or one
            an input. What an input gets does not depend on its neighbours.
        numbers: the inputs' numbers, which count together with the seed; by default their places in the
            batch. Whoever decodes a long list in batches gives the places in the whole list.
        list_width: how many candidates of a beam to look at first. Speed depends on it, results do not.
        progress: show on stderr how many steps are done, of `max_length` at most.
        resumable: let the result keep what it takes to go on with more groups: `found.more(model)`. That is
            the inputs, and a few small numbers for each beam and step.
    """
    inputs, strategy = _materialised(inputs), _or_default(strategy, model)
    found = steps(model, inputs, strategy, **options)
    notebook = _notebook(model, inputs, strategy, options, resumable)
    with _bar(strategy, options, progress) as bar:
        for step in found:
            notebook.add(step)
            bar.advance()
        bar.complete()
    return notebook.results()


@shows_options
def steps(
    model: StepModel, inputs: Any, strategy: Strategy | None = None, **options: Unpack[OptionArguments]
) -> Iterator[Step]:
    """Run the search that `decode` runs, a step at a time; the last step's `hypotheses` are its result."""
    search = _search(model, _or_default(strategy, model), options)
    inputs = _materialised(inputs)
    if _is_empty(inputs):
        return iter(())
    return run(search, model, inputs)


@shows_options
async def decode_async(
    model: Any,
    inputs: Any,
    strategy: Strategy | None = None,
    *,
    progress: bool = False,
    resumable: bool = False,
    **options: Unpack[OptionArguments],
) -> Results:
    """Do what `decode` does with a model whose verbs may be coroutines, such as one behind a network."""
    inputs, strategy = _materialised(inputs), _or_default(strategy, model)
    found = steps_async(model, inputs, strategy, **options)
    notebook = _notebook(model, inputs, strategy, options, resumable)
    with _bar(strategy, options, progress) as bar:
        async for step in found:
            notebook.add(step)
            bar.advance()
        bar.complete()
    return notebook.results()


@shows_options
def steps_async(
    model: Any, inputs: Any, strategy: Strategy | None = None, **options: Unpack[OptionArguments]
) -> AsyncIterator[Step]:
    """Do what `steps` does with a model whose verbs may be coroutines."""
    search = _search(model, _or_default(strategy, model), options)
    inputs = _materialised(inputs)
    return _no_steps() if _is_empty(inputs) else run_async(search, model, inputs)


@shows_options
def answer_chat(
    model: StepModel,
    messages: str | Conversation,
    *,
    answers: int | None = None,
    system: str | None = None,
    strategy: Strategy | None = None,
    **options: Unpack[OptionArguments],
) -> Hypotheses:
    """Return several different answers of a chat model to a question or a conversation, best first.

    Each group gives its best answer. The term, its strength and the limits are the defaults for chats. Of
    another strategy, all that it finds is returned, within the same limits.
    """
    defaults, widths = DEFAULTS["chat"], DEFAULTS["chat"].widths
    settings = {**defaults.decode_options(), **options}
    if strategy is None:
        if answers is not None:
            widths = replace(widths, groups=checks.at_least("answers", answers, 1))
        strategy = StrategySpec.of_widths(defaults.strategy, widths).make(model)
    else:
        if answers is not None:
            raise ArgumentError(
                f"answers={answers} is for the default strategy: {type(strategy).__name__} has its own number"
            )
        settings["return_per_group"] = options.get("return_per_group")
    conversation = as_conversation(messages, system)
    if "min_length" not in options and checks.is_whole(settings["max_length"]):
        settings["min_length"] = min(settings["min_length"], settings["max_length"])
    return decode(model, [conversation], strategy, **settings)[0]


@shows_options
def groups(
    model: StepModel, inputs: Any, strategy: Strategy, **options: Unpack[OptionArguments]
) -> Iterator[Results]:
    """Yield the outputs of one group after another, for as long as you ask.

    A group is yielded as lists, one for each input. It is what `decode` finds with as many groups. Those that
    the strategy has are searched together; then, each time that you ask, one more. None is run again.

    >>> import torch
    >>> from beamsplit import DiverseBeamSearch
    >>> from beamsplit.testing import MarkovModel
    >>> model = MarkovModel(torch.tensor([[5.0, 4.0, 3.0]]).expand(3, 3))
    >>> for (found,) in groups(model, [0], DiverseBeamSearch(groups=1, strength=9.0), max_length=2):
    ...     print(found.best.group, found.best.tokens)
    ...     if found.best.log_prob < -4:
    ...         break
    0 (0, 0)
    1 (1, 1)
    2 (2, 2)
    """
    together = _groups_together(model, strategy, options)

    def each() -> Iterator[Results]:
        found = decode(model, inputs, strategy, resumable=True, **options)
        for group in itertools.count() if found else ():
            found = found if group < together else found.more(model)
            yield _only(found, group, max(together, group + 1))

    return each()


@shows_options
def groups_async(
    model: Any, inputs: Any, strategy: Strategy, **options: Unpack[OptionArguments]
) -> AsyncIterator[Results]:
    """Do what `groups` does with a model whose verbs may be coroutines."""
    together = _groups_together(model, strategy, options)

    async def each() -> AsyncIterator[Results]:
        found = await decode_async(model, inputs, strategy, resumable=True, **options)
        for group in itertools.count() if found else ():
            found = found if group < together else await found.more_async(model)
            yield _only(found, group, max(together, group + 1))

    return each()


def _groups_together(model: StepModel, strategy: Strategy, options: OptionArguments) -> int:
    """Return how many groups the strategy has. Raise if it cannot go on beyond them."""
    _search(model, strategy, options)
    extensible = Continuation.begin(model, strategy, DecodeOptions.of(options), None).strategy
    extensible.extended(1)
    return extensible.group_count


def _only(found: Results, group: int, groups: int) -> Results:
    """Return the outputs of one of so many groups, of which as much is asked as of each other."""

    def of_group(each: Hypotheses) -> Hypotheses:
        places = [index for index, hypothesis in enumerate(each) if hypothesis.group == group]
        return each.only(places, asked=None if each.asked is None else each.asked // groups)

    return Results(map(of_group, found))


def _notebook(
    model: StepModel, inputs: Any, strategy: Strategy, arguments: OptionArguments, resumable: bool
) -> Notebook:
    """Return what the steps of a search are noted in: all that it takes to go on, or the last one alone."""
    if not checks.true_or_false("resumable", resumable):
        return Notebook(None)
    return Notebook(Continuation.begin(model, strategy, DecodeOptions.of(arguments, end_of(model)), inputs))


def _bar(strategy: Strategy, options: OptionArguments, shown: bool) -> AbstractContextManager[Bar]:
    """Return a bar of as many steps as the search may take."""
    total: int | None = None  # a strategy that searches in its own way may take any number
    if not isinstance(strategy, SearchingStrategy):
        plan = strategy.plan()
        total = options["max_length"] + (plan.groups - 1 if plan.schedule == "staggered" else 0)
    return Progress("decode").bar(total, shown=checks.true_or_false("progress", shown), brief=True)


def _or_default(strategy: Strategy | None, model: object) -> Strategy:
    return default_strategy(model) if strategy is None else strategy


def _search(model: StepModel, strategy: Strategy, arguments: OptionArguments) -> Search:
    """Check everything that can be checked before the model is started, and return the search."""
    check_model(model)
    _check_strategy(strategy)
    options = DecodeOptions.of(arguments, end_of(model))
    _check_fit(strategy, options)
    return soften_search(_plain_search(model, strategy, options), options.model_temperature)


def _plain_search(model: StepModel, strategy: Strategy, options: DecodeOptions) -> Search:
    abilities = Abilities.of(model)
    if isinstance(strategy, SearchingStrategy):
        return strategy.search(options, abilities)
    plan = strategy.plan()
    if plan.schedule == "staggered":
        if abilities.fixed_rows:
            raise ArgumentError(
                f"schedule='staggered' asks for more rows as groups start, and {type(model).__name__} has "
                "fixed_rows = True: use schedule='lockstep'"
            )
        joinable(model)
        return staggered(plan, options, abilities)
    return lockstep(plan, options, abilities)


def _check_strategy(strategy: object) -> None:
    if isinstance(strategy, type) or not callable(getattr(strategy, "plan", None)):
        hint = f": write {strategy.__name__}(...)" if isinstance(strategy, type) else ""
        raise ArgumentError(
            f"strategy must be one such as BeamSearch(beams=5), not {checks.short_repr(strategy)}{hint}"
        )


def _check_fit(strategy: Strategy, options: DecodeOptions) -> None:
    """Raise if the strategy cannot work with these options."""
    name, plan = type(strategy).__name__, strategy.plan()
    kept = strategy.kept_per_group if isinstance(strategy, SearchingStrategy) else plan.beams_per_group
    if options.return_per_group is not None and options.return_per_group > kept:
        raise ArgumentError(
            f"return_per_group={options.return_per_group}, but {name} keeps {kept} a group: ask for no more"
        )
    if plan.rule.needs_model_distribution and not isinstance(options.ranking, LogProb):
        raise ArgumentError(
            f"{name} samples sequences by log-probability, which {type(options.ranking).__name__} would "
            "change: leave scorer out and rescore the result"
        )
    if plan.rule.needs_model_distribution and options.no_repeat_ngram is not None:
        raise ArgumentError(
            f"{name} samples from the model's own distribution, which no_repeat_ngram="
            f"{options.no_repeat_ngram} would change: leave it out, or use Sampling"
        )
    if plan.rule.needs_model_distribution and options.model_temperature != 1:
        raise ArgumentError(
            f"{name} samples from the model's own distribution, which model_temperature="
            f"{options.model_temperature:g} would change: leave it out, or use Sampling"
        )


def _materialised(inputs: Any) -> Any:
    """Return inputs that can be looked at more than once: some strategies start the model several times."""
    return list(inputs) if isinstance(inputs, Iterator) else inputs


async def _no_steps() -> AsyncIterator[Step]:
    return
    yield


def _is_empty(inputs: Any) -> bool:
    if isinstance(inputs, Tensor) and not inputs.dim():
        return False
    return isinstance(inputs, Sized) and not isinstance(inputs, str) and len(inputs) == 0
