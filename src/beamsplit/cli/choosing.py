"""Options that say how to search, the same for all commands that do."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from beamsplit.cli.options import one_of
from beamsplit.diversity.names import TERMS
from beamsplit.errors import ArgumentError

if TYPE_CHECKING:
    from beamsplit import Scorer
    from beamsplit.choices import Choice

__all__ = ["Asked", "with_choice"]


@dataclass(frozen=True)
class Asked:
    """How to search, as far as the user has said so."""

    said: dict[str, Any]
    settings: dict[str, Any]
    unique: bool
    max_length: int | None
    min_length: int
    length_penalty: float | None
    seed: int

    def choice(self, suitable: Choice) -> Choice:
        """What suits the model, but for what was said otherwise."""
        made = replace(suitable, **self.said, settings=self.settings, unique=self.unique)
        self._check_used(made)
        return made

    def _check_used(self, choice: Choice) -> None:
        """What is said in vain is refused: who says it expects something of it."""
        method = choice.method
        used = {*method.settings, *(["diversity"] if method.diversity is not None else [])}
        for name in ("strength", "diversity"):
            if name in self.said and name not in used:
                others = "dbs, divmbest and diverse-sampling"
                raise ArgumentError(f"--{name} is for {others}, and the strategy is {choice.strategy}")

    def limits(self, max_length: int) -> dict[str, Any]:
        """Options of `decode`."""
        limits: dict[str, Any] = {"max_length": self.max_length or max_length, "min_length": self.min_length}
        return limits if self.length_penalty is None else {**limits, "scorer": self._scorer()}

    def _scorer(self) -> Scorer:
        from beamsplit import LengthNormalised

        assert self.length_penalty is not None
        return LengthNormalised(alpha=self.length_penalty)


def _complete(names: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    def complete(_context: Any, _parameter: Any, incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def _strategies() -> list[str]:
    from beamsplit.choices import TITLES

    return list(TITLES)


_AT_LEAST_1 = click.IntRange(min=1)
_WIDTH = click.IntRange(1, 10_000)

_OPTIONS = (
    click.option(
        "--strategy",
        metavar="NAME",
        shell_complete=_complete(_strategies),
        help="dbs (default), bs, siblings, mmi, divmbest, sampling, nucleus, diverse-sampling or stochastic.",
    ),
    click.option(
        "--groups",
        "-g",
        type=_WIDTH,
        metavar="N",
        help="How many groups. Strategies without any have as many outputs as groups times beams of each.",
    ),
    click.option("--beams-per-group", "-b", type=_WIDTH, metavar="N", help="Beams (or samples) of each."),
    click.option("--strength", "-s", type=float, metavar="X", help="Of diversity; 0 is none."),
    click.option(
        "--diversity",
        "-d",
        metavar="TERM",
        shell_complete=_complete(lambda: TERMS),
        help=f"{one_of(TERMS)}; settings follow a colon, as in cumulative:temperature=2.",
    ),
    click.option("--temperature", type=float, metavar="X", help="Of sampling."),
    click.option("--top-k", type=int, metavar="N", help="Sample from the N likeliest tokens."),
    click.option("--top-p", type=float, metavar="X", help="Sample from the likeliest that make up X."),
    click.option("--min-p", type=float, metavar="X", help="Sample from those X times as likely as the best."),
    click.option("--rate", type=float, metavar="X", help="Of siblings: what each rank costs."),
    click.option("--unique", is_flag=True, help="No group repeats what an earlier one found."),
    click.option("--max-length", type=_AT_LEAST_1, metavar="N", help="Most tokens of an output."),
    click.option("--min-length", type=click.IntRange(min=0), metavar="N", default=0, help="Fewest tokens."),
    click.option(
        "--length-penalty", type=float, metavar="X", help="Rank by log-probability over length to the X."
    ),
    click.option("--seed", type=int, metavar="N", default=0, show_default=True, help="Of sampling."),
)
_SAID = ("strategy", "groups", "beams_per_group", "strength", "diversity")
_SETTINGS = ("temperature", "top_k", "top_p", "min_p", "rate")


def with_choice(command: Callable[..., None]) -> Callable[..., None]:
    """Options for how to search, which the command gets as `asked`."""

    @functools.wraps(command)
    def called(**options: Any) -> None:
        said = {name: options.pop(name) for name in _SAID}
        settings = {name: options.pop(name) for name in _SETTINGS}
        rest = {name: options.pop(name) for name in ("unique", "max_length", "min_length", "seed")}
        penalty = options.pop("length_penalty")
        if penalty is not None and not 0 <= penalty < float("inf"):
            raise ArgumentError(f"--length-penalty is {penalty}: give a finite number of 0 or more")
        asked = Asked(_given(said), _given(settings), length_penalty=penalty, **rest)
        command(asked=asked, **options)

    for option in reversed(_OPTIONS):
        called = option(called)
    return called


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
