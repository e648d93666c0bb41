"""The examples run, and the README shows what they print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def output_of(example: str) -> str:
    command = [sys.executable, str(ROOT / "examples" / example)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_readme_shows_what_the_first_example_prints() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- output of examples/translate.py -->\n```\n(.*?)```", readme, re.DOTALL)
    assert shown is not None
    assert shown[1] == output_of("translate.py")


def test_a_term_of_ones_own_changes_the_outputs() -> None:
    hamming, echo = output_of("own_term.py").split("Echo\n")
    assert hamming.splitlines()[1:] != echo.splitlines()


def test_a_network_of_ones_own_spells_number_words_in_several_ways() -> None:
    groups = [line.split() for line in output_of("own_model.py").splitlines()]
    assert [len(words) for words in groups] == [2] * 5
    first_letters = [words[0][0] for words in groups]
    assert len(set(first_letters)) >= 4  # the first group picks freely, the others avoid its letter


def test_captions_of_a_trigram_model_differ_more_when_diverse() -> None:
    beam, diverse = output_of("captions.py").split("Diverse beam search")
    starts = [set(re.findall(r"group \d  (\w+ \w+)", listed)) for listed in (beam, diverse)]
    assert len(starts[0]) < len(starts[1])
