"""Options that say how to search: one strategy and its settings, or several strategies of the same width."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from beamsplit import checks
from beamsplit.cli.options import MODEL_TEMPERATURE, one_of
from beamsplit.diversity.names import TERMS
from beamsplit.errors import ArgumentError
from beamsplit.ordering import ORDERS, SELECTION, SELECTIONS, scorer_of
from beamsplit.similarity.names import SIMILARITIES
from beamsplit.strategies.defaults import DEFAULTS, STRATEGY, Defaults
from beamsplit.strategies.names import (
    STRATEGIES,
    check_strategy_name,
    diverse_strategies,
    has_strength,
    own_settings,
)
from beamsplit.strategies.spec import StrategySpec, Widths, strategy_named_by, table_of_widths

if TYPE_CHECKING:
    from beamsplit import Scorer

__all__ = [
    "SearchOptions",
    "given_for_strategies",
    "strategy_tables",
    "with_search_options",
    "with_strategies",
]


@dataclass(frozen=True)
class SearchOptions:
    """How to search, as far as the user has said so."""

    named: str | None
    """The strategy, if it was named."""
    outputs: int | None
    widths: dict[str, Any]
    """Those of groups, beams_per_group, strength and diversity that were given."""
    settings: dict[str, Any]
    """Settings of the strategy's own that were given."""
    unique: bool
    model_temperature: float
    max_length: int | None
    min_length: int | None
    no_repeat_ngram: int | None
    return_per_group: int | None
    length_penalty: float | None
    order: str | None
    select: int | None
    select_by: str | None
    seed: int

    @property
    def selected(self) -> tuple[int, str] | None:
        """How many outputs of a list to choose, and how."""
        if self.select is None and self.select_by is not None:
            raise ArgumentError("--select-by is for --select, which is not given: give --select N too")
        return None if self.select is None else (self.select, self.select_by or SELECTION)

    def strategy(self, defaults: Defaults) -> str:
        """Return the strategy that was named, or the one that other options or the defaults ask for."""
        returned = () if self.return_per_group is None else ("return_per_group",)
        return check_strategy_name(
            self.named or strategy_named_by((*self.widths, *returned), defaults.strategy)
        )

    def specs(self, defaults: Defaults, *, compared: bool) -> tuple[StrategySpec, ...]:
        """Return the strategy that was asked for, and before it beam search of the same width, if compared.

        What was not given is as in `defaults`.
        """
        name, widths, settings = self.strategy(defaults), self._widths(defaults), dict(self.settings)
        if "strength" in self.widths and "strength" in own_settings(name):
            settings["strength"] = self.widths["strength"]
        returned = defaults.return_per_group if self.return_per_group is None else self.return_per_group
        if self.outputs is not None and self.return_per_group is None:
            returned = None
        alike: dict[str, Any] = {
            "unique": self.unique,
            "model_temperature": self.model_temperature,
            "return_per_group": returned,
        }
        asked = StrategySpec.of_widths(name, widths, settings, **alike)
        self._check_used(name)
        if not compared or name == "bs":
            return (asked,)
        return StrategySpec.of_widths("bs", widths, **alike), asked

    def _widths(self, defaults: Defaults) -> Widths:
        given = replace(defaults.widths, **self.widths)
        if self.outputs is None:
            return given
        groups = self.widths.get("groups")
        if "beams_per_group" in self.widths:
            raise ArgumentError("--outputs and --beams-per-group exclude each other: give --groups instead")
        return Widths.divide(self.outputs, groups, given.strength, given.diversity)

    def _check_used(self, strategy: str) -> None:
        """Raise if an option has no effect, or one that the strategy cannot have."""
        _check_penalty_used(self.widths, [strategy])
        limits = {"length-penalty": self.length_penalty is not None, "no-repeat-ngram": self.no_repeat_ngram}
        for name, given in limits.items():
            if given and STRATEGIES[strategy].exact_sampling:
                raise ArgumentError(
                    f"--{name} would change what {strategy} draws, the model's own samples: leave it "
                    "out, or use --strategy sampling"
                )

    def decode_options(self, defaults: Defaults) -> dict[str, Any]:
        """Return options of `decode`. What was not given is as in `defaults`."""
        length = self.max_length or defaults.max_length
        options: dict[str, Any] = {"max_length": length, "min_length": self._min_length(defaults, length)}
        if limit := self._no_repeat_ngram(defaults):
            options["no_repeat_ngram"] = limit
        scorer = self._scorer(defaults)
        return options if scorer is None else {**options, "scorer": scorer}

    def order_of_lists(self, defaults: Defaults) -> str:
        """Return the order of lists: as asked for, by --length-penalty, or as such models have it."""
        return self.order or self._order_of_penalty or defaults.order

    def reorders(self, defaults: Defaults) -> bool:
        """Tell whether lists have to be put into their order, since the search gives them another."""
        if STRATEGIES[self.strategy(defaults)].chooses:
            return self.order is not None or self.length_penalty is not None
        order_of_scorer = "log-prob" if self._scorer(defaults) is None else "score"
        return self.order_of_lists(defaults) != (self._order_of_penalty or order_of_scorer)

    @property
    def _order_of_penalty(self) -> str | None:
        if self.length_penalty is None:
            return None
        named = {0.0: "log-prob", 1.0: "score"}
        return named.get(self.length_penalty, f"length-penalty {self.length_penalty:g}")

    def _min_length(self, defaults: Defaults, length: int) -> int:
        if self.min_length is not None:
            return self.min_length
        return 0 if STRATEGIES[self.strategy(defaults)].exact_sampling else min(defaults.min_length, length)

    def _no_repeat_ngram(self, defaults: Defaults) -> int | None:
        if self.no_repeat_ngram is not None:
            return self.no_repeat_ngram
        return None if STRATEGIES[self.strategy(defaults)].exact_sampling else defaults.no_repeat_ngram

    def _scorer(self, defaults: Defaults) -> Scorer | None:
        """Return what finished outputs are ranked by; None is log-probability."""
        if self.length_penalty is not None:
            from beamsplit import LengthNormalised

            return LengthNormalised(alpha=self.length_penalty)
        order = defaults.order if self.order in (None, "mbr") else self.order
        if order == "log-prob" or STRATEGIES[self.strategy(defaults)].exact_sampling:
            return None
        return scorer_of(order)


