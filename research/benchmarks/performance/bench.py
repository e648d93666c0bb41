"""What all parts of the measurement share: the device, the sizes, the record, the time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

import beamsplit
from research.benchmarks.generation import Worker
from research.benchmarks.generation_worker import build
from research.benchmarks.performance import cpu_worker
from research.benchmarks.performance.contestants import (
    Generating,
    OldGenerating,
    Variant,
    generate_options,
    variants,
)
from research.benchmarks.performance.record import Record, code
from research.benchmarks.performance.sizes import Size, Sizes
from research.benchmarks.performance.turns import Clock, Contestant, measure

__all__ = ["Bench", "Settings"]

_Chosen = TypeVar("_Chosen")
_TINY = {
    "llama-1.2b": "llama-tiny",
    "llama-thin": "llama-tiny",
    "qwen3-1.7b": "qwen3-tiny",
    "gpt2": "gpt2-tiny",
    "marian-74m": "marian-tiny",
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run is asked for."""

    device: str
    tiny: bool = False
    turns: int = 3
    threads: int = 2
    """Threads of the part that needs no GPU."""
    old_python: str | None = None
    """An interpreter that has transformers 4.55.4."""
    old_path: Path | None = None
    """Or a folder with it, for this interpreter."""
    before: Path | None = None
    """The folder `src` of another checkout."""
    commit: str | None = None
    """The name of what is measured; by default what git says."""
    cases: str = ""
    """Only cases with this in their names are measured."""
    without: Sequence[str] = ()
    """Contestants with one of these in their names take no part."""


class Bench:
    """One run of the measurement."""

    def __init__(self, record: Record, settings: Settings) -> None:
        self.record, self.settings = record, settings
        self.device, self.turns = settings.device, settings.turns
        self.clock = Clock(0)
        self._part = ""
        self._code = settings.commit or code()
        self._workers: dict[str, Worker] = {}
        self._model: tuple[str, Any] = ("", None)

    def begin(self, part: str, limit: float) -> None:
        """Open a part that may take so many seconds."""
        self.close()  # processes of the last part would keep memory
        self._part, self.clock = part, Clock(limit)
        self.record.begin(part)

    def choose(self, full: _Chosen, tiny: _Chosen) -> _Chosen:
        """Return what is measured, or what shows that everything runs."""
        return tiny if self.settings.tiny else full

    def sizes(self, sizes: Sizes) -> list[Size]:
        """Return the sizes to measure, or those that show that everything runs."""
        return self.choose(sizes.full, sizes.tiny)

    def name(self, model: str) -> str:
        """Return the name of the model to build."""
        return _TINY[model] if self.settings.tiny else model

    def model(self, name: str) -> Any:
        """Return a transformers model with random weights. There is room for one."""
        name = self.name(name)
        if self._model[0] != name:
            self._model = ("", None)
            self.free()
            self._model = (name, build(name, self.device))
        return self._model[1]

    def free(self) -> None:
        """Give memory back that nobody uses."""
        gc.collect()
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def searches(
        self, model: str, size: Size, *, peers: bool = True, chosen: Iterable[Variant] | None = None
    ) -> dict[str, Contestant]:
        """Return our search with each of its switches, and its peers, for one size."""
        built = self.model(model)
        found: dict[str, Contestant] = {
            each.name: Generating(built, "ours", size, self.device, each)
            for each in variants(generate_options(), self.device, chosen)
        }
        if peers:
            found["transformers, beam search"] = Generating(built, "beam", size, self.device)
            found["greedy, as many rows"] = Generating(built, "greedy", size, self.device)
            found |= self._from_elsewhere(self.name(model), size)
        return found

    def _from_elsewhere(self, model: str, size: Size) -> dict[str, Contestant]:
        """Return the contestants that have a process of their own, as far as they are asked for."""
        found: dict[str, Contestant] = {}
        python, path = self.settings.old_python, self.settings.old_path
        if (python or path) and size.groups > 1:
            worker = self._worker("grouped", python or sys.executable, self.device, path)
            found["transformers 4.55.4, groups"] = OldGenerating(worker, model, size, "4.55.4")
        if self.settings.before:
            worker = self._worker("ours", sys.executable, self.device, self.settings.before)
            found["before"] = OldGenerating(worker, model, size)
        return found

    def case(
        self, size: Size, contestants: Callable[[], Mapping[str, Contestant]], *, model: str, key: str = ""
    ) -> None:
        """Measure one case and write it down, if there is time for it."""
        key = key or size.key
        if not self.starts(key):
            return
        self.free()
        chosen = {name: each for name, each in contestants().items() if not self._is_left_out(name)}

        def note(figures: dict[str, dict[str, Any]]) -> None:
            self.add({"key": key, "model": model, **vars(size), "figures": figures})

        figures = measure(chosen, size.tokens, self.turns, self.clock, note)
        for name, each in figures.items():
            self.say(f"  {name}: {_shown(each)}")

    def starts(self, what: str) -> bool:
        """Tell whether a case is wanted and there is time for it. Note it if there is none."""
        if self.settings.cases not in what:
            return False
        if self.clock.is_out:
            self.leave_out(f"{what}: the time was out")
            return False
        self.say(f"{self._part}: {what} ({self.clock.left:.0f} s left)")
        return True

    def _is_left_out(self, contestant: str) -> bool:
        return any(each in contestant for each in self.settings.without)

    def add(self, row: Mapping[str, Any]) -> None:
        self.record.add(self._part, {**row, "code": self._code})

    def leave_out(self, line: str) -> None:
        self.say(f"{self._part}: left out {line}")
        self.record.leave_out(self._part, line)

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def cpu_workers(self) -> dict[str, Worker]:
        """Return processes with the package as it was and as it is, for the part that needs no GPU."""
        if self.settings.before is None:
            return {}
        sources = {"before": self.settings.before, "after": Path(beamsplit.__file__).parents[1]}
        script = Path(cpu_worker.__file__)
        return {
            when: self._worker(when, sys.executable, "cpu", source, script)
            for when, source in sources.items()
        }

    def _worker(self, name: str, *arguments: Any) -> Worker:
        if name not in self._workers:
            self._workers[name] = Worker(name, *arguments)
        return self._workers[name]

    def close(self) -> None:
        """End what was started."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()


def _shown(figures: Mapping[str, Any]) -> str:
    if "error" in figures:
        return f"none ({figures['error']})"
    step, mib = figures["ms_per_step"], figures["mib"]
    memory = "" if mib is None else f", {mib:,.0f} MiB"
    return (
        f"{step['median']:.3g} ms a step [{step['low']:.3g}-{step['high']:.3g}], "
        f"{figures['end_to_end_ms']['median']:.4g} ms in all{memory}, first go {figures['warm_up_s']:.1f} s"
    )
