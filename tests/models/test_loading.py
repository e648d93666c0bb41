"""Models by name and from files, and the files that ship."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from beamsplit import ArgumentError
from beamsplit.models import Captioner, Complexity, PictureSizes, Questioner, Translator, load, storage
from beamsplit.models.loading import NAMES
from beamsplit.models.text import Vocabulary

KINDS = {"en-fr": Translator, "captioner": Captioner, "questioner": Questioner, "complexity": Complexity}


def test_by_name() -> None:
    assert set(NAMES) == set(KINDS)
    for name, kind in KINDS.items():
        assert type(load(name)) is kind


@pytest.mark.parametrize("name", NAMES)
def test_from_a_file(name: str, tmp_path: Path) -> None:
    path = storage.WEIGHTS / f"{name}.safetensors"
    assert type(load(path)) is KINDS[name]
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    assert type(load(str(copy))) is KINDS[name]


@pytest.mark.parametrize("name", NAMES)
def test_loading_draws_no_random_numbers(name: str) -> None:
    torch.manual_seed(7)
    expected = torch.rand(4)
    torch.manual_seed(7)
    load(name)
    assert torch.equal(torch.rand(4), expected)


def test_loading_needs_no_more_than_torch() -> None:
    """Captions of features too: pictures alone need the extra."""
    code = (
        "import sys\n"
        "for name in ('PIL', 'numpy', 'efficientnet_lite_pytorch', 'rich', 'sacrebleu', 'sklearn'):\n"
        "    sys.modules[name] = None\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "import torch\n"
        "from beamsplit.models import load\n"
        "print(load('en-fr').translate(\"I'm cold.\").best.text)\n"
        "assert load('captioner').caption(torch.zeros(1, 1280))[0].best.text\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("J'ai froid.\n", 0), done.stderr


# The files that ship

LIMITS = {"en-fr": 12, "captioner": 12, "questioner": 8, "complexity": 2, "words": 2}


@pytest.mark.parametrize(("name", "megabytes"), LIMITS.items())
def test_sizes(name: str, megabytes: int) -> None:
    path = storage.WEIGHTS / f"{name}.safetensors"
    assert path.stat().st_size <= megabytes * 1_000_000


@pytest.mark.parametrize("name", LIMITS)
def test_nothing_in_them_can_run(name: str) -> None:
    """A header of JSON, then numbers to the last byte."""
    content = (storage.WEIGHTS / f"{name}.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    description = json.loads(header.pop("__metadata__")["beamsplit"])
    assert description["kind"]
    ends = sorted(tuple(entry["data_offsets"]) for entry in header.values())
    assert [begin for begin, _ in ends] == [0, *(end for _, end in ends[:-1])]
    assert 8 + length + ends[-1][1] == len(content)
    assert {entry["dtype"] for entry in header.values()} <= {"U8", "I8", "F16", "F32"}


def test_nothing_else_ships() -> None:
    assert {path.stem for path in storage.WEIGHTS.glob("*.safetensors")} == set(LIMITS)


# What is refused


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("en_fr", ": did you mean 'en-fr'?"),
        ("captions", ": did you mean 'captioner'?"),
        ("Questioner", ": did you mean 'questioner'?"),
        ("gpt", ": there are en-fr, captioner, questioner, complexity, or give a file"),
        (Path("no/file"), ": there are en-fr, captioner, questioner, complexity, or give a file"),
    ],
)
def test_unknown_names(name: Any, hint: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        load(name)
    assert str(caught.value) == f"there is no model {str(name)!r}{hint}"


def test_a_file_without_a_model(tmp_path: Path) -> None:
    path = tmp_path / "others.safetensors"
    save_file({"weight": torch.zeros(2)}, path)
    words = storage.WEIGHTS / "words.safetensors"
    for each in (path, words):
        with pytest.raises(ArgumentError) as caught:
            load(each)
        assert str(caught.value) == f"{each} holds no model of beamsplit"


@pytest.mark.parametrize("name", NAMES)
def test_truncated_files(name: str, tmp_path: Path) -> None:
    path = tmp_path / "cut.safetensors"
    path.write_bytes((storage.WEIGHTS / f"{name}.safetensors").read_bytes()[:-1000])
    with pytest.raises(ArgumentError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path} is no file of weights: ")
    assert "\n" not in str(caught.value)


def test_no_file_of_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save({"weight": torch.zeros(2)}, path)
    with pytest.raises(ArgumentError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path} is no file of weights: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["", ".", "/"])
def test_a_folder_is_no_model(name: str) -> None:
    with pytest.raises(ArgumentError, match=r"^there is no model '.*': there are en-fr, .*, or give a file$"):
        load(name)


@pytest.mark.parametrize("name", [None, 5, b"en-fr"])
def test_not_by_name(name: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        load(name)
    assert str(caught.value) == f"a model is loaded by its name or its file, not by {name!r}"


@pytest.mark.parametrize(
    ("load_one", "other", "message"),
    [
        (Translator.from_file, "captioner", "holds a captioner, not a translator"),
        (Captioner.from_file, "questioner", "holds a questioner, not a captioner"),
        (Questioner.from_file, "en-fr", "holds a translator, not a questioner"),
        (Complexity.load, "en-fr", "holds a translator, not a complexity"),
    ],
)
def test_a_file_of_another_kind(load_one: Any, other: str, message: str) -> None:
    path = storage.WEIGHTS / f"{other}.safetensors"
    with pytest.raises(ArgumentError) as caught:
        load_one(path)
    assert str(caught.value) == f"{path} {message}"


@pytest.mark.parametrize("name", NAMES)
def test_from_file_of_nothing(name: str, tmp_path: Path) -> None:
    kind: Any = KINDS[name]
    path = tmp_path / "none"
    with pytest.raises(ArgumentError) as caught:
        (kind.load if kind is Complexity else kind.from_file)(path)
    assert str(caught.value) == f"there is no file {path}"


@pytest.mark.parametrize("change", ["sizes", "tensors", "description"])
def test_a_file_that_does_not_fit_together(change: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.safetensors"
    made = Captioner(Vocabulary("abc"), PictureSizes(features=2, embedding=4, hidden=4))
    tensors = made.state_dict()
    sizes = {"features": 2, "embedding": 4, "hidden": 4}
    description: dict[str, Any] = {"kind": "captioner", "sizes": sizes, "words": ["a", "b", "c"]}
    match change:
        case "sizes":
            sizes["hidden"] = 5
        case "tensors":
            del tensors["bias"]
        case "description":
            del description["words"]
    storage.write(path, tensors, description)
    with pytest.raises(ArgumentError) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
