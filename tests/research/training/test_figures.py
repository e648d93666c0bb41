"""Figures worked by hand, of a model that says what it was told to say, and of small random networks."""

from __future__ import annotations

import gc
import json
import math
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from beamsplit import ArgumentError
from beamsplit.extras import install_line
from beamsplit.metrics import coco
from beamsplit.models.pictures import Captioner, PictureSizes
from beamsplit.models.text import Vocabulary
from beamsplit.models.translator import Translator, TranslatorSizes
from data import write
from research.data import Pair, write_features
from research.training import figures
from research.training.figures import captioner_figures, questioner_figures, translator_figures
from research.training.sentences import learn_pieces

numpy = pytest.importorskip("numpy")
pytest.importorskip("sacrebleu")
pytest.importorskip("pycocoevalcap.cider.cider")
with_java = pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")


class Parrot:
    """Says what it was told to say about a text, or about a picture by its first feature; nothing else."""

    end = 0

    def __init__(self, answers: Mapping[Any, str]) -> None:
        self.answers: dict[Any, str] = dict(answers)
        self.words = sorted({word for answer in answers.values() for word in answer.split()} | set("uvwxyz"))

    def start(self, inputs: Any) -> tuple[Tensor, Any]:
        answers = [self._answer(each).split() for each in inputs]
        length = max(map(len, answers)) + 1
        ids = [[*(self.words.index(word) + 1 for word in each), *[0] * length][:length] for each in answers]
        return self._say((torch.tensor(ids), torch.zeros(len(ids), dtype=torch.long)))

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self._say(state)

    def select(self, state: Any, rows: Tensor) -> Any:
        return tuple(part[rows] for part in state)

    def to_text(self, tokens: tuple[int, ...]) -> str:
        return " ".join(self.words[token - 1] for token in tokens if token)

    def _say(self, state: Any) -> tuple[Tensor, Any]:
        ids, place = state
        said = ids.gather(1, place.clamp(max=ids.shape[1] - 1).unsqueeze(1))
        logits = torch.zeros(len(ids), len(self.words) + 1).scatter(1, said, 1000.0)
        return logits, (ids, place + 1)

    def _answer(self, given: Any) -> str:
        key = int(given[0]) if isinstance(given, Tensor) else given
        if key not in self.answers:
            raise ArgumentError(f"nobody told me what to say about {key}")
        return self.answers[key]


# Translation

TRANSLATIONS = {
    "tatoeba.test": {
        "How are you today?": ["Ça va bien aujourd’hui\u202f?", "Comment allez-vous, vous tous ?"],
        "The cat is asleep.": ["Le petit chat dort encore."],
        "Nobody came to see us.": [
            "Personne ne vint du tout.",
            "Nul n'est venu là.",
            "Personne n'est venu nous voir.",
        ],
    },
    "multi30k.test_2016_flickr": {"Two dogs run.": ["Deux chiens courent dans la neige."]},
    "newstest2013": {
        "It is said.": ["un deux trois quatre cinq"],
        "It is too much.": ["six sept huit neuf dix"],
    },
}
SAID = {
    "How are you today?": "Ça va bien aujourd'hui ?",  # as the first reference, normalised
    "The cat is asleep.": "Le petit chat dort encore.",
    "Nobody came to see us.": "Personne n'est venu nous voir.",  # as the third
    "Two dogs run.": "Deux chiens courent dans la neige.",
    "It is said.": "un deux trois quatre cinq",
}


def translations(folder: Path, texts: Mapping[str, Mapping[str, list[str]]] = TRANSLATIONS) -> Path:
    (folder / "translation").mkdir()
    for name, pairs in texts.items():
        rows = [{"en": source, "fr": targets} for source, targets in pairs.items()]
        write.rows(folder / "translation" / f"{name}.jsonl.gz", *rows)
    return folder


