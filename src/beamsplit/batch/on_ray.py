"""Workers on a Ray cluster: one actor each, which loads its model once.

Ray places the workers, tells when one is lost, and carries what they say. Everything else is ours, so that
it can be gone on with after the cluster is lost too: results go straight from a worker to their place, and
the driver sees only their counts.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any

from beamsplit import extras
from beamsplit.batch.plan import Shard
from beamsplit.batch.pool import Done, Event, Lost
from beamsplit.batch.task import Loaded, ShardWorker, Task
from beamsplit.errors import ArgumentError, BeamsplitError

__all__ = ["Cluster", "RayPool", "ray_pool"]

_AHEAD = 2
"""Shards that a worker has: one in progress, and one to begin as soon as that is done."""
_PATIENCE = 1.0  # seconds that one look at the workers takes at most
_ASK = 2.0  # seconds between questions about progress
_COUNT = 15.0  # seconds between looks at how large the cluster is
_LOOK = 1.0  # seconds between looks whether its head is there
_RAYS_PATIENCE = "RAY_gcs_rpc_server_reconnect_timeout_s"
"""Seconds without the head after which Ray ends the program, with an exit code and nothing else."""


@dataclass(frozen=True)
class Cluster:
    """Where workers are to be, how many, and what each of them needs."""

    address: str | None
    """Of a Ray cluster; None or "local" starts one on this machine."""
    workers: int | None = None
    """How many; None: as many as there is room for."""
    cpus: float = 1
    gpus: float = 0

    def room(self, resources: dict[str, float]) -> int:
        """Return how many workers these resources have room for.

        >>> Cluster(None, cpus=2, gpus=1).room({"CPU": 16.0, "GPU": 4.0})
        4
        """
        needs = {"CPU": self.cpus, "GPU": self.gpus}
        return int(min(resources.get(name, 0) // need for name, need in needs.items() if need))


@contextmanager
def ray_pool(task: Task, cluster: Cluster) -> Iterator[RayPool]:
    """Give workers on a cluster, for the length of a block."""
    ray = extras.need("ray", "decoding on several workers", "ray")
    with _connected(ray, cluster):
        pool = RayPool(ray, task, cluster)
        try:
            yield pool
        finally:
            pool.close()


@contextmanager
def _connected(ray: Any, cluster: Cluster) -> Iterator[None]:
    """Connect to a cluster, or start one on this machine, unless this program has done so itself."""
    if ray.is_initialized():
        yield
        return
    with _signals_kept():
        _init(ray, cluster)
    _silence(ray)
    try:
        yield
    finally:
        ray.shutdown()


def _init(ray: Any, cluster: Cluster) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    if cluster.address not in (None, "local"):
        try:
            ray.init(address=cluster.address, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ArgumentError(
                f"there is no Ray cluster at {cluster.address!r}: start one (ray start --head), give its "
                "address, or leave --ray out for workers on this machine"
            ) from error
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told that this runs
    wanted = (cluster.workers or 1) * cluster.cpus
    cpus = max(os.cpu_count() or 1, int(-(-wanted // 1)))
    try:
        ray.init(address="local", num_cpus=cpus, include_dashboard=False, **quiet)
    except Exception as error:  # such as a bare Exception, where the machine is too busy
        raise BeamsplitError(
            f"Ray cannot be started on this machine: {' '.join(str(error).split())}"
        ) from error


def _silence(ray: Any) -> None:
    """Have Ray print nothing about workers that are lost: a line of ours says so.

    It does so on stdout, and has no setting for that. A version without this switch prints.
    """
    with suppress(AttributeError):
        ray._private.worker._worker_logs_enabled = False


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Put the handlers of signals back that Ray replaces by its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(eq=False)
class _Worker:
    """An actor, and what it was given."""

    actor: Any
    loading: Any
    """A promise of what it tells when its model is there; None when it has."""
    shards: dict[Any, Shard] = field(default_factory=dict)
    """What it has to decode, by the promises of reports."""
    asked: Any = None
    """A promise of how far it is."""
    rows: int = 0


class _Head:
    """The head of a cluster, without which it does nothing new."""

    def __init__(self, address: str | None) -> None:
        """Watch an address; without one, say that all is well."""
        self._address = address
        self._patience = float(os.environ.get(_RAYS_PATIENCE, 60)) / 2  # so that we are first to stop
        self._looked_at = monotonic()
        self._gone_since: float | None = None

    def look(self) -> None:
        """Raise if it has been gone for some time."""
        now = monotonic()
        if now - self._looked_at < _LOOK:
            return
        self._looked_at = now
        if self.answers():
            self._gone_since = None
        elif self._gone_since is None:
            self._gone_since = now
        elif now - self._gone_since > self._patience:
            raise BeamsplitError(
                f"the head of the Ray cluster at {self._address} is gone: start a cluster again "
                "(ray start --head)"
            )

    def answers(self) -> bool:
        """Tell whether it is there right now."""
        return self._address is None or _listens(self._address)


def _listens(address: str) -> bool:
    """Tell whether anybody answers at an address such as 10.0.0.1:6379."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_LOOK).close()
    except OSError:
        return False
    return True


