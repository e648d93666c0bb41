"""What was decoded before is not decoded again, and what is in the cache is what would be decoded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from beamsplit import decode
from beamsplit.evaluation import Cache, Method, decode_cached
from beamsplit.evaluation.decoding import fingerprint
from beamsplit.models import Captioner, PictureSizes, load, storage
from beamsplit.models.text import Vocabulary
from beamsplit.strategies.spec import StrategySpec
from beamsplit.testing import MarkovModel


def method(name: str, **table: Any) -> Method:
    return Method(name=name, spec=StrategySpec.of_table(table))


BEAM = method("BS", strategy="bs", beams=3)
DRAWN = method("S", strategy="sampling", samples=4)
PICTURES = torch.randn(7, 4, generator=torch.Generator().manual_seed(1))


def captioner(seed: int = 0) -> Captioner:
    torch.manual_seed(seed)
    sizes = PictureSizes(features=4, embedding=8, hidden=8)
    return Captioner(Vocabulary(["a", "cat", "dog", "runs"]), sizes).eval().requires_grad_(False)


class Counted(Captioner):
    """How many pictures it has looked at."""

    looked = 0

    def start(self, pictures: Any) -> Any:
        self.looked += len(pictures)
        return super().start(pictures)


def counted() -> Counted:
    torch.manual_seed(0)
    sizes = PictureSizes(features=4, embedding=8, hidden=8)
    return Counted(Vocabulary(["a", "cat", "dog", "runs"]), sizes).eval().requires_grad_(False)


def lists(
    model: Captioner, cache: Path, method: Method = BEAM, inputs: Tensor = PICTURES, **options: Any
) -> Any:
    return decode_cached(model, inputs, method, max_length=6, cache=Cache(cache), batch_size=3, **options)


def test_only_what_is_new_is_decoded(tmp_path: Path) -> None:
    model = counted()
    first = lists(model, tmp_path, inputs=PICTURES[:4])
    assert model.looked == 4
    again = lists(model, tmp_path)
    assert model.looked == 7
    assert again[:4] == first
    assert lists(model, tmp_path) == again
    assert model.looked == 7
    assert len(list(tmp_path.iterdir())) == 1


def test_inputs_with_keys_are_known_on_another_machine(tmp_path: Path) -> None:
    model, keys = counted(), [f"picture {index}" for index in range(len(PICTURES))]
    first = lists(model, tmp_path, keys=keys)
    elsewhere = PICTURES * (1 + 1e-6)  # the same pictures, whose features were rounded otherwise
    assert lists(model, tmp_path, inputs=elsewhere, keys=keys) == first
    assert model.looked == 7
    lists(model, tmp_path, inputs=elsewhere)
    assert model.looked == 14


def test_lists_from_before_there_were_keys_are_found(tmp_path: Path) -> None:
    model = counted()
    first = lists(model, tmp_path, inputs=PICTURES[:4])
    assert lists(model, tmp_path, keys=list("abcdefg"))[:4] == first
    assert model.looked == 7
    assert lists(model, tmp_path, DRAWN, keys=list("abcdefg")) == lists(model, tmp_path / "other", DRAWN)


@pytest.mark.parametrize("method", [BEAM, DRAWN])
def test_it_makes_no_difference_in_how_many_goes(method: Method, tmp_path: Path) -> None:
    model = captioner()
    whole = lists(model, tmp_path / "whole", method)
    lists(model, tmp_path / "parts", method, PICTURES[[5, 2]])
    parts = lists(model, tmp_path / "parts", method)
    assert [[h.tokens for h in each] for each in parts] == [[h.tokens for h in each] for each in whole]


def test_a_run_that_was_killed_while_writing_goes_on(tmp_path: Path) -> None:
    model = counted()
    whole = lists(model, tmp_path)
    (file,) = tmp_path.iterdir()
    content = file.read_text(encoding="utf-8")
    file.write_text(content[: content.rindex("\n", 0, -1) - 30], encoding="utf-8")
    assert lists(model, tmp_path) == whole
    assert model.looked == 9  # the last line is gone, and of the one before a half
    assert sorted(file.read_text(encoding="utf-8").splitlines()) == sorted(content.splitlines())


DAMAGES: dict[str, Callable[[str], str]] = {
    "half a line": lambda line: line[: len(line) // 2],
    "zeros": lambda line: "\0" * len(line),
    "nothing": lambda line: "",
    "no object": lambda line: "[]",
    "no input": lambda line: line.replace('"input"', '"imput"'),
    "no list": lambda line: json.dumps({**json.loads(line), "list": "[{}]"}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_line_is_passed_over_and_decoded_again(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = counted()
    whole = lists(model, tmp_path)
    (file,) = tmp_path.iterdir()
    lines = file.read_text(encoding="utf-8").splitlines()
    lines[3] = DAMAGES[damage](lines[3])
    file.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    assert capsys.readouterr().err == ""
    assert lists(model, tmp_path) == whole
    assert model.looked == 8
    assert capsys.readouterr().err == f"{file}: 1 damaged lines are passed over and decoded again\n"
    assert lists(model, tmp_path) == whole  # what was decoded again is kept
    assert model.looked == 8


def test_other_models_and_settings_have_files_of_their_own(tmp_path: Path) -> None:
    lists(captioner(), tmp_path)
    lists(captioner(1), tmp_path)
    lists(captioner(), tmp_path, method("BS", strategy="bs", beams=2))
    lists(captioner(), tmp_path, method("BS", strategy="bs", beams=3, mmi={"strength": 0.1}))
    lists(captioner(), tmp_path, method("BS", strategy="bs", beams=3, unique=True))
    lists(captioner(), tmp_path, method("BS", strategy="bs", beams=3, model_temperature=2.0))
    lists(captioner(), tmp_path, seed=1)
    assert len(list(tmp_path.iterdir())) == 7
    decode_cached(captioner(), PICTURES, BEAM, max_length=3, cache=Cache(tmp_path / "short"))
    decode_cached(captioner(), PICTURES, BEAM, max_length=4, cache=Cache(tmp_path / "short"))
    assert len(list((tmp_path / "short").iterdir())) == 2
    lists(captioner(), tmp_path, method("another name", strategy="bs", beams=3))
    assert len(list(tmp_path.glob("*.jsonl"))) == 7


def test_a_fingerprint_is_of_the_weights() -> None:
    model = captioner()
    before = fingerprint(model)
    assert before == fingerprint(captioner())
    model.bias[5] += 1
    assert fingerprint(model) != before


def test_a_model_may_say_itself_which_it_is() -> None:
    model: Any = captioner()
    model.fingerprint = "the first"
    assert fingerprint(model) == "Captioner the first"


def test_a_model_that_nothing_tells_from_others_has_no_fingerprint() -> None:
    assert fingerprint(MarkovModel(torch.zeros(2, 2))) is None


class Own(nn.Module):
    """A model of a user's, whose code may change while its weights do not."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Linear(2, 2)


