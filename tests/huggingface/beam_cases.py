"""Steps of many beams, and attention the slow and obvious way.

Run as a program it compares the kernels with it, in Triton's interpreter where there is no GPU: it must be
switched on before Triton is imported, so that needs a process of its own.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass

import torch
from torch import Tensor

from beamsplit.huggingface.reading import (
    BeamStore,
    BeamTable,
    Bias,
    KeysValues,
    OwnTokens,
    Scoring,
    read_beams,
)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class Case:
    """Sizes of a step."""

    inputs: int = 2
    width: int = 3
    kv_heads: int = 2
    group: int = 2
    size: int = 32
    places: int = 20  # none without a prompt
    tokens: int = 5
    dtype: torch.dtype = torch.float32
    window: int | None = None
    softcap: float | None = None
    cross: bool = False
    bias: bool = False
    sinks: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Step:
    """A random step of some sizes. What may not be used is NaN."""

    query: Tensor
    store: BeamStore
    table: BeamTable
    scoring: Scoring
    new: KeysValues | None


def make(case: Case, device: str = "cpu") -> Step:
    torch.manual_seed(case.seed)
    grid, span = _grid(case), _span(case)
    rows = int(grid.max()) + 2  # the last is in no place
    input_of = torch.full((rows,), -1)
    for number in range(case.inputs):
        input_of[grid[number][grid[number] >= 0]] = number
    # Heads of queries, keys and values lie side by side, as a fused projection leaves them.
    heads, kv_heads = case.kv_heads * case.group, case.kv_heads
    fused = (2 * torch.randn(rows, heads + 2 * kv_heads, case.size)).to(case.dtype).to(device)
    prompt = (_prompt(case, span).to(device), _prompt(case, span).to(device)) if case.places else None
    own, pool = (None, None) if case.cross else _own(case, rows, device)
    sinks = torch.randn(heads).to(case.dtype).to(device) if case.sinks else None
    return Step(
        fused[:, :heads],
        BeamStore(prompt, pool),
        BeamTable(span.int().to(device), grid.int().to(device), input_of.int().to(device), own),
        Scoring(case.size**-0.5, case.softcap, case.window, _bias(case, heads, device), sinks),
        None if case.cross else (fused[:, heads:-kv_heads], fused[:, -kv_heads:]),
    )


def _bias(case: Case, heads: int, device: str) -> Bias | None:
    """For each place of the prompt, two that no row has, and each token of rows' own, the new one too."""
    if not case.bias:
        return None
    own = case.places + 2
    values = torch.randn(own + case.tokens + 1, heads).to(case.dtype).to(device)
    return Bias(values.t(), torch.tensor(own, device=device))


def _grid(case: Case) -> Tensor:
    """Rows in any order; each input but the first has fewer than the one before."""
    grid = torch.full((case.inputs, case.width), -1)
    used = [max(case.width - number, 0) for number in range(case.inputs)]
    rows = torch.randperm(sum(used))
    for number, count in enumerate(used):
        grid[number, torch.randperm(case.width)[:count]] = rows[sum(used[:number]) :][:count]
    return grid


def _span(case: Case) -> Tensor:
    """Prompts of all lengths: the first fills most of its places, the last none."""
    if not case.places:
        return torch.zeros(case.inputs, 2)
    ends = torch.randint(0, case.places + 1, (case.inputs, 2)).sort(dim=1).values
    ends[0] = torch.tensor([1, max(case.places - 1, 1)])
    if case.inputs > 2:
        ends[-1] = ends[-1, 0]
    return ends


def _prompt(case: Case, span: Tensor) -> Tensor:
    stored = 2 * torch.randn(case.inputs, case.places, case.kv_heads, case.size).to(case.dtype)
    place = torch.arange(case.places)
    real = (place >= span[:, :1]) & (place < span[:, 1:])
    stored[~real] = torch.nan
    return stored.transpose(1, 2)