class RayPool:
    """Workers on a Ray cluster. One that is lost is replaced, as far as there is room."""

    patience = 20
    """Workers that may be lost in a row before any shard is done."""

    def __init__(self, ray: Any, task: Task, cluster: Cluster) -> None:
        self._ray = ray
        self._cluster = cluster
        self._head = _Head(getattr(ray.get_runtime_context(), "gcs_address", None))
        self._task = ray.put(task)
        self._workers: list[_Worker] = []
        self._lost: list[Event] = []
        self._failures = 0
        self._asked_at = self._counted_at = float("-inf")
        self._actor = ray.remote(
            num_cpus=cluster.cpus,
            num_gpus=cluster.gpus,
            concurrency_groups={"watching": 1},
            scheduling_strategy="SPREAD",
        )(_Actor)

    def start(self) -> Loaded:
        if not self._wanted():
            raise ArgumentError(
                f"the cluster has no room for a worker with CPU {self._cluster.cpus:g} and GPU "
                f"{self._cluster.gpus:g}: give less (--worker-cpus, --worker-gpus), or a larger cluster"
            )
        while True:
            self._fill()
            for worker in self._ready():
                loaded = self._loaded(worker)
                if loaded is not None:
                    return loaded

    def has_room(self) -> bool:
        return any(len(each.shards) < _AHEAD for each in self._workers if each.loading is None)

    def give(self, shard: Shard, batch_size: int) -> None:
        ready = (each for each in self._workers if each.loading is None)
        worker = min(ready, key=lambda each: len(each.shards))
        worker.shards[worker.actor.decode.remote(shard, batch_size)] = shard

    def wait(self) -> Sequence[Event]:
        self._fill()
        lost, self._lost = self._lost, []
        if lost:
            return lost
        found: list[Event] = []
        for worker in self._ready():
            if worker.loading is not None:
                self._loaded(worker)
            else:
                found += self._reports(worker)
        self._ask()
        lost, self._lost = self._lost, []
        return [*found, *lost]

    def rows_done(self) -> int:
        return sum(each.rows for each in self._workers)

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            self._kill(worker)
        self._workers.clear()

    # Workers

    def _fill(self) -> None:
        """Start as many workers as there is room for."""
        self._head.look()
        if monotonic() - self._counted_at < _COUNT and self._workers:
            return
        if not self._head.answers():  # or the next question would never be answered
            return
        self._counted_at = monotonic()
        for _ in range(self._wanted() - len(self._workers)):
            actor = self._actor.remote(self._task)
            self._workers.append(_Worker(actor, actor.load.remote()))

    def _wanted(self) -> int:
        room = self._cluster.room(self._ray.cluster_resources())
        return room if self._cluster.workers is None else min(room, self._cluster.workers)

    def _ready(self) -> list[_Worker]:
        """Return the workers that have something to tell, after a second at most."""
        by_promise = {
            promise: worker
            for worker in self._workers
            for promise in (worker.shards if worker.loading is None else [worker.loading])
        }
        if not by_promise:  # all are lost, and there is no room for others yet
            sleep(_PATIENCE)
            return []
        ready, _ = self._ray.wait(list(by_promise), num_returns=1, timeout=_PATIENCE)
        rest = [promise for promise in by_promise if promise not in ready]
        more = self._ray.wait(rest, num_returns=len(rest), timeout=0)[0] if rest else []
        return list(dict.fromkeys(by_promise[promise] for promise in [*ready, *more]))

    def _loaded(self, worker: _Worker) -> Loaded | None:
        """Take what a worker tells that has loaded its model; None if it was lost meanwhile."""
        try:
            found: Loaded = self._get(worker.loading)
        except _GoneError as error:
            self._drop(worker, str(error))
            return None
        worker.loading = None
        return found

    def _reports(self, worker: _Worker) -> list[Event]:
        ready, _ = self._ray.wait(list(worker.shards), num_returns=len(worker.shards), timeout=0)
        found: list[Event] = []
        for promise in ready:
            try:
                report = self._get(promise)
            except _GoneError as error:
                self._drop(worker, str(error))
                return found
            del worker.shards[promise]
            worker.rows = 0
            self._failures = 0
            found.append(Done(report))
        return found

    def _get(self, promise: Any) -> Any:
        """Return what was promised. Raise what the model or the folder refused, as it was raised there."""
        exceptions = self._ray.exceptions
        try:
            return self._ray.get(promise)
        except exceptions.RayTaskError as error:
            raise _cause_of(error) from None
        except (exceptions.RayActorError, exceptions.WorkerCrashedError, exceptions.RaySystemError) as error:
            raise _GoneError(_reason(error)) from error
        except (exceptions.ObjectLostError, exceptions.OutOfMemoryError) as error:
            raise _GoneError(_reason(error)) from error

    def _drop(self, worker: _Worker, reason: str) -> None:
        """Give up a worker, and give back what it had."""
        self._failures += 1
        if self._failures > self.patience:
            raise BeamsplitError(f"{self._failures} workers were lost in a row, the last since {reason}")
        self._workers.remove(worker)
        given = enumerate(worker.shards.values())  # the first is in progress, the other waits
        self._lost += [Lost(shard, reason, begun=not place) for place, shard in given]
        self._kill(worker)
        self._counted_at = float("-inf")

    def _kill(self, worker: _Worker) -> None:
        """End a worker. Without a head, nobody can: it ends by itself."""
        if not self._head.answers():
            return
        try:
            self._ray.kill(worker.actor)
        except Exception:  # it is gone, or the whole cluster is
            logging.getLogger(__name__).debug("a worker could not be ended", exc_info=True)

    # Progress

    def _ask(self) -> None:
        """Ask workers how far they are, and take what they have answered to the question before."""
        if monotonic() - self._asked_at < _ASK:
            return
        self._asked_at = monotonic()
        for worker in self._workers:
            if worker.asked is not None and self._ray.wait([worker.asked], timeout=0)[0]:
                try:
                    worker.rows = self._get(worker.asked)
                except _GoneError:
                    continue  # which `wait` will see
                worker.asked = None
            if worker.asked is None and worker.loading is None:
                worker.asked = worker.actor.rows_done.options(concurrency_group="watching").remote()


class _Actor:
    """A worker as Ray has it."""

    def __init__(self, task: Task) -> None:
        self._worker = ShardWorker(task)

    def load(self) -> Loaded:
        return self._worker.load()

    def decode(self, shard: Shard, batch_size: int) -> Any:
        return self._worker.decode(shard, batch_size)

    def rows_done(self) -> int:
        return self._worker.rows_done()


class _GoneError(Exception):
    """A worker is lost."""


def _reason(error: BaseException) -> str:
    """Return what has become of a worker, in fewer words than Ray's."""
    if "OutOfMemory" in type(error).__name__:
        return "it took more memory than its node has"
    return "its node was lost" if "its node" in str(error) else "its process ended"


def _cause_of(error: Any) -> BaseException:
    """Return what was raised in a worker, so that it is shown as if it had been raised here."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, BeamsplitError | ImportError):
        return cause
    last = [line for line in str(error).splitlines() if line.strip()][-1].strip()
    return BeamsplitError(f"a worker failed: {last[:300]}")
