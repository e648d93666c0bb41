"""What a job asks of its workers, wherever they are: here, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from beamsplit.batch.plan import Shard
from beamsplit.batch.task import Loaded, ShardReport, ShardWorker, Task

__all__ = ["Done", "Event", "InProcess", "Lost", "Pool"]


@dataclass(frozen=True)
class Done:
    """A shard is done."""

    report: ShardReport


@dataclass(frozen=True)
class Lost:
    """A worker ended while it had a shard. The shard has to be decoded by another."""

    shard: Shard
    reason: str
    begun: bool = True
    """Whether it was being decoded, and did not only wait."""


Event = Done | Lost


class Pool(Protocol):
    """Workers that decode shards. What a model refuses is raised."""

    def start(self) -> Loaded:
        """Return what the first worker tells that has loaded its model."""

    def has_room(self) -> bool:
        """Tell whether a shard that is given now would soon be begun."""

    def give(self, shard: Shard, batch_size: int) -> None:
        """Have a shard decoded."""

    def wait(self) -> Sequence[Event]:
        """Return what has happened, after a second at most."""

    def rows_done(self) -> int:
        """Return how many lines of shards in progress are done."""


class InProcess:
    """One worker in this process."""

    def __init__(self, task: Task) -> None:
        self._worker = ShardWorker(task)
        self._given: list[tuple[Shard, int]] = []

    def start(self) -> Loaded:
        return self._worker.load()

    def has_room(self) -> bool:
        return not self._given

    def give(self, shard: Shard, batch_size: int) -> None:
        self._given.append((shard, batch_size))

    def wait(self) -> Sequence[Event]:
        given, self._given = self._given, []
        return [Done(self._worker.decode(shard, size)) for shard, size in given]

    def rows_done(self) -> int:
        return 0
