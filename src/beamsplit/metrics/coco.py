"""The Java programs of COCO's caption evaluation: its tokenizer and METEOR, as pycocoevalcap ships them.

They are started here, since pycocoevalcap itself writes files into its package, prints to the terminal, and
leaves a process behind.
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
    """Raised when a program that a metric needs is missing or fails."""


def tokens(lists: Sequence[Sequence[str]]) -> list[list[str]]:
    """Tokenize texts as the Penn Treebank does, in lower case and without punctuation."""
    texts = list(dict.fromkeys(text for texts in lists for text in texts))
    known = dict(zip(texts, _tokenized(texts), strict=True)) if texts else {}
    return [[known[text] for text in texts] for texts in lists]


def _tokenized(texts: list[str]) -> list[str]:
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
    lines_in = "".join(f"{' '.join(text.split())}\n" for text in texts)
    ran = subprocess.run(command, input=lines_in.encode(), capture_output=True, check=False)
    lines_out = ran.stdout.decode().split("\n")[:-1]
    if ran.returncode or len(lines_out) != len(texts):
        reason = " ".join(ran.stderr.decode(errors="replace").split())
        raise Unavailable(
            f"the Java tokenizer {jar.name} failed, try it by hand: {checks.short_repr(reason)}"
        )
    return [" ".join(word for word in line.split(" ") if word not in ptb.PUNCTUATIONS) for line in lines_out]


@contextmanager
def meteor() -> Iterator[Any]:
    """Start METEOR's program, which takes seconds, and end it afterwards: it would not end by itself."""
    module = need("pycocoevalcap.meteor.meteor")
    check_java()
    program = module.Meteor()
    try:
        yield program
    finally:
        if program.lock.locked():  # after an error: its destructor would wait for ever
            program.lock.release()
        program.meteor_p.kill()
        program.meteor_p.communicate()  # closes the pipes and waits


def meteor_scores(
    program: Any, texts: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[float, list[float]]:
    """Return METEOR of all texts together and of each, from 0 to 1. All texts must be tokenized."""
    try:
        total, each = program.compute_score(
            {i: list(each) for i, each in enumerate(references)},
            {i: [text] for i, text in enumerate(texts)},
        )
    except (OSError, ValueError) as error:
        raise Unavailable(
            "METEOR's Java program stopped before it was done: it needs 2 GB of memory"
        ) from error
    return total, each


def check_java() -> None:
    """Raise if there is no Java, so that it is known before minutes of decoding."""
    if shutil.which("java") is None:
        raise Unavailable(
            "there is no 'java', which METEOR and the Penn Treebank tokenizer run on: install a Java runtime"
        )


def version() -> str:
    """Return the version of pycocoevalcap, for signatures."""
    need("pycocoevalcap.bleu.bleu")
    return f"pycocoevalcap-{importlib.metadata.version('pycocoevalcap')}"


def need(module: str) -> Any:
    """Import a module of an optional package, or raise with the line that installs it."""
    return extras.need(module, "beamsplit.metrics", "evaluate")