def test_verbatim_translations_score_100(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = translator_figures(Parrot(SAID), translations(tmp_path))
    for name, items in (("tatoeba.test", 3), ("multi30k.test_2016_flickr", 1)):
        assert (found[name]["items"], found[name]["refused"]) == (items, 0)
        for how in ("greedy", "beam_5"):
            assert found[name][how]["bleu"]["score"] == pytest.approx(100)
            assert found[name][how]["chrf"]["score"] == pytest.approx(100)
    assert json.loads(json.dumps(found)) == found
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "tatoeba.test, beam_5: 3 decoded" in printed.err


def test_signatures_tell_the_references(tmp_path: Path) -> None:
    found = translator_figures(Parrot(SAID), translations(tmp_path))
    several, one = found["tatoeba.test"]["greedy"], found["multi30k.test_2016_flickr"]["greedy"]
    assert several["bleu"]["signature"].startswith("nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert several["chrf"]["signature"].startswith("nrefs:var|case:mixed|eff:yes|nc:6|nw:0|")
    assert one["bleu"]["signature"].startswith("nrefs:1|")
    oracle = found["diversity"]["beam_20"]["oracle_sentence_bleu"]
    assert oracle["signature"].startswith("nrefs:var|case:mixed|eff:yes|tok:13a|")


def test_all_references_count(tmp_path: Path) -> None:
    first = {source: targets[:1] for source, targets in TRANSLATIONS["tatoeba.test"].items()}
    found = translator_figures(Parrot(SAID), translations(tmp_path, {**TRANSLATIONS, "tatoeba.test": first}))
    assert found["tatoeba.test"]["greedy"]["bleu"]["score"] < 90
    assert found["tatoeba.test"]["greedy"]["bleu"]["signature"].startswith("nrefs:1|")


def test_a_refused_sentence_counts_as_translated_by_nothing(tmp_path: Path) -> None:
    news = translator_figures(Parrot(SAID), translations(tmp_path))["newstest2013"]
    assert (news["items"], news["refused"]) == (2, 1)
    # What is there is right, and it is 5 words where the references have 10: the penalty is exp(1 - 10 / 5).
    assert news["greedy"]["bleu"]["score"] == pytest.approx(100 * math.exp(-1), abs=1e-4)


def test_lists_of_20(tmp_path: Path) -> None:
    lists = translator_figures(Parrot(SAID), translations(tmp_path))["diversity"]
    assert (lists["of"], lists["items"], lists["refused"]) == ("tatoeba.test", 3, 0)
    for how in ("beam_20", "diverse_20"):
        assert lists[how]["oracle_sentence_bleu"]["score"] == pytest.approx(100)
    assert lists["beam_20"]["distinct_texts"] == 20
    assert lists["diverse_20"]["distinct_texts"] == 1  # it is so sure that no penalty moves it


def test_the_sample_is_not_larger_than_it_should_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "SAMPLE", 2)
    found = translator_figures(Parrot(SAID), translations(tmp_path))
    assert (found["tatoeba.test"]["items"], found["diversity"]["items"]) == (3, 2)


def test_a_limit(tmp_path: Path) -> None:
    folder = translations(tmp_path)
    found = translator_figures(Parrot(SAID), folder, limit=1)
    assert {name: each["items"] for name, each in found.items()} == {
        "tatoeba.test": 1,
        "multi30k.test_2016_flickr": 1,
        "newstest2013": 1,
        "diversity": 1,
    }
    with pytest.raises(ArgumentError, match="limit must be a whole number of at least 1, not 0"):
        translator_figures(Parrot(SAID), folder, limit=0)


def test_a_random_translator_and_a_sentence_that_is_too_long(tmp_path: Path) -> None:
    long = {"the cat sees the dog. " * 60: ["le chat voit le chien."]}
    folder = translations(tmp_path, {**TRANSLATIONS, "newstest2013": long})
    pairs = [
        Pair(source, tuple(targets)) for each in TRANSLATIONS.values() for source, targets in each.items()
    ]
    torch.manual_seed(0)
    sizes = TranslatorSizes(embedding=8, encoder=8, decoder=8, attention=8)
    found = translator_figures(Translator(learn_pieces(pairs, 80), sizes).eval(), folder, limit=2)
    assert (found["newstest2013"]["items"], found["newstest2013"]["refused"]) == (1, 1)
    assert found["newstest2013"]["beam_5"]["bleu"]["score"] == 0
    assert found["tatoeba.test"]["refused"] == 0
    assert 0 <= found["tatoeba.test"]["beam_5"]["bleu"]["score"] < 50


# Captions and questions

CAPTIONS = {
    "coco.test": {1: ["A man rides his horse."], 2: ["Two dogs run very fast!"]},
    "pascal50s": {
        1: ["a man rides his horse", "someone is on top there"],
        2: ["Two dogs run very fast", "some animals have much fun"],
    },
}
QUESTIONS = {"vqg.test": {1: ["Who is that man?"], 2: ["Where do they run?"]}}


def described(folder: Path, part: str, texts: Mapping[str, Mapping[int, list[str]]]) -> Path:
    """Pictures whose first feature is their number, none of it lost in the projection."""
    for each in {"captions", part}:
        (folder / each).mkdir()
    numpy.savez(folder / "captions" / "features.projection.npz", mean=numpy.zeros(3), components=numpy.eye(3))
    for name, pictures in texts.items():
        rows = [{"image": image, part: told} for image, told in pictures.items()]
        write.rows(folder / part / f"{name}.jsonl.gz", *rows)
        features = torch.tensor([[image, 0.5, -1.0] for image in pictures])
        stem = "vqg" if part == "questions" else name
        write_features(folder / part / f"{stem}.features.npz", [str(image) for image in pictures], features)
    return folder


class Deaf:
    """In place of METEOR, which takes seconds to start."""

    def compute_score(self, true: Any, said: Any) -> tuple[float, list[float]]:
        return 0.25, [0.25 for _ in said]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def meteor() -> Iterator[Deaf]:
        yield Deaf()

    monkeypatch.setattr(coco, "meteor", meteor)


@with_java
def test_verbatim_captions(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The one test that runs METEOR itself."""
    parrot = Parrot({1: "a man rides his horse", 2: "two dogs run very fast"})
    found = captioner_figures(parrot, described(tmp_path, "captions", CAPTIONS))
    # The captions share no word with each other: the cosine is 1 with its like, 0 with the rest, times 10.
    for name, cider in (("coco.test", 10), ("pascal50s", 5)):
        assert found[name]["items"] == 2
        for how in ("greedy", "beam_5"):
            scores = {metric: each["score"] for metric, each in found[name][how].items()}
            assert scores == pytest.approx({"cider_d": cider, "meteor": 100, "bleu_4": 100}, abs=1e-3)
    signatures = {metric: each["signature"] for metric, each in found["pascal50s"]["greedy"].items()}
    assert all("nrefs:2|" in each and "|tok:ptb|" in each for each in signatures.values())
    assert json.loads(json.dumps(found)) == found
    assert capfd.readouterr().out == ""
    gc.collect()  # a pipe left open would be a warning now


@with_java
@pytest.mark.usefixtures("quick")
def test_questions_and_an_empty_output(tmp_path: Path) -> None:
    folder = described(tmp_path, "questions", QUESTIONS)
    found = questioner_figures(Parrot({1: "who is that man", 2: ""}), folder)
    greedy = found["vqg.test"]["greedy"]
    assert greedy["cider_d"]["score"] == pytest.approx(5)  # the mean of 10 and 0
    assert greedy["bleu_4"]["score"] == pytest.approx(
        100 * math.exp(-1), abs=1e-4
    )  # 4 words where 8 should be
    assert greedy["meteor"]["score"] == 25
    assert questioner_figures(Parrot({1: "who is that man"}), folder, limit=1)["vqg.test"]["items"] == 1


@with_java
@pytest.mark.usefixtures("quick")
def test_a_random_captioner(tmp_path: Path) -> None:
    torch.manual_seed(0)
    words = Vocabulary(["a", "man", "rides", "his", "horse", "two", "dogs"])
    model = Captioner(words, PictureSizes(features=3, embedding=8, hidden=8)).eval()
    found = captioner_figures(model, described(tmp_path, "captions", CAPTIONS))
    assert all(0 <= found[name]["beam_5"]["cider_d"]["score"] < 10 for name in CAPTIONS)


@with_java
def test_tokens() -> None:
    lists = [["A man's hat,  isn't it?", ""], [], ["Two\u2028lines: \u201cone\u201d", "naïve.\n", ""]]
    assert coco.tokens(lists) == [
        ["a man 's hat is n't it", ""],
        [],
        ["two lines one", "naïve", ""],
    ]


# What is missing or broken


@pytest.mark.parametrize("measure", [captioner_figures, questioner_figures])
def test_no_java(measure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(coco.Unavailable) as caught:
        measure(Parrot({}), tmp_path)
    assert str(caught.value) == (
        "there is no 'java', which METEOR and the Penn Treebank tokenizer run on: install a Java runtime"
    )


def test_java_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = described(tmp_path, "captions", CAPTIONS)
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'no class\nof that name' >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(coco.Unavailable) as caught:
        captioner_figures(Parrot({}), folder)
    assert str(caught.value) == (
        "the Java tokenizer stanford-corenlp-3.4.1.jar failed, try it by hand: 'no class of that name'"
    )
    gc.collect()


@with_java
def test_meteor_that_dies() -> None:
    with coco.meteor() as meteor:
        meteor.meteor_p.kill()
        meteor.meteor_p.wait()
        with pytest.raises(coco.Unavailable, match="METEOR's Java program stopped before it was done"):
            figures._text_scores([["a dog"]], [["a dog"]], meteor)
    del meteor
    gc.collect()  # its destructor must not wait for ever


@pytest.mark.parametrize(
    ("measure", "module", "package"),
    [
        (translator_figures, "sacrebleu.metrics", "sacrebleu"),
        (captioner_figures, "pycocoevalcap.meteor.meteor", "pycocoevalcap"),
        (questioner_figures, "rich.progress", "rich"),
    ],
)
def test_missing_packages(
    measure: Any, module: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError) as caught:
        measure(Parrot({}), tmp_path)
    assert str(caught.value) == f"research.training.figures needs {package}: {install_line('dev')}"


def test_a_model_without_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Parrot, "to_text")
    with pytest.raises(ArgumentError, match=r"no text to score: give it a method to_text\(tokens\)"):
        translator_figures(Parrot(SAID), translations(tmp_path))
