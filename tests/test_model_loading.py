"""Models as experiments name them: ours, the user's own, those of transformers."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from beamsplit import ArgumentError, BeamSearch, decode
from beamsplit.extras import install_line
from beamsplit.loading import load_model
from beamsplit.models import Captioner, Questioner, Translator, storage

OWN = """
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from beamsplit import FunctionModel


@dataclass
class Table:
    scores: tuple[float, ...] = (0.0, 2.0, 1.0)

    def start(self, inputs):
        return torch.tensor([self.scores] * len(inputs)), torch.zeros(len(inputs))

    def step(self, tokens, state):
        return torch.tensor([self.scores] * len(tokens)), state

    def select(self, state, rows):
        return state[rows]


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.scores = nn.Parameter(torch.tensor([0.0, 2.0, 1.0]), requires_grad=False)

    def start(self, inputs):
        return self.scores.expand(len(inputs), 3), torch.zeros(len(inputs))

    def step(self, tokens, state):
        return self.scores.expand(len(tokens), 3), state

    def select(self, state, rows):
        return state[rows]


class Wrapped(Table):
    module = nn.Linear(2, 2)


class Half:
    def start(self, inputs):
        raise NotImplementedError


def make():
    return Table()


def make_of(scores):
    return Table(scores)


def make_none():
    return None


def fail():
    raise RuntimeError("no weights\\nanywhere")


table = Table()
network = Network()
wrapped = Wrapped()
function = FunctionModel(lambda tokens, state: (torch.tensor([Table.scores] * len(tokens)), state), start=0)
half = Half()
number = 5
"""


@pytest.fixture(autouse=True)
def _imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test imports, and where from, is its own affair."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("mine", "_own_own", "broken"):
            del sys.modules[name]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current one, with a file and a package of the user's own."""
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    (tmp_path / "mine" / "models").mkdir(parents=True)
    (tmp_path / "mine" / "models" / "tables.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(name: str, **options: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        load_model(name, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Ours


@pytest.mark.parametrize(
    ("name", "kind"), [("en-fr", Translator), ("captioner", Captioner), ("questioner", Questioner)]
)
@pytest.mark.parametrize("device", [None, "cpu"])
def test_ours_by_name(name: str, kind: type, device: str | None) -> None:
    assert type(load_model(name, device)) is kind


@pytest.mark.usefixtures("folder")
def test_ours_from_a_file() -> None:
    for name in ("mine.safetensors", "mine.weights"):
        shutil.copy(storage.WEIGHTS / "en-fr.safetensors", name)
        assert type(load_model(name)) is Translator


def test_the_device_is_where_it_goes() -> None:
    model = load_model("captioner", "meta")
    assert isinstance(model, Captioner)
    assert {weight.device.type for weight in model.parameters()} == {"meta"}


@pytest.mark.parametrize("name", ["complexity", str(storage.WEIGHTS / "complexity.safetensors")])
def test_complexity_writes_nothing(name: str) -> None:
    assert refusal(name) == (
        f"{name} scores pictures and writes nothing to decode: give one such as en-fr, captioner, questioner"
    )


@pytest.mark.parametrize(
    ("name", "meant"), [("en-de", "en-fr"), ("Captioner", "captioner"), ("questions", "questioner")]
)
def test_a_slip_does_not_go_to_the_hub(name: str, meant: str) -> None:
    assert refusal(name) == f"there is no model {name!r}: did you mean {meant!r}?"


def test_files_that_are_none_of_ours(folder: Path) -> None:
    assert refusal("none.safetensors").startswith("there is no model 'none.safetensors': there are en-fr, ")
    assert refusal("own.py") == "own.py may hold many things: give own.py:NAME, the model's name in it"
    (folder / "notes.txt").write_text("notes", encoding="utf-8")
    assert refusal("notes.txt").startswith("notes.txt is no file of weights: ")


# The user's own


@pytest.mark.parametrize("place", ["own.py", "./own.py", "mine.models.tables"])
@pytest.mark.parametrize("name", ["table", "network", "wrapped", "make", "Table", "Network"])
@pytest.mark.usefixtures("folder")
def test_ones_own(place: str, name: str) -> None:
    model = load_model(f"{place}:{name}")
    found = decode(model, [None, None], BeamSearch(beams=2), max_length=2)
    assert [[h.tokens for h in each] for each in found] == [[(1, 1), (1, 2)]] * 2


@pytest.mark.usefixtures("folder")
def test_ones_own_functions() -> None:
    found = decode(load_model("own.py:function"), torch.zeros(1, 1), BeamSearch(beams=1), max_length=2)
    assert found[0].best.tokens == (1, 1)


def test_a_file_hides_no_module(folder: Path) -> None:
    (folder / "json.py").write_text(OWN, encoding="utf-8")
    load_model(f"{folder / 'json.py'}:table")
    assert "Table" not in vars(sys.modules["json"])


def test_a_folder_may_have_a_colon_in_its_name(folder: Path) -> None:
    (folder / "own.py:table").mkdir()
    assert refusal("own.py:table") == "own.py:table holds no model of transformers: it has no config.json"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.py:table", "there is no file none.py"),
        (
            "none:table",
            "there is no module 'none' for 'none:table': give FILE.py:NAME or package.module:NAME",
        ),
        ("mine.none:table", "there is no module 'mine.none' for 'mine.none:table': give FILE.py:NAME or"),
        ("mine/models/tables:table", "there is no module 'mine/models/tables' for "),
        (":table", "there is no module '' for ':table'"),
        ("own.py:tabel", "own.py has no 'tabel': did you mean 'table'?"),
        ("own.py:zzz", "own.py has no 'zzz': give the name of a StepModel in it"),
        (
            "own.py:number",
            "own.py:number is a int without start, step, select: "
            "name a StepModel, or a function without arguments that returns one",
        ),
        ("own.py:half", "own.py:half is a Half without step, select: name a StepModel, or a function"),
        ("own.py:make_none", "own.py:make_none is a NoneType without start, step, select: name a StepModel"),
        ("own.py:fail", "own.py:fail cannot be loaded: RuntimeError: no weights anywhere"),
        ("own.py:make_of", "own.py:make_of cannot be loaded: TypeError: make_of() missing 1 required "),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_no_model(name: str, message: str) -> None:
    assert refusal(name).startswith(message)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import none_such", "ModuleNotFoundError: No module named 'none_such'"),
        ("x = (", "SyntaxError: '(' was never closed"),
        ("raise ValueError('not\\nyet')", "ValueError: not yet"),
    ],
)
@pytest.mark.parametrize("place", ["broken.py", "broken"])
def test_code_that_does_not_run(place: str, code: str, reason: str, folder: Path) -> None:
    (folder / "broken.py").write_text(code, encoding="utf-8")
    assert refusal(f"{place}:model").startswith(f"{place}:model cannot be loaded: {reason}")


