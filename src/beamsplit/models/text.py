"""Text to token ids and back: word pieces for translation, words for captions and questions."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

import sentencepiece
from torch import Tensor

from beamsplit.errors import ArgumentError

__all__ = [
    "BEGIN",
    "END",
    "PAD",
    "UNKNOWN",
    "Pieces",
    "Vocabulary",
    "is_mostly_another_script",
    "mask_special_tokens",
    "normalised",
    "words_of",
]

PAD, UNKNOWN, BEGIN, END = range(4)
"""The first ids of every vocabulary."""

_SPACES = re.compile(r"\s+")
_ALIKE = str.maketrans({"’": "'", "‘": "'", "\u00ad": None, "\u200b": None, "\ufeff": None})
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*|'[^\W\d_]+")
_WITHOUT_SPACES = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
"""How Unicode's names of letters begin in scripts that put no spaces between words."""
_LETTERS_A_WORD = 2  # in those scripts, about
_OF_EVERY_SCRIPT = "'ʼªºµ"  # Unicode counts most of these as letters


def normalised(text: str) -> str:
    r"""Normalise text as the translator does: composed letters, straight apostrophes, plain spaces.

    Some French texts have narrow or no-break spaces before some signs, others have none. Here all are plain
    spaces, in training, in output and in scoring.

    >>> normalised("Qu’est-ce\u202f? ")
    "Qu'est-ce ?"
    """
    return _SPACES.sub(" ", unicodedata.normalize("NFC", text.translate(_ALIKE))).strip()


def is_mostly_another_script(text: str) -> bool:
    """Tell whether more than half of the words of a normalised text are in letters that are not Latin.

    In scripts without spaces between words, every two letters count as a word. Digits, signs and emoji do
    not count.

    >>> is_mostly_another_script("We met Дмитрий in 東京.")
    False
    >>> is_mostly_another_script("我用 Python 写程序")
    True
    """
    if text.isascii():
        return False
    latin = other = 0.0
    for script, letters in groupby(_script(sign) for sign in text if not _goes_with_any(sign)):
        if script == "latin":
            latin += 1
        elif script == "other":
            other += 1
        elif script == "without spaces":
            other += sum(1 for _ in letters) / _LETTERS_A_WORD
    return other > latin


def _goes_with_any(sign: str) -> bool:
    """Tell whether a sign may stand in a word of any script, as accents and apostrophes do."""
    return sign in _OF_EVERY_SCRIPT or unicodedata.category(sign).startswith("M")


def _script(sign: str) -> str:
    """Return "latin", "other" or "without spaces" for a letter, and nothing for any other sign."""
    if not sign.isalpha():
        return ""
    name = unicodedata.name(sign, "")
    if "LATIN" in name:
        return "latin"
    return "without spaces" if name.startswith(_WITHOUT_SPACES) else "other"


class Pieces:
    """A vocabulary of word pieces, from the bytes of a sentencepiece model."""

    def __init__(self, model: bytes) -> None:
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    def __len__(self) -> int:
        return int(self._processor.vocab_size())

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of normalised texts, without begin and end tokens."""
        return self._processor.encode(list(texts))  # type: ignore[no-any-return]

    def text(self, ids: Sequence[int]) -> str:
        return str(self._processor.decode([i for i in ids if i > END]))


class Vocabulary:
    """A vocabulary of whole words, in lower case.

    >>> words = Vocabulary(["a", "man", "'s", "hat"])
    >>> words.ids("A man's hat.")
    [4, 5, 6, 7]
    >>> words.text([4, 5, 6, 7, END])
    "a man's hat"
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._ids = {word: index + END + 1 for index, word in enumerate(self.words)}
        if len(self._ids) != len(self.words):
            raise ArgumentError("words must be different from each other")

    @classmethod
    def counted(cls, texts: Iterable[str], at_least: int) -> Vocabulary:
        """Make a vocabulary of the words that occur at least so often, most frequent first."""
        counts = Counter(word for text in texts for word in words_of(text))
        often = [word for word, count in counts.items() if count >= at_least]
        return cls(sorted(often, key=lambda word: (-counts[word], word)))

    def __len__(self) -> int:
        return len(self.words) + END + 1

    def ids(self, text: str) -> list[int]:
        return [self._ids.get(word, UNKNOWN) for word in words_of(text)]

    def id(self, word: str) -> int | None:
        """Return the id of a word, or None if it is not in the vocabulary."""
        return self._ids.get(word)

    def text(self, ids: Sequence[int]) -> str:
        return " ".join(self.words[i - END - 1] for i in ids if i > END).replace(" '", "'")


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation. An ending such as 's is a word."""
    return _WORD.findall(normalised(text).lower())


def mask_special_tokens(logits: Tensor) -> Tensor:
    """Set the logits [rows vocab] of padding, the unknown word and the begin token to -inf, in place."""
    logits[..., :END].fill_(
        -float("inf")
    )  # on their device: a number that is assigned may come from elsewhere
    return logits
