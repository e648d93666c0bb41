"""Check the attention kernels for beams against plain torch on a GPU, and time both: a JSON line a size.

Each is captured as a graph of 16 calls, as a step of a model has about so many layers. Each call has keys and
values of its own, so that what is read comes from memory as it does in a model.
"""

from __future__ import annotations

import functools
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from beamsplit.huggingface.reading import (
    BeamStore,
    BeamTable,
    KeysValues,
    OwnTokens,
    Scoring,
    read_beams,
    read_by_torch,
)

CALLS = 16  # in a graph
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2}  # of outputs that are about 1


@dataclass(frozen=True)
class Size:
    """One step: rows are inputs times width, heads are kv_heads times group."""

    inputs: int
    width: int
    places: int  # for the prompt
    prompt: int  # tokens in them
    tokens: int  # places for own tokens
    length: int  # own tokens
    kv_heads: int = 8
    group: int = 4
    size: int = 64
    window: int | None = None
    softcap: float | None = None
    cross: bool = False


SIZES = [
    Size(1, 20, 128, 128, 64, 40),
    Size(8, 20, 128, 128, 64, 40),
    Size(1, 20, 2048, 2048, 64, 40),
    Size(8, 20, 2048, 2048, 64, 40),
    Size(1, 20, 8192, 8192, 64, 40),
    Size(1, 20, 8192, 100, 64, 40),  # a place too large costs nothing
    Size(1, 20, 128, 128, 512, 500),
    Size(8, 20, 128, 128, 512, 500),
    Size(8, 20, 128, 128, 512, 40),
    Size(1, 256, 1024, 1000, 16, 3, group=2, size=128),
    Size(1, 256, 5120, 5000, 16, 3, group=2, size=128),
    Size(1, 20, 2048, 2048, 64, 40, kv_heads=4, group=2, size=256, window=1024, softcap=50.0),
    Size(8, 20, 128, 128, 64, 40, kv_heads=12, group=1),
    Size(8, 20, 128, 128, 64, 40, kv_heads=32, group=1, size=80),
    Size(8, 20, 64, 50, 64, 40, kv_heads=8, group=1, cross=True),
]


@dataclass(frozen=True)
class Inputs:
    """What one call reads."""

    query: Tensor
    store: BeamStore
    table: BeamTable
    scoring: Scoring
    new: KeysValues | None

    def read(self, reader: Callable[..., Tensor]) -> Tensor:
        return reader(self.query, self.store, self.table, self.scoring, self.new)


def make_table(size: Size, device: str) -> BeamTable:
    rows = size.inputs * size.width
    row = torch.arange(rows, dtype=torch.int32, device=device)
    span = torch.tensor([[size.places - size.prompt, size.places]] * size.inputs, dtype=torch.int32)
    grid, input_of = row.view(size.inputs, size.width), row // size.width
    if size.cross:
        return BeamTable(span.to(device), grid, input_of)
    # The token of step t of row r is in slot t * rows + r; ancestors are rows of the same input.
    step = torch.arange(size.tokens, device=device)
    parent = torch.randint(0, size.width, (rows, size.tokens), device=device)
    past = step * rows + input_of[:, None] * size.width + parent
    length = torch.full_like(row, size.length)
    own = OwnTokens(past.int(), length, size.length * rows + row)
    return BeamTable(span.to(device), grid, input_of, own)


def make_inputs(size: Size, table: BeamTable, dtype: torch.dtype) -> Inputs:
    device = table.grid.device
    new_tensor = functools.partial(torch.randn, dtype=dtype, device=device)
    rows, heads = size.inputs * size.width, size.kv_heads * size.group
    fused = new_tensor(rows, heads + 2 * size.kv_heads, size.size)
    query, new = fused[:, :heads], (fused[:, heads : -size.kv_heads], fused[:, -size.kv_heads :])
    shape = (size.inputs, size.kv_heads, size.places, size.size)
    prompt = (new_tensor(shape), new_tensor(shape))
    scoring = Scoring(size.size**-0.5, size.softcap, size.window)
    if size.cross:
        return Inputs(query, BeamStore(prompt), table, scoring, None)
    slots = (rows * (size.tokens + 1), size.kv_heads, size.size)
    pool = (new_tensor(slots), new_tensor(slots))
    return Inputs(query, BeamStore(prompt, pool), table, scoring, new)


def compare(inputs: Inputs) -> float:
    """Return the largest difference between outputs; pools must be the same to the last bit."""
    by_torch = inputs.read(read_by_torch)
    pools = inputs.store.pool or ()
    wanted = [pool.clone() for pool in pools]
    if inputs.table.own is not None:
        for pool in pools:
            pool[inputs.table.own.target.long()] = 0
    by_kernels = inputs.read(read_beams)
    for pool, each in zip(pools, wanted, strict=True):
        if not torch.equal(pool, each):
            raise AssertionError("the kernels wrote something else into the pool than torch did")
    return float((by_kernels.float() - by_torch.float()).abs().max())


def microseconds(calls: list[Inputs], reader: Callable[..., Tensor]) -> float:
    """Return the median time of a call inside a graph of them all."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            calls[0].read(reader)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for each in calls:
            each.read(reader)
    times: list[float] = []
    for _ in range(25):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / len(calls))
    return statistics.median(times[5:])


def measure(size: Size, dtype: torch.dtype) -> dict[str, object]:
    torch.manual_seed(0)
    table = make_table(size, "cuda")
    calls = [make_inputs(size, table, dtype) for _ in range(CALLS)]
    difference = compare(calls[0])
    return {
        "dtype": str(dtype).removeprefix("torch."),
        **asdict(size),
        "difference": difference,
        "agrees": difference <= TOLERANCE[dtype],
        "kernel_us": round(microseconds(calls, read_beams), 2),
        "torch_us": round(microseconds(calls, read_by_torch), 2),
    }


@torch.no_grad()
def main() -> int:
    if not torch.cuda.is_available():
        print("beam_attention: there is no GPU here; run it on a machine with one", file=sys.stderr)
        return 2
    agree = True
    for dtype in TOLERANCE:
        for size in SIZES:
            try:
                line = measure(size, dtype)
            except (AssertionError, RuntimeError) as error:  # the other sizes are still worth their time
                line = {**asdict(size), "agrees": False, "error": str(error).partition("\n")[0]}
            agree = agree and bool(line["agrees"])
            print(json.dumps(line), flush=True)
            torch.cuda.empty_cache()
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
