"""Weights in files: how they are packed, how much is lost, and what is refused."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from beamsplit import ArgumentError
from beamsplit.models import storage

BITS: list[Literal[6, 8]] = [6, 8]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def header(path: Path) -> dict[str, Any]:
    """What a safetensors file says of itself: eight bytes of length, then JSON."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    found: dict[str, Any] = json.loads(content[8 : 8 + length])
    return found


# Packing

# Numbers, each with 32 added in six bits, and the three bytes that these are.
PACKED = [
    ([-32, -32, -32, -32], [0b000000_00, 0b0000_0000, 0b00_000000]),
    ([31, 31, 31, 31], [0b111111_11, 0b1111_1111, 0b11_111111]),
    ([0, 0, 0, 0], [0b100000_10, 0b0000_1000, 0b00_100000]),
    ([31, -32, 31, -32], [0b111111_00, 0b0000_1111, 0b11_000000]),
    ([-31, -30, -29, -28], [0b000001_00, 0b0010_0000, 0b11_000100]),
]


@pytest.mark.parametrize(("numbers", "in_bytes"), PACKED)
def test_four_numbers_in_three_bytes(numbers: list[int], in_bytes: list[int]) -> None:
    packed = storage._pack_6bit(torch.tensor([numbers], dtype=torch.int8))
    assert packed.dtype == torch.uint8
    assert packed.tolist() == [in_bytes]
    assert storage._unpack_6bit(packed).tolist() == [numbers]


def test_every_four_numbers_come_back() -> None:
    numbers = torch.randint(-32, 32, (50, 400), generator=torch.Generator().manual_seed(0)).to(torch.int8)
    packed = storage._pack_6bit(numbers)
    assert packed.shape == (50, 300)
    assert torch.equal(storage._unpack_6bit(packed), numbers)


def test_rounding_by_hand() -> None:
    # The largest of a row is 31 steps, so 6.2 makes a step of 0.2, and 0.31 one of 0.01.
    rows = [[6.2, -6.2, 0.09, 0.11], [0.31, 0.104, -0.106, 0.0]]
    expected = [[6.2, -6.2, 0.0, 0.2], [0.31, 0.10, -0.11, 0.0]]
    tensor, rounded = (torch.tensor(each).repeat(1, 512) for each in (rows, expected))
    assert torch.allclose(storage.rounded(tensor, 6), rounded, atol=1e-6)
    # In eight bits it is 127 steps.
    assert storage.rounded(torch.tensor([[1.27, 0.014, 0.016, -1.27]]).repeat(1, 1024), 8)[
        0, :4
    ].tolist() == pytest.approx([1.27, 0.01, 0.02, -1.27])


@pytest.mark.parametrize(("bits", "most"), [(6, 31), (8, 127)])
def test_the_error_is_at_most_half_a_step_of_the_row(bits: Literal[6, 8], most: int) -> None:
    tensor = random(64, 100) * torch.logspace(-6, 3, 64).unsqueeze(1)
    tensor[3] = 0
    step = tensor.abs().amax(1, keepdim=True) / most
    error = (storage.rounded(tensor, bits) - tensor).abs()
    assert (error <= step * 0.5001).all()
    assert (error > step * 0.3).any()  # it is no better than promised either
    assert not error[3].any()


@pytest.mark.parametrize("bits", BITS)
def test_what_is_rounded_stays_so(bits: Literal[6, 8]) -> None:
    once = storage.rounded(random(64, 100), bits)
    assert torch.allclose(storage.rounded(once, bits), once, rtol=1e-6, atol=0)


# Files

TENSORS = {
    "large": random(64, 100),
    "small": random(4, 8),
    "bias": random(10_000),
    "odd": random(1000, 9),  # no multiple of four
    "cube": random(20, 20, 20),
    "half": random(64, 100).half(),
    "whole": torch.arange(6400).view(64, 100),
    "bytes": torch.arange(256, dtype=torch.uint8),
}
AS_STORED = {
    "large": {6: "U8", 8: "I8"},
    "small": "F16",
    "bias": "F16",
    "odd": "F16",
    "cube": "F16",
    "half": "F16",
    "whole": "I64",
    "bytes": "U8",
    "large/scale": "F32",
}


