"""The plan of a study, before it is created."""

from __future__ import annotations

from dataclasses import dataclass

from beamsplit import checks
from beamsplit.errors import ArgumentError

__all__ = ["CONSENT", "PATIENCE", "QUESTION", "NewItem", "StudyPlan"]

QUESTION = "Which list do you prefer?"
PATIENCE = 30 * 60.0
CONSENT = """\
You will be shown pairs of lists and asked, for each pair, which of the two you prefer. There are no wrong \
answers, except in a few questions that check whether people read.

We keep which list you chose and when, under a number; not your name, your address or anything about your \
device. What people chose may be published, together with these numbers.

Taking part is voluntary. You may stop at any time by closing the page, and go on later with the same link. \
The link is yours alone: please do not pass it on."""


@dataclass(frozen=True, kw_only=True)
class NewItem:
    """Two lists of the same input."""

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    input: str = ""
    picture: bytes | None = None
    """A JPEG."""
    complexity: float | None = None
    difficulty: float | None = None
    answer: str | None = None
    """The right answer of an attention check: "first" or "second"."""


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """The lists of two methods, and how people are asked about them."""

    first: str
    second: str
    items: tuple[NewItem, ...]
    checks: tuple[NewItem, ...] = ()
    """Attention checks: items with an obvious answer, which everyone is shown."""
    question: str = QUESTION
    consent: str = CONSENT
    votes: int = 5
    annotators: int = 5
    share: int | None = None
    """The most items for one annotator; by default all that still need votes."""
    patience: float = PATIENCE
    """Seconds after which an item that was shown but not answered may go to someone else."""
    seed: int = 0

    def __post_init__(self) -> None:
        checks.at_least("votes", self.votes, 1)
        checks.positive("patience", self.patience)
        if self.share is not None:
            checks.at_least("share", self.share, 1)
        if checks.at_least("seed", self.seed, 0) >= 2**31:
            raise ArgumentError(f"seed is {self.seed}: give one below {2**31}")
        if not self.items:
            raise ArgumentError("a study of no items has nothing to ask: give one at least")
        if self.first == self.second:
            raise ArgumentError(f"both lists are called {self.first!r}: give them names that differ")
        checks.at_least("annotators", self.annotators, 1)
        self._check_people()

    def _check_people(self) -> None:
        """Raise if there are too few annotators."""
        people, votes, count = self.annotators, self.votes, len(self.items)
        if people < votes:
            raise ArgumentError(
                f"annotators is {people} and votes is {votes}, and nobody votes twice on an item: "
                f"give {votes} annotators at least"
            )
        if self.share is not None and people * self.share < votes * count:
            raise ArgumentError(
                f"{people} annotators with a share of {self.share} give {people * self.share} votes, and "
                f"{count} items need {votes * count}: raise annotators or share"
            )
