"""What each group has said so far, and what it may say next. Plain data, which can be pickled."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

__all__ = ["Path", "Proposal", "Root", "Where"]


@dataclass(frozen=True, slots=True)
class Where:
    """Where the model's state behind a proposal was kept: the number of a `Keep`, and a row of it."""

    source: int
    row: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """A chunk that a group may say next."""

    tokens: tuple[int, ...]
    log_prob: float
    gain: float  # the same with guidance
    ended: bool  # by an end token, or by the caller's `stop`
    certified: bool
    where: Where | None  # None: nothing follows


@dataclass(frozen=True, slots=True)
class Path:
    """What a group has said."""

    tokens: tuple[int, ...] = ()
    marks: tuple[int, ...] = ()  # how many tokens there were after each round
    log_prob: float = 0.0
    gain: float = 0.0  # the same with guidance
    score: float = 0.0  # what its last chunk was chosen by
    done: bool = False
    finished: bool = False
    certified: bool = True
    where: Where | None = None

    def extended(self, proposal: Proposal, most: int) -> Path:
        """Return the path with one more chunk. It is done if that ends it, or if it may not be longer."""
        tokens = self.tokens + proposal.tokens
        return replace(
            self,
            tokens=tokens,
            log_prob=self.log_prob + proposal.log_prob,
            gain=self.gain + proposal.gain,
            done=proposal.ended or len(tokens) >= most,
            finished=proposal.ended,
            certified=self.certified and proposal.certified,
            where=proposal.where,
        )

    def tokens_after(self, number: int) -> tuple[int, ...]:
        """Return what it had said after this round."""
        return self.tokens[: self.marks[number]] if number < len(self.marks) else self.tokens


@dataclass(frozen=True, slots=True)
class Root:
    """What groups of an input go on from that have said the same."""

    input: int
    groups: range
    path: Path = field(default_factory=Path)

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.path.tokens