def _complete(names: Iterable[str]) -> Callable[..., list[str]]:
    def complete(_context: Any, _parameter: Any, incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


class _Chunk(click.types.StringParamType):
    """The end of a sentence or of a line, or a number of tokens."""

    name = "sentence|line|N"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        return int(value) if str(value).isdecimal() else super().convert(value, param, ctx)


# One strategy

_AT_LEAST_1 = click.IntRange(min=1)
_WIDTH = click.IntRange(1, 10_000)

_OPTIONS = (
    click.option(
        "--strategy",
        metavar="NAME",
        shell_complete=_complete(STRATEGIES),
        help=f"How to search: {one_of(STRATEGIES)} (default: {STRATEGY}; dbs with -g, -b, -d or "
        "--return-per-group, and with --chat).",
    ),
    click.option(
        "--outputs", "-n", type=_WIDTH, metavar="N", help="Number of outputs (default: 6; with --chat, 8)."
    ),
    click.option(
        "--groups",
        "-g",
        type=_WIDTH,
        metavar="N",
        help="Number of groups. Strategies without groups return as many outputs as all groups together.",
    ),
    click.option("--beams-per-group", "-b", type=_WIDTH, metavar="N", help="Beams (or samples) per group."),
    click.option(
        "--strength",
        "-s",
        type=float,
        metavar="X",
        help="Strength of the penalty for what other outputs say; 0 turns it off (default: 0.8 for "
        "--strategy branching, 3 for chunks; for dbs it depends on the model).",
    ),
    click.option(
        "--diversity",
        "-d",
        metavar="TERM",
        shell_complete=_complete(TERMS),
        help=f"Diversity term: {one_of(TERMS)}; settings follow a colon, as in cumulative:temperature=2.",
    ),
    click.option(
        "--temperature",
        type=float,
        metavar="X",
        help="Temperature for sampling: above 1 is more random, below 1 less.",
    ),
    click.option("--top-k", type=int, metavar="N", help="Sample from the N most likely tokens."),
    click.option(
        "--top-p",
        type=float,
        metavar="X",
        help="Sample from the most likely tokens whose probabilities add up to X.",
    ),
    click.option(
        "--min-p",
        type=float,
        metavar="X",
        help="Sample from tokens at least X times as likely as the most likely one.",
    ),
    click.option(
        "--rate",
        type=float,
        metavar="X",
        help="For the strategy siblings: penalty for each rank among the extensions of a beam.",
    ),
    click.option(
        "--proposals",
        type=_WIDTH,
        metavar="N",
        help="For the strategy chunks: how many next chunks each group chooses among (default: 4).",
    ),
    click.option(
        "--chunk",
        type=_Chunk(),
        help="For the strategy chunks: where a chunk ends: at the end of a sentence or of a line, or after N "
        "tokens (default: sentence).",
    ),
    click.option(
        "--propose",
        type=click.Choice(("samples", "beams")),
        help="For the strategy chunks: how chunks are found (default: samples).",
    ),
    click.option(
        "--similarity",
        metavar="NAME",
        shell_complete=_complete(SIMILARITIES),
        help=f"For the strategy chunks: how alike in meaning two outputs are, by {one_of(SIMILARITIES)} "
        "(default: meaning).",
    ),
    click.option(
        "--unique",
        is_flag=True,
        help="Leave out outputs that an earlier group has found. Late branching never repeats one.",
    ),
    MODEL_TEMPERATURE,
    click.option(
        "--max-length", type=_AT_LEAST_1, metavar="N", help="Maximum number of tokens in an output."
    ),
    click.option(
        "--min-length",
        type=click.IntRange(min=0),
        metavar="N",
        help="Minimum number of tokens in an output.",
    ),
    click.option(
        "--no-repeat-ngram",
        type=click.IntRange(min=0),
        metavar="N",
        help="No output has the same N tokens in a row twice; 0 turns it off.",
    ),
    click.option(
        "--return-per-group",
        type=_WIDTH,
        metavar="N",
        help="Number of outputs to return from each group, its best (default: all; with --chat, 1).",
    ),
    click.option(
        "--length-penalty",
        type=float,
        metavar="X",
        help="Rank by log-probability divided by length to the power X.",
    ),
    click.option(
        "--order",
        type=click.Choice(ORDERS),
        help="Order of outputs: by log-probability; by score, which is log-probability per token; or by mbr, "
        "what is most like the other outputs first. Default: the order of choice for --strategy branching; "
        "for others, log-prob with models of ours, else score.",
    ),
    click.option(
        "--select", type=_AT_LEAST_1, metavar="N", help="Choose N outputs of the list, which may be long."
    ),
    click.option(
        "--select-by",
        type=click.Choice(SELECTIONS),
        help="How to choose: by mbr, those most like the others; by diverse-mbr, the same but unlike each "
        f"other; by k-medoids, one of each cluster; by dpp, likely ones that differ (default: {SELECTION}).",
    ),
    click.option(
        "--seed",
        type=int,
        metavar="N",
        default=0,
        show_default=True,
        help="Seed for strategies that sample: the same seed gives the same outputs.",
    ),
)
_WIDTHS = ("groups", "beams_per_group", "strength", "diversity")
_SETTINGS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "rate",
    "proposals",
    "chunk",
    "propose",
    "similarity",
)
_REST = (
    "strategy",
    "outputs",
    "unique",
    "model_temperature",
    "max_length",
    "min_length",
    "no_repeat_ngram",
    "return_per_group",
    "length_penalty",
    "order",
    "select",
    "select_by",
    "seed",
)