def _own(case: Case, rows: int, device: str) -> tuple[OwnTokens, KeysValues]:
    """Rows may share slots; one has no token, one has all of them, one has no target."""
    length = torch.randint(0, case.tokens + 1, (rows,))
    length[0] = 0
    length[-2:] = case.tokens
    slots = 2 * rows + rows * case.tokens // 2 + 1
    order = torch.randperm(slots)
    target, old = order[:rows], order[rows:]
    target[min(1, rows - 1)] = -1
    past = old[torch.randint(0, len(old), (rows, case.tokens))]
    valid = torch.arange(case.tokens) < length[:, None]
    unused = torch.ones(slots, dtype=torch.bool)
    unused[past[valid]] = False
    past[~valid] = 2**31 - 1
    keys, values = (2 * torch.randn(slots, case.kv_heads, case.size).to(case.dtype) for _ in range(2))
    keys[unused], values[unused] = torch.nan, torch.nan
    own = OwnTokens(past.int().to(device), length.int().to(device), target.int().to(device))
    return own, (keys.to(device), values.to(device))


def expected(step: Step) -> Tensor:
    """Gather each row's keys in their order, and take one softmax of them; no keys, no result."""
    out = torch.zeros(step.query.shape, dtype=torch.float64, device=step.query.device)
    for row in range(len(out)):
        keys, values = (each.double() for each in _of_row(step, row))
        if len(keys):
            added = _bias_of_row(step, row)
            out[row] = _one_softmax(step.query[row].double(), keys, values, step.scoring, added)
    return out


def _of_row(step: Step, row: int) -> tuple[Tensor, ...]:
    """All tokens that a row could see, the latest last: keys and values [tokens kv_heads size]."""
    number = int(step.table.input_of[row])
    found = []
    for which in range(2):
        tokens = []
        if step.store.prompt is not None and number >= 0:
            first, last = step.table.span[number].tolist()
            tokens += [step.store.prompt[which][number, :, place] for place in range(first, last)]
        if step.new is not None and step.store.pool is not None and step.table.own is not None:
            slots = step.table.own.past[row, : int(step.table.own.length[row])]
            tokens += [step.store.pool[which][slot] for slot in slots.tolist()]
            tokens.append(step.new[which][row])
        found.append(torch.stack(tokens) if tokens else step.query[:0])
    return tuple(found)


def _bias_of_row(step: Step, row: int) -> Tensor:
    """What is added to the scores of all tokens that a row could see: [heads tokens]"""
    bias, number = step.scoring.bias, int(step.table.input_of[row])
    places: list[int] = []
    if bias is None:
        return torch.zeros(step.query.shape[1], 1, device=step.query.device)
    if step.store.prompt is not None and number >= 0:
        places += range(*step.table.span[number].tolist())
    if step.table.own is not None:
        places += [int(bias.own) + token for token in range(int(step.table.own.length[row]) + 1)]
    return bias.values[:, places].double()


def _one_softmax(query: Tensor, keys: Tensor, values: Tensor, scoring: Scoring, added: Tensor) -> Tensor:
    if scoring.window is not None:
        keys, values = keys[-scoring.window :], values[-scoring.window :]
        added = added[:, -scoring.window :]
    group = query.shape[0] // keys.shape[1]
    keys, values = (each.repeat_interleave(group, dim=1) for each in (keys, values))
    scores = torch.einsum("hd,khd->hk", query, keys) * scoring.scale
    if scoring.softcap is not None:
        scores = scoring.softcap * torch.tanh(scores / scoring.softcap)
    scores = scores + added
    if scoring.sinks is not None:
        scores = torch.cat([scores, scoring.sinks.double().unsqueeze(1)], 1)
    return torch.einsum("hk,khd->hd", scores.softmax(dim=1)[:, : len(keys)], values)