# Devices


@pytest.mark.parametrize("name", ["network", "wrapped"])
@pytest.mark.usefixtures("folder")
def test_networks_of_ones_own_are_moved(name: str) -> None:
    model: Any = load_model(f"own.py:{name}", "meta")
    assert next(getattr(model, "module", model).parameters()).device.type == "meta"


@pytest.mark.usefixtures("folder")
def test_what_is_no_network_stays_where_it_is() -> None:
    assert refusal("own.py:table", device="cpu") == (
        "own.py:table is a Table, which only its own code can move to a device: leave device out"
    )


@pytest.mark.parametrize("name", ["en-fr", "own.py:network"])
@pytest.mark.usefixtures("folder")
def test_devices_that_are_none(name: str) -> None:
    assert refusal(name, device="gpu").startswith("device 'gpu' cannot be used: ")


# Of transformers


def save_llama(folder: Path) -> None:
    """A small one of random weights, and a tokenizer of letters."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, models

    letters = Tokenizer(models.BPE({letter: place for place, letter in enumerate("?^.abcdef")}, []))
    letters.decoder = decoders.Fuse()
    config = transformers.LlamaConfig(
        vocab_size=9,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        bos_token_id=1,
        eos_token_id=2,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=letters, bos_token="^", eos_token=".", unk_token="?"
    ).save_pretrained(folder)


@pytest.mark.parametrize("name", ["tiny", "./tiny", "./captioner", "captionen"])
def test_one_of_transformers(name: str, folder: Path) -> None:
    """A folder is one even if its name is like one of ours."""
    save_llama(folder / name)
    model: Any = load_model(name, device="cpu")
    assert model.module.device.type == "cpu"
    found = decode(model, ["ab", "fed"], BeamSearch(beams=2), max_length=4)
    assert all(isinstance(text, str) for each in found for text in each.texts)


@pytest.mark.usefixtures("folder")
def test_transformers_may_refuse() -> None:
    pytest.importorskip("transformers")
    assert refusal("no/such/folder").startswith("there is no folder 'no/such/folder': give one with a model")
    assert refusal("captioner.gguf") == "there is no file captioner.gguf"


def test_without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError) as caught:
        load_model("nobody/model")
    assert str(caught.value) == f"the model 'nobody/model' needs transformers: {install_line('hf')}"