def with_search_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for how to search, which the command gets as `search`."""

    @functools.wraps(command)
    def called(**options: Any) -> None:
        widths, settings, rest = (
            {name: options.pop(name) for name in names} for names in (_WIDTHS, _SETTINGS, _REST)
        )
        penalty = rest["length_penalty"]
        if penalty is not None and not 0 <= penalty < float("inf"):
            raise ArgumentError(f"--length-penalty is {penalty}: give a finite number of 0 or more")
        named = rest.pop("strategy")
        search = SearchOptions(named=named, widths=_given(widths), settings=_given(settings), **rest)
        command(search=search, **options)

    for option in reversed(_OPTIONS):
        called = option(called)
    return called


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


# Several strategies

_EVALUATE = DEFAULTS["evaluate"].widths
_SHARED = ("beams", "groups", "beams_per_group", "strength", "diversity")


def _complete_list(names: Iterable[str]) -> Callable[..., list[str]]:
    """Complete the last of several names with commas between them."""

    def complete(_context: Any, _parameter: Any, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names if name.startswith(last)]

    return complete


def with_strategies(help_text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add --strategies, with this help, and the options for what all of them are given alike."""
    options = (
        click.option(
            "--strategies", metavar="LIST", shell_complete=_complete_list(STRATEGIES), help=help_text
        ),
        click.option(
            "--beams",
            type=int,
            metavar="N",
            help=f"Number of outputs per input (default: {_EVALUATE.beams}).",
        ),
        click.option(
            "--groups",
            "-g",
            type=int,
            metavar="N",
            help="Number of groups, for diverse strategies (default: one per beam).",
        ),
        click.option(
            "--beams-per-group",
            "-b",
            type=int,
            metavar="N",
            help="Beams (or samples) per group (default: --beams divided by --groups).",
        ),
        click.option(
            "--strength",
            "-s",
            type=float,
            metavar="X",
            help="Strength of the diversity penalty, for diverse strategies; 0 turns it off "
            f"(default: {_EVALUATE.strength:g}; of branching, 0.8).",
        ),
        click.option(
            "--diversity",
            "-d",
            metavar="TERM",
            shell_complete=_complete(TERMS),
            help=f"Diversity term: {one_of(TERMS)}; settings follow a colon, as in cumulative:temperature=2 "
            f"(default: {_EVALUATE.diversity}).",
        ),
    )

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def given_for_strategies(asked: dict[str, Any]) -> dict[str, Any]:
    """Return those options of `with_strategies` that were given, but for --strategies itself."""
    return _given({name: asked[name] for name in _SHARED})