class Wrapper:
    """A module, and what else its outputs depend on."""

    def __init__(self, module: nn.Module, origin: str | None = None) -> None:
        self.module = module
        self.origin = origin


def test_weights_alone_do_not_tell_a_model_of_ones_own() -> None:
    assert fingerprint(Own()) is None
    named: Any = Own()
    named.fingerprint = "the first"
    assert fingerprint(named) == "Own the first"
    named.fingerprint = 1  # is no text
    assert fingerprint(named) is None


def test_a_wrapped_module_is_known_by_its_origin_and_its_weights() -> None:
    assert fingerprint(Wrapper(captioner())) is None
    assert fingerprint(Wrapper(captioner(), "here")) == fingerprint(Wrapper(captioner(), "here"))
    kinds = {fingerprint(Wrapper(captioner(seed), origin)) for seed in (0, 1) for origin in ("here", "there")}
    assert len(kinds) == 4
    assert None not in kinds


def test_our_own_models_are_known_by_their_weights() -> None:
    translator = load("en-fr")
    before = fingerprint(translator)
    assert before is not None
    assert before.startswith("Translator ")
    with torch.no_grad():
        next(translator.parameters()).flatten()[0] += 1
    assert fingerprint(translator) != before


def test_weights_of_any_shape_have_a_fingerprint() -> None:
    one, two = (storage.fingerprint([torch.tensor(number)]) for number in (1, 2))
    assert one != two
    assert one != storage.fingerprint([torch.tensor([1])])
    network = nn.BatchNorm1d(2)  # which counts its batches in a single number
    before = fingerprint(Wrapper(network, "here"))
    network(torch.ones(2, 2))
    assert before != fingerprint(Wrapper(network, "here"))


def test_samples_follow_the_one_rule_for_seeds(tmp_path: Path) -> None:
    # Each input has a seed of its own, made of its content and of the seed that was given.
    model = captioner()
    found = lists(model, tmp_path, DRAWN, seed=5)
    seeds = [5 + int(hashlib.sha256(row.numpy().tobytes()).hexdigest()[:8], 16) for row in PICTURES]
    strategy = DRAWN.spec.make(model)
    expected = decode(model, PICTURES, strategy, max_length=6, seed=seeds)
    assert [[h.tokens for h in each] for each in found] == [[h.tokens for h in each] for each in expected]
