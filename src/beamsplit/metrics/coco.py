"""The Java programs of COCO's caption evaluation: its tokenizer and METEOR, as pycocoevalcap ships them.

They are started here, since pycocoevalcap itself writes files into its package, prints to the terminal, and
leaves a process behind.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import shutil
import subprocess
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beamsplit import checks, extras
from beamsplit.errors import BeamsplitError

__all__ = [
    "Unavailable",
    "check_java",
    "keeping_programs",
    "meteor",
    "meteor_scores",
    "need",
    "tokens",
    "version",
]

_KNOWN_TOKENS = 2**19  # texts whose tokens are remembered: those of a large experiment, 200 MB
_AHEAD = 16  # texts that METEOR's program is sent before it has answered; a pipe holds as many answers


class Unavailable(BeamsplitError):  # noqa: N818
    """Raised when a program that a metric needs is missing or fails."""


def tokens(lists: Sequence[Sequence[str]]) -> list[list[str]]:
    """Tokenize texts as the Penn Treebank does, in lower case and without punctuation.

    Within `keeping_programs`, tokens are remembered.
    """
    known = {} if _Kept.now is None else _Kept.now.tokens
    texts = dict.fromkeys(text for texts in lists for text in texts)
    if len(known) + len(texts) > _KNOWN_TOKENS:
        known.clear()
    new = [text for text in texts if text not in known]
    if new:
        known.update(zip(new, _tokenized(new), strict=True))
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
    """Start METEOR's program, which takes seconds, and end it afterwards: it would not end by itself.

    Within `keeping_programs`, yield what runs already.
    """
    if _Kept.now is not None:
        yield _Kept.now.meteor.started()
        return
    program = _start_meteor()
    try:
        yield program
    finally:
        _end_meteor(program)


@contextmanager
def keeping_programs(count: int = 1) -> Iterator[None]:
    """Start METEOR's program once, when it is first asked, and end it with this context; remember tokens.

    With a count, so many programs run, which take 1.3 GB each, and texts are shared out among them. Within
    another such context, nothing changes.
    """
    if _Kept.now is not None:
        yield
        return
    _Kept.now = kept = _Kept(_Programs(count))
    try:
        yield
    finally:
        _Kept.now = None
        kept.meteor.end()


class _Kept:
    """What is kept from one call to the next."""

    now: _Kept | None = None

    def __init__(self, meteor: _Programs) -> None:
        self.meteor = meteor
        self.tokens: dict[str, str] = {}


class _Programs:
    """METEOR's program, running several times, with the method of pycocoevalcap's own."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._running: list[Any] = []

    def started(self) -> _Programs:
        """Start the programs, unless they run."""
        while len(self._running) < self._count:
            self._running.append(_start_meteor())
        return self

    def end(self) -> None:
        while self._running:
            _end_meteor(self._running.pop())

    def compute_score(
        self, references: Mapping[int, list[str]], texts: Mapping[int, list[str]]
    ) -> tuple[float, list[float]]:
        """Return METEOR of all texts together and of each."""
        lines = [_meteor_line(texts[index][0], references[index]) for index in references]
        size = -(-len(lines) // self._count)
        parts = [lines[start : start + size] for start in range(0, len(lines), max(size, 1))]
        with ThreadPoolExecutor(self._count) as threads:
            counts = [each for part in threads.map(_meteor_counts, self._running, parts) for each in part]
        return _meteor_evaluation(self._running[0], counts)


def _start_meteor() -> Any:
    module = need("pycocoevalcap.meteor.meteor")
    check_java()
    return module.Meteor()


def _end_meteor(program: Any) -> None:
    if program.lock.locked():  # after an error: its destructor would wait for ever
        program.lock.release()
    program.meteor_p.kill()
    program.meteor_p.communicate()  # closes the pipes and waits


def _meteor_line(text: str, references: Sequence[str]) -> bytes:
    """Return the line that asks for a text's counts, as pycocoevalcap writes it."""
    plain = text.replace("|||", "").replace("  ", " ")
    return f"{' ||| '.join(('SCORE', *references, plain))}\n".encode()


def _meteor_counts(program: Any, lines: Sequence[bytes]) -> list[str]:
    """Return the counts of texts. A few are always under way, so that the program never waits."""
    process, waiting, found = program.meteor_p, deque(lines), list[str]()
    for _ in range(min(_AHEAD, len(lines))):
        process.stdin.write(waiting.popleft())
    process.stdin.flush()
    while len(found) < len(lines):
        found.append(_answer(process))
        if waiting:
            process.stdin.write(waiting.popleft())
            process.stdin.flush()
    return found


def _meteor_evaluation(program: Any, counts: Sequence[str]) -> tuple[float, list[float]]:
    process = program.meteor_p
    process.stdin.write(f"{' ||| '.join(('EVAL', *counts))}\n".encode())
    process.stdin.flush()
    each = [float(_answer(process)) for _ in counts]
    return float(_answer(process)), each


def _answer(process: Any) -> str:
    line: bytes = process.stdout.readline()
    if not line:
        raise OSError("the program has ended")
    return line.decode().strip()


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
