"""A Ray cluster of several nodes on this machine, of which workers and nodes can be killed."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

__all__ = ["Nodes"]


class Nodes:
    """A cluster whose head has no room for workers, and nodes of one CPU each.

    It is made in the main thread of a program. Models have to leave the numbers of their processes in a
    folder, by SMALL_MODEL_PROCESSES, so that no other process is killed.
    """

    def __init__(self, count: int, processes: Path) -> None:
        from ray.cluster_utils import Cluster

        self._processes = processes
        head = {"num_cpus": 0, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._nodes = [self._add() for _ in range(count)]

    @property
    def address(self) -> str:
        """Where drivers find it."""
        return str(self._cluster.address)

    def _add(self) -> Any:
        return self._cluster.add_node(num_cpus=1)

    def kill_worker(self, choose: random.Random) -> bool:
        """Kill a process that has the model. Return whether there was one."""
        alive = [path for path in sorted(self._processes.iterdir()) if _is_worker(int(path.name))]
        if not alive:
            return False
        os.kill(int(choose.choice(alive).name), signal.SIGKILL)
        return True

    def replace_node(self, choose: random.Random) -> bool:
        """Kill a node with all that is on it, and start another."""
        lost = self._nodes.pop(choose.randrange(len(self._nodes)))
        for each in lost.all_processes["raylet"]:
            each.process.kill()
            each.process.wait()
        self._nodes.append(self._add())
        return True

    def kill_head(self) -> None:
        """Kill the head with all that is on it. The other nodes are left alone."""
        head: Any = self._cluster.head_node
        for processes in head.all_processes.values():
            for each in processes:
                each.process.kill()
                each.process.wait()

    def shutdown(self) -> None:
        """End all nodes."""
        self._cluster.shutdown()  # type: ignore[no-untyped-call]


def _is_worker(process: int) -> bool:
    """Tell whether a process is still a worker of Ray's: its number may be another's by now."""
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False
    return command.startswith(b"ray::")
