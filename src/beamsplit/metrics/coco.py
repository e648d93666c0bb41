"""The programs of COCO's caption evaluation, through pycocoevalcap: its tokenizer and METEOR, both in Java.

The package's own way to call them writes files into the package, prints, and leaves a process behind.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beamsplit import checks, extras
from beamsplit.errors import BeamsplitError

__all__ = ["Unavailable", "check_java", "meteor", "meteor_scores", "need", "tokens", "version"]


class Unavailable(BeamsplitError):  # noqa: N818
    """What a metric runs on is not there, or does not run: do without this metric, or install it."""


def tokens(lists: Sequence[Sequence[str]]) -> list[list[str]]:
    """The same texts as the Penn Treebank would divide them, in lower case and without punctuation."""
    texts = list(dict.fromkeys(text for texts in lists for text in texts))
    known = dict(zip(texts, _divided(texts), strict=True)) if texts else {}
    return [[known[text] for text in texts] for texts in lists]


def _divided(texts: list[str]) -> list[str]:
    ptb = need("pycocoevalcap.tokenizer.ptbtokenizer")
    check_java()
    jar = Path(ptb.__file__).parent / ptb.STANFORD_CORENLP_3_4_1_JAR
    command = [
        "java",
        "-cp",
        str(jar),
        "edu.stanford.nlp.process.PTBTokenizer",
        "-preserveLines",
        "-lowerCase",
    ]
    lines = "".join(f"{' '.join(text.split())}\n" for text in texts)
    ran = subprocess.run(command, input=lines.encode(), capture_output=True, check=False)
    divided = ran.stdout.decode().split("\n")[:-1]
    if ran.returncode or len(divided) != len(texts):
        said = " ".join(ran.stderr.decode(errors="replace").split())
        raise Unavailable(f"the Java tokenizer {jar.name} failed, try it by hand: {checks.short_repr(said)}")
    return [" ".join(word for word in line.split(" ") if word not in ptb.PUNCTUATIONS) for line in divided]


@contextmanager
def meteor() -> Iterator[Any]:
    """METEOR's program, which takes seconds to start; ended afterwards, since it would not end itself."""
    module = need("pycocoevalcap.meteor.meteor")
    check_java()
    program = module.Meteor()
    try:
        yield program
    finally:
        if program.lock.locked():  # after an error; its destructor would wait for it for ever
            program.lock.release()
        program.meteor_p.kill()
        program.meteor_p.communicate()  # closes the pipes and waits


def meteor_scores(
    program: Any, said: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[float, list[float]]:
    """METEOR of all texts together and of each, from 0 to 1; texts and references in tokens."""
    try:
        total, each = program.compute_score(
            {place: list(texts) for place, texts in enumerate(references)},
            {place: [text] for place, text in enumerate(said)},
        )
    except (OSError, ValueError) as error:
        raise Unavailable(
            "METEOR's Java program stopped before it was done: has it 2 GB of memory?"
        ) from error
    return total, each


def check_java() -> None:
    """Said at once, not after minutes of decoding."""
    if shutil.which("java") is None:
        raise Unavailable(
            "there is no 'java', which METEOR and the Penn Treebank tokenizer run on: install a Java runtime"
        )


def version() -> str:
    """For signatures."""
    need("pycocoevalcap.bleu.bleu")
    return f"pycocoevalcap-{importlib.metadata.version('pycocoevalcap')}"


def need(module: str) -> Any:
    """A module of a package that not every installation has."""
    return extras.need(module, "beamsplit.metrics", "evaluate")