def check(case: Case, device: str = "cpu") -> None:
    """Assert that reading a step gives what is expected and writes its new tokens, and nothing else."""
    step = make(case, device)
    wanted = expected(step)
    before = [pool.clone() for pool in step.store.pool or ()]
    found = read_beams(step.query, step.store, step.table, step.scoring, step.new)
    assert found.dtype == case.dtype
    assert bool(found.isfinite().all()), case
    close = 1e-5 if case.dtype == torch.float32 else 2e-2
    torch.testing.assert_close(
        found.double(), wanted, rtol=close, atol=close, msg=lambda text: f"{case}: {text}"
    )
    for pool, wanted, new in zip(step.store.pool or (), before, step.new or (), strict=True):
        assert step.table.own is not None
        to = step.table.own.target.long()
        wanted[to[to >= 0]] = new[to >= 0]
        torch.testing.assert_close(pool, wanted, rtol=0, atol=0, equal_nan=True)


CASES = [
    Case(),
    Case(places=200, inputs=1, width=2, tokens=40, kv_heads=1),  # several splits, several blocks of tokens
    Case(places=200, inputs=3, window=70, softcap=3.0),  # a window that hides some splits
    Case(window=3),  # shorter than rows' own tokens
    Case(window=8),  # reaches into the prompt
    Case(window=1, places=0),  # the new token alone
    Case(places=0, softcap=5.0),
    Case(tokens=0),
    Case(tokens=1, group=1, width=1, inputs=4),
    Case(size=80, group=3),
    Case(size=96, group=5, kv_heads=1, dtype=torch.bfloat16),
    Case(group=9, width=20, inputs=1, tokens=20, dtype=torch.bfloat16),  # several blocks of queries
    Case(group=17, window=12, places=100, inputs=1, width=2, tokens=20),
    Case(group=8, dtype=torch.float16, softcap=8.0, window=10),
    Case(cross=True),
    Case(cross=True, inputs=3, places=150, size=40, dtype=torch.bfloat16),
    Case(size=256, width=1, kv_heads=1, places=70),
    Case(bias=True),
    Case(bias=True, places=200, inputs=1, tokens=40, group=1, window=50, softcap=4.0),
    Case(bias=True, group=8, dtype=torch.bfloat16, tokens=70),
    Case(bias=True, cross=True, inputs=3, places=150),
    Case(sinks=True),
    Case(sinks=True, places=0, window=3, group=8, dtype=torch.bfloat16),
    Case(sinks=True, places=200, inputs=1, group=3, tokens=40, window=60),
]
"""Cases that each rule of the kernels has a part in."""


def random_case(seed: int) -> Case:
    """Return small sizes by chance."""
    draw = random.Random(seed)
    cross = draw.random() < 0.2
    return Case(
        inputs=draw.randint(1, 3),
        width=draw.randint(1, 5),
        kv_heads=draw.randint(1, 3),
        group=draw.choice([1, 2, 3, 4, 7, 8, 16]),
        size=draw.choice([8, 32, 48, 64, 80]),
        places=draw.choice([1, 17, 64, 65, 140] if cross else [0, 1, 17, 64, 65, 140]),
        tokens=draw.choice([0, 1, 4, 16, 17, 70]),
        dtype=draw.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16]),
        window=None if cross else draw.choice([None, None, 1, 2, 15, 18, 80]),
        softcap=draw.choice([None, None, 2.0, 30.0]),
        cross=cross,
        bias=draw.random() < 0.3,
        sinks=draw.random() < 0.3,
        seed=seed,
    )


def main(name: str) -> None:
    cases = CASES if name == "cases" else [random_case(seed) for seed in range(int(name))]
    for case in cases:
        check(case, DEVICE)


if __name__ == "__main__":
    from beamsplit.huggingface import beam_kernels

    calls = 0
    original = beam_kernels.read_by_kernels

    def counted(*arguments: object) -> Tensor:
        global calls
        calls += 1
        return original(*arguments)  # type: ignore[arg-type]

    beam_kernels.read_by_kernels = counted  # type: ignore[assignment]
    main(sys.argv[1])
    assert calls, "the kernels were not used"