@pytest.mark.parametrize("bits", BITS)
def test_write_and_read(bits: Literal[6, 8], tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file.safetensors"
    description = {"kind": "test", "words": ["déjà", "vu"], "sizes": {"hidden": 3}}
    storage.write(path, TENSORS, description, bits=bits)
    tensors, found = storage.read(path)
    assert found == description
    assert storage.kind(path) == "test"
    assert set(tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert torch.equal(tensors[name], storage.rounded(tensor, bits)), name
    for name in ("small", "bias", "odd", "cube", "half"):
        assert torch.equal(tensors[name], TENSORS[name].half().float())
    for name in ("whole", "bytes"):
        assert torch.equal(tensors[name], TENSORS[name])
        assert tensors[name].dtype == TENSORS[name].dtype


@pytest.mark.parametrize("bits", BITS)
def test_how_it_is_stored(bits: Literal[6, 8], tmp_path: Path) -> None:
    storage.write(tmp_path / "file", TENSORS, {}, bits=bits)
    found = header(tmp_path / "file")
    expected = {name: each[bits] if isinstance(each, Mapping) else each for name, each in AS_STORED.items()}
    assert {name: each["dtype"] for name, each in found.items() if name != "__metadata__"} == expected
    assert found["large"]["shape"] == [64, 100 * bits // 8]


@pytest.mark.parametrize("bits", [6, 8])
def test_a_view(bits: Literal[6, 8], tmp_path: Path) -> None:
    weight = random(100, 64)
    storage.write(tmp_path / "file", {"turned": weight.T}, {}, bits=bits)
    tensors, _ = storage.read(tmp_path / "file")
    assert torch.equal(tensors["turned"], storage.rounded(weight.T.contiguous(), bits))


def test_a_parameter_and_an_empty_file(tmp_path: Path) -> None:
    weight = nn.Parameter(random(100, 64))
    storage.write(tmp_path / "file", {"weight": weight}, {})
    assert torch.equal(storage.read(tmp_path / "file")[0]["weight"], storage.rounded(weight.detach()))
    storage.write(tmp_path / "empty", {}, {})
    assert storage.read(tmp_path / "empty") == ({}, {})


def test_the_same_bytes_every_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        storage.write(tmp_path / name, TENSORS, {"kind": "test", "sizes": {"b": 1, "a": 2}}, bits=6)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


# Networks


def test_a_filled_network_is_ready_and_draws_nothing() -> None:
    wanted = {"weight": random(3, 4), "bias": random(3)}
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    network = storage.build_with_weights(lambda: nn.Linear(4, 3), wanted)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(network.weight, wanted["weight"])
    assert not network.training
    assert not any(parameter.requires_grad for parameter in network.parameters())


# What is refused


@pytest.mark.parametrize("read", [storage.read, storage.kind])
def test_no_file(read: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError) as caught:
        read(tmp_path / "none")
    assert str(caught.value) == f"there is no file {tmp_path / 'none'}"


def damaged(folder: Path) -> dict[str, Path]:
    storage.write(folder / "good", TENSORS, {"kind": "test"})
    content = (folder / "good").read_bytes()
    made = {
        "text": b"this is no file of weights, it is text",
        "empty": b"",
        "truncated": content[:-100],
        "cut in the header": content[:100],
        "longer": content + b"more",
        "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94",
    }
    for name, each in made.items():
        (folder / name).write_bytes(each)
    return {name: folder / name for name in made}


@pytest.mark.parametrize("read", [storage.read, storage.kind])
@pytest.mark.parametrize("name", ["text", "empty", "truncated", "cut in the header", "longer", "pickle"])
def test_damaged_files(read: Any, name: str, tmp_path: Path) -> None:
    path = damaged(tmp_path)[name]
    with pytest.raises(ArgumentError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path} is no file of weights: ")
    assert "\n" not in str(caught.value)


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError) as caught:
        storage.read(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path} is no file of weights: ")


def test_a_file_of_others(tmp_path: Path) -> None:
    path = tmp_path / "others.safetensors"
    save_file({"weight": torch.zeros(2)}, path)
    assert storage.kind(path) is None
    assert storage.read(path)[1] == {}
    save_file({"weight": torch.zeros(2)}, path, {"format": "pt"})
    assert storage.kind(path) is None


def test_kinds() -> None:
    path = Path("file")
    storage.check_kind(path, {"kind": "translator"}, "translator")
    for description, holds in (({"kind": "captioner"}, "a captioner"), ({}, "no model of beamsplit")):
        with pytest.raises(ArgumentError) as caught:
            storage.check_kind(path, description, "translator")
        assert str(caught.value) == f"file holds {holds}, not a translator"