def strategy_tables(asked: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tables that an experiment would have for the options of `with_strategies`, by name."""
    given = given_for_strategies(asked)
    if asked["strategies"] is None:
        if given:
            name = next(iter(given)).replace("_", "-")
            raise ArgumentError(f"--{name} is for --strategies, which is not given")
        return {}
    names = [check_strategy_name(name.strip()) for name in asked["strategies"].split(",")]
    _check_penalty_used(given, names)
    tables = {name: table_of_widths(name, _widths(given)) for name in names}
    for name in names:
        if "strength" in given and "strength" in own_settings(name):
            tables[name]["strength"] = given["strength"]
    for table in tables.values():
        StrategySpec.of_table(table)  # which says what is wrong in the words of other commands
    return tables


def _check_penalty_used(given: dict[str, Any], names: list[str]) -> None:
    """Raise if an option has no effect on any of these strategies."""
    users = {"strength": list(filter(has_strength, STRATEGIES)), "diversity": list(diverse_strategies())}
    for option, takers in users.items():
        if option in given and not any(name in takers for name in names):
            *others, last = takers
            these = "strategy is" if len(names) == 1 else "strategies are"
            raise ArgumentError(
                f"--{option} is for {', '.join(others)} and {last}, and the {these} {', '.join(names)}"
            )


def _widths(given: dict[str, Any]) -> Widths:
    beams, groups, per_group = (given.get(name) for name in ("beams", "groups", "beams_per_group"))
    if per_group is not None:
        beams, groups = _divided(beams, groups, checks.at_least("beams_per_group", per_group, 1))
    return Widths.divide(
        beams=_EVALUATE.beams if beams is None else beams,
        groups=groups,
        strength=given.get("strength", _EVALUATE.strength),
        diversity=given.get("diversity", _EVALUATE.diversity),
    )


def _divided(beams: int | None, groups: int | None, per_group: int) -> tuple[int, int]:
    """Return how many beams and groups there are, where it is said how many beams a group has."""
    if groups is None:
        whole = checks.at_least("beams", _EVALUATE.beams if beams is None else beams, 1)
        if whole % per_group:
            raise ArgumentError(f"{whole} beams cannot be divided into groups of {per_group}: give --groups")
        return whole, whole // per_group
    made = checks.at_least("groups", groups, 1) * per_group
    if beams not in (None, made):
        raise ArgumentError(
            f"--groups {groups} and --beams-per-group {per_group} make {made} outputs, and --beams is {beams}"
            ": leave one of the three out"
        )
    return made, groups
