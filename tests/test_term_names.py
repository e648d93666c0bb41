"""The registry of diversity terms: a new term is a file and a line, and works everywhere from then on."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

import beamsplit
from beamsplit import ArgumentError, DiverseBeamSearch, Earlier, cli, decode, diversity
from beamsplit.diversity.names import TERMS, TermEntry, make_term, needs_word_vectors, read_term, term_class
from beamsplit.models import load
from beamsplit.testing import MarkovModel


@dataclass(frozen=True, kw_only=True)
class Toy:
    """Every token pays that is no multiple of a number."""

    multiple: int = 2

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        return (tokens % self.multiple > 0).long()


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that a new term takes."""
    monkeypatch.setitem(TERMS, "toy", TermEntry(Toy, "Toy", "being odd", "multiple=3", {"multiple": (2, 4)}))


def toy_search(multiple: int = 2, groups: int = 2) -> DiverseBeamSearch:
    return DiverseBeamSearch(groups=groups, strength=20.0, diversity=Toy(multiple=multiple))


SENTENCE = "I'm cold."
SETTINGS = ("--groups", "2", "--beams-per-group", "1", "--strength", "20", "--max-length", "8")


# Everywhere


def test_the_command_line_knows_a_new_term(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["translate", SENTENCE, *SETTINGS, "--alone", "--json", "--diversity", "toy:multiple=3"]
    assert cli.main(command) == 0
    line = json.loads(capsys.readouterr().out)
    (expected,) = decode(load("en-fr"), [SENTENCE], toy_search(3), max_length=8)
    assert [tuple(each["tokens"]) for each in line["hypotheses"]] == [each.tokens for each in expected]
    assert line["strategy"].endswith("toy:multiple=3")


def write_task(folder: Path) -> Path:
    path = folder / "mine.jsonl"
    path.write_text(json.dumps({"input": SENTENCE, "references": ["J'ai froid."]}), encoding="utf-8")
    return path


def test_evaluate_knows_a_new_term(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_task(tmp_path)
    (tmp_path / "mine.toml").write_text(
        'task = "mine.jsonl"\nmodel = "en-fr"\nmax_length = 8\nlists = ["unique"]\nshow = 1\n'
        '[methods.toy]\nstrategy = "dbs"\ngroups = 2\nstrength = 20.0\n'
        'diversity = { term = "toy", multiple = 3 }\n',
        encoding="utf-8",
    )
    options = ["--json", "--cache", str(tmp_path / "cache"), "--draws", "5"]
    assert cli.main(["evaluate", str(tmp_path / "mine.toml"), *options]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["examples"]
    (expected,) = decode(load("en-fr"), [SENTENCE], toy_search(3), max_length=8)
    assert [each["text"] for each in shown["lists"]["toy"]] == list(expected.texts)


def test_tune_knows_a_new_term(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna")
    pytest.importorskip("sacrebleu")
    command = ["tune", "--task", str(write_task(tmp_path)), "--model", "en-fr", "--terms", "toy", "--json"]
    quick = ["--beams", "2", "--max-length", "8", "--trials", "2", "--cache", str(tmp_path), "--draws", "5"]
    assert cli.main([*command, *quick]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["setting"]["diversity"] for each in found["trials"]] == [{"term": "toy", "multiple": 2}] * 2
    assert "diversity=Toy(multiple=2)" in found["recommended"]["python"]


def test_the_web_page_knows_a_new_term() -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx2")
    from web.doubles import app_with, client_of

    with client_of(app_with()) as client:
        offered = client.get("/api/models").json()["terms"]
        assert {"name": "toy:multiple=3", "title": "Toy", "pays": "being odd"} in offered
        search = {"groups": 2, "beams_per_group": 1, "strength": 20.0, "diversity": "toy:multiple=3"}
        asked = {"text": SENTENCE, "max_length": 8, "searches": [search]}
        (column,) = client.post("/api/decode", json=asked).json()["columns"]
    (expected,) = decode(load("en-fr"), [SENTENCE], toy_search(3), max_length=8)
    assert [tuple(each["tokens"]) for each in column["hypotheses"]] == [each.tokens for each in expected]


def test_generate_of_transformers_knows_a_new_term() -> None:
    pytest.importorskip("transformers")
    from huggingface.calls import assert_same, ours
    from huggingface.models import case

    groups = {"num_beam_groups": 2, "diversity_penalty": 5.0}
    named = ours(case("llama"), **groups, diversity="toy:multiple=3")
    assert_same(named, ours(case("llama"), **groups, diversity=Toy(multiple=3)))


# Laws


def test_names_need_no_torch() -> None:
    program = "import sys; from beamsplit.diversity import names; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_the_registry_has_every_term_of_the_package() -> None:
    registered = {term_class(name).__name__ for name in TERMS} - {"Toy"}
    protocols = {"Comparison", "Diversity", "Earlier", "Pairs", "Similarity", "SoftTerm"}
    assert registered == set(diversity.__all__) - protocols
    assert registered <= set(beamsplit.__all__)


@pytest.mark.parametrize("name", list(TERMS))
def test_settings_that_are_offered_can_be_used(name: str) -> None:
    entry = TERMS[name]
    made = make_term(read_term(f"{name}:{entry.example}"), load("en-fr"))
    assert isinstance(made, term_class(name))
    assert set(entry.tuned) <= {*vars(made)}


def test_text_and_tables_say_the_same() -> None:
    assert read_term("hamming") == read_term({"term": "hamming"}) == {"term": "hamming"}
    assert read_term("cumulative:temperature=2.5") == {"term": "cumulative", "temperature": 2.5}
    assert read_term("embedding:of=ngram") == {"term": "embedding", "of": "ngram"}


def test_a_term_may_be_made_of_another_with_settings() -> None:
    model = load("en-fr")
    by_text = make_term(read_term("embedding:of=cumulative:temperature=2"), model)
    table = {"term": "embedding", "of": {"term": "cumulative", "temperature": 2}}
    assert by_text.of == make_term(read_term(table), model).of  # type: ignore[attr-defined]
    assert needs_word_vectors("embedding")
    assert not needs_word_vectors("toy")


def test_a_term_that_needs_word_vectors_says_so() -> None:
    model = MarkovModel(torch.ones(3, 3).log_softmax(1))
    line = "which needs word vectors, and MarkovModel has no word_vectors: give another term"
    with pytest.raises(ArgumentError, match=f"^diversity is 'embedding', {line}$"):
        make_term(read_term("embedding"), model)


@pytest.mark.parametrize(
    ("term", "line"),
    [
        ("haming", "diversity is 'haming', and there is no such term: did you mean 'hamming'?"),
        (
            "",
            "diversity is '', and there is no such term: "
            "there are hamming, cumulative, ngram, embedding, toy",
        ),
        (3, "diversity is 3, and there is no such term: there are "),
        ({}, "diversity is None, and there is no such term: there are "),
        ("ngram:2", "diversity is 'ngram:2': give one such as cumulative, or cumulative:temperature=2"),
        ("ngram:size=3", "diversity: ngram has no setting 'size': it has n"),
        ("ngram:n=0", "diversity: n must be a whole number of at least 1, not 0"),
        ("hamming:term=ngram", "diversity is 'hamming:term=ngram', with a second term: leave it out"),
        ("hamming:n=2", "diversity: hamming has no setting 'n': leave it out"),
        ("embedding:vectors=2", "diversity: embedding has no setting 'vectors': it has of"),
        (
            "embedding:of=haming",
            "diversity.of is 'haming', and there is no such term: did you mean 'hamming'?",
        ),
        ("embedding:of=embedding", "diversity.of is 'embedding', and there is no such term: there are ham"),
    ],
)
def test_mistakes(term: object, line: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        read_term(term)
    assert str(caught.value).startswith(line)
