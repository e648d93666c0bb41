"""Time a search with each diversity term on a processor, and count what it asks of the device.

    python -m research.benchmarks.terms --before OTHER/src

The model's step is next to free, so that times are those of the search. On a GPU a step takes as long as
launching its operations and waiting for their answers: so both are counted. `--before` lets another
checkout take turns with this one, each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import beamsplit
from beamsplit import Cumulative, DiverseBeamSearch, Embedding, Hamming, NGram
from research.benchmarks.generation import Worker

DIMENSIONS = 512
STEPS = 20
_WAITS = {"_local_scalar_dense", "nonzero", "equal", "_unique2", "is_nonzero"}


@dataclass(frozen=True)
class Case:
    """A size to measure each term at."""

    inputs: int
    groups: int
    beams: int  # of each group
    vocabulary: int
    strength: float = 0.5

    def __str__(self) -> str:
        sizes = f"({self.inputs}, {self.groups * self.beams}, {self.groups})"
        return f"{sizes}, V={self.vocabulary // 1000}k, strength {self.strength:g}"


CASES = [
    Case(inputs, *shape, vocabulary)
    for vocabulary in (10_000, 128_000)
    for inputs in (1, 8)
    for shape in ((20, 1), (5, 4))
] + [Case(1, 20, 1, 10_000, 3.0), Case(8, 5, 4, 10_000, 3.0)]
TERMS = ("hamming", "cumulative", "ngram", "soft hamming", "soft cumulative", "soft ngram", "alike hamming")
_COMMON = (
    0.9  # times a vector, so that two tokens have a cosine of 0.45 in the mean, as those of SmolLM2-135M
)


class LastToken:
    """A model whose logits depend on the last token alone, and are there already."""

    def __init__(self, vocabulary: int, kinds: int = 16) -> None:
        torch.manual_seed(0)
        # As a trained model's: a few tokens are likely, most are not.
        rank = torch.arange(1, vocabulary + 1).log()
        self._logits = torch.randn(kinds, vocabulary) * 3 - rank

    def start(self, inputs: Any) -> tuple[Tensor, None]:
        return self._logits[torch.tensor(inputs) % len(self._logits)], None

    def step(self, tokens: Tensor, state: None) -> tuple[Tensor, None]:
        return self._logits.index_select(0, tokens % len(self._logits)), None

    def select(self, state: None, rows: Tensor) -> None:
        return None


def make_term(name: str, vocabulary: int) -> Any:
    plain: dict[str, Any] = {"hamming": Hamming(), "cumulative": Cumulative(), "ngram": NGram(n=2)}
    kind, _, of = name.rpartition(" ")
    if not kind:
        return plain[of]
    torch.manual_seed(1)
    vectors = torch.randn(vocabulary, DIMENSIONS)
    if kind == "alike":
        vectors += _COMMON * torch.randn(DIMENSIONS)
    return Embedding(vectors=vectors, of=plain[of])


class Count(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations that do something (views do not), and those whose result the processor waits for."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not any(each.alias_info and not each.alias_info.is_write for each in func._schema.returns):
            self.operations[func.__name__.split(".")[0]] += 1
        return func(*args, **(kwargs or {}))

    @property
    def waits(self) -> int:
        return sum(count for name, count in self.operations.items() if name in _WAITS)


class Search:
    """One case with one term."""

    def __init__(self, case: Case, term: str) -> None:
        self._model, self._inputs = LastToken(case.vocabulary), list(range(case.inputs))
        self._strategy = DiverseBeamSearch(
            groups=case.groups,
            beams_per_group=case.beams,
            strength=case.strength,
            diversity=make_term(term, case.vocabulary),
        )

    def run(self) -> Any:
        return beamsplit.decode(self._model, self._inputs, self._strategy, max_length=STEPS, end=None)

    def seconds(self) -> float:
        begin = time.perf_counter()
        self.run()
        return time.perf_counter() - begin

    def count(self) -> dict[str, Any]:
        with Count() as counted:
            self.run()
        total = sum(counted.operations.values())
        return {"operations": round(total / STEPS, 1), "waits": round(counted.waits / STEPS, 1)}


def work() -> None:
    """Answer lines of JSON that each name a case and a term."""
    torch.set_num_threads(1)
    searches: dict[str, Search] = {}
    key = None
    for line in sys.stdin:
        task = json.loads(line)
        if task["case"] != key:
            searches, key = {}, task["case"]
        term = task["term"]
        if term not in searches:
            searches[term] = Search(Case(**task["case"]), term)
            answer = searches[term].count()
            found = [[h.tokens for h in each] for each in searches[term].run()]
            answer["found"] = zlib.crc32(str(found).encode())
        else:
            answer = {"seconds": searches[term].seconds()}
        print(json.dumps(answer), flush=True)


def measure(case: Case, terms: list[str], workers: list[Worker], turns: int) -> list[dict[str, Any]]:
    """Return a row for each term and contestant."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    taken: dict[tuple[str, str], list[float]] = {}
    for turn in range(turns + 1):
        for term in terms:
            for worker in workers:
                answer, key = worker.run({"case": vars(case), "term": term}), (term, worker.contestant)
                if "error" in answer:
                    raise RuntimeError(f"{case}, {term}: {answer['error']}")
                if turn:
                    taken.setdefault(key, []).append(answer["seconds"] / STEPS * 1e3)
                else:
                    rows[key] = {"case": str(case), "term": term, "which": worker.contestant, **answer}
    for term in terms:
        if len({row["found"] for key, row in rows.items() if key[0] == term}) > 1:
            raise AssertionError(f"{case}, {term}: the two checkouts find different outputs")
    for (term, which), times in taken.items():
        peers = taken[terms[0], which]
        over = statistics.median(mine / theirs for mine, theirs in zip(times, peers, strict=True))
        rows[term, which] |= {"ms": round(statistics.median(times), 3), f"over_{terms[0]}": round(over, 2)}
    return list(rows.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", type=Path, metavar="SRC", help="the folder src of another checkout")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--cases", default="", help="only those with this in their names")
    parser.add_argument(
        "--terms", nargs="*", default=list(TERMS), help="the first is what others are held to"
    )
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args()
    sources = {"after": Path(beamsplit.__file__).parents[1]}
    if options.before:
        sources = {"before": options.before, **sources}
    workers = [
        Worker(which, sys.executable, "cpu", source, Path(__file__)) for which, source in sources.items()
    ]
    found = []
    for case in CASES:
        if options.cases not in str(case):
            continue
        for row in measure(case, options.terms, workers, options.turns):
            found.append(row)
            print("  ".join(str(value) for value in row.values()), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for worker in workers:
        worker.close()


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in ("before", "after"):
        work()
    else:
        main()
