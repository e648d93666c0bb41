"""A translator: a bidirectional GRU reads, a GRU with Bahdanau's attention writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, overload

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import Hypotheses, Results
from beamsplit.jobs.batches import decode_in_batches
from beamsplit.models import inputs, storage
from beamsplit.models.text import (
    BEGIN,
    END,
    PAD,
    UNKNOWN,
    Pieces,
    is_mostly_another_script,
    mask_special_tokens,
    normalised,
)
from beamsplit.models.unconditioned import Unconditioned
from beamsplit.strategies import Strategy
from beamsplit.strategies.defaults import DEFAULTS, default_strategy

__all__ = ["Memory", "Translator", "TranslatorSizes"]

LONGEST = DEFAULTS["translator"].max_length
"""The most pieces of a text that is read or written; the sentences it learned from have up to about 60."""


@dataclass(frozen=True, kw_only=True)
class TranslatorSizes:
    """How large the network's parts are."""

    embedding: int = 384
    encoder: int = 384  # of each direction
    decoder: int = 512
    attention: int = 256


class Memory(NamedTuple):
    """What the decoder may look back at: a row for each input."""

    keys: Tensor  # [batch source attention]
    values: Tensor  # [batch source 2*encoder]
    padding: Tensor  # [batch source], true where there is nothing


class TranslatorState(NamedTuple):
    """Beams of one input look at the same row of the memory, which is not copied for them."""

    memory: Memory
    owner: Tensor  # [rows] the row of the memory that a beam looks at
    asking: Tensor  # [rows decoder]
    writing: Tensor  # [rows decoder]


class Translator(nn.Module):
    """English to French, a `StepModel` whose inputs are texts.

    The decoder has two GRU layers: the state of the first asks, Bahdanau's attention answers, and the
    second reads the answer and writes. So nothing in a teacher-forced sentence waits for the word before,
    and training is a few large operations.
    """

    end = END
    keeps_earlier_steps = True
    capturable = True
    kind = "translator"

    def __init__(self, pieces: Pieces, sizes: TranslatorSizes, dropout: float = 0.0) -> None:
        super().__init__()
        self.pieces = pieces
        self.sizes = sizes
        embedding, memory, decoder = sizes.embedding, 2 * sizes.encoder, sizes.decoder
        self.embedding = nn.Embedding(len(pieces), embedding)  # of both languages, and of the output
        self.encoder = nn.GRU(
            embedding, sizes.encoder, num_layers=2, dropout=dropout, bidirectional=True, batch_first=True
        )
        self.first_states = nn.Linear(memory, 2 * decoder)
        self.asking = nn.GRU(embedding, decoder, batch_first=True)
        self.key = nn.Linear(memory, sizes.attention)
        self.query = nn.Linear(decoder, sizes.attention, bias=False)
        self.energy = nn.Linear(sizes.attention, 1, bias=False)
        self.writing = nn.GRU(decoder + memory, decoder, batch_first=True)
        self.output = nn.Linear(decoder + memory + embedding, embedding)
        self.bias = nn.Parameter(torch.zeros(len(pieces)))
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.embedding.weight, std=embedding**-0.5)

    # Text in, text out

    @overload
    def translate(self, text: str, strategy: Strategy | None = None, **options: Any) -> Hypotheses: ...
    @overload
    def translate(self, text: Sequence[str], strategy: Strategy | None = None, **options: Any) -> Results: ...
    def translate(
        self, text: str | Sequence[str], strategy: Strategy | None = None, **options: Any
    ) -> Hypotheses | Results:
        """Return translations of a text, or of each of a list; by default up to six, by late branching.

        Of translations that read the same the first is kept; `beamsplit.decode` returns all. `options`
        are those of `decode`, and `batch_size`.
        """
        texts = [text] if isinstance(text, str) else text
        strategy = strategy or default_strategy(self)
        options = {"max_length": LONGEST, **options}
        self._read(texts)  # refuses what has to be refused before anything is decoded
        lists = Results(found.distinct() for found in decode_in_batches(self, texts, strategy, **options))
        return lists[0] if isinstance(text, str) else lists

    def accepts(self, text: str) -> bool:
        """Return whether it is a text to translate: not empty, not too long, in letters it knows."""
        try:
            self._read([text])
        except ArgumentError:
            return False
        return True

    def to_text(self, tokens: Sequence[int]) -> str:
        return self.pieces.text(tokens)

    @property
    def word_vectors(self) -> Tensor:
        """[pieces dimensions] the vectors of the pieces, for the `Embedding` term."""
        return self.embedding.weight.detach()

    @property
    def language_model(self) -> Unconditioned:
        """The same network without a source: French in general, for `AntiLanguageModel`."""
        return Unconditioned(self)

    # The three verbs

    def start(self, texts: Sequence[str]) -> tuple[Tensor, TranslatorState]:
        return self._begin([[*ids, END] for ids in self._read(texts)])

    def start_without(self, count: int) -> tuple[Tensor, TranslatorState]:
        """Do what `start` does, for inputs of which nothing is known."""
        return self._begin([[END]] * count)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: TranslatorState) -> tuple[Tensor, TranslatorState]:
        embedded = self.embedding(tokens).unsqueeze(1)
        hidden, asking, writing = self._decode(embedded, state)
        logits = self.logits(hidden.squeeze(1))
        return mask_special_tokens(logits), TranslatorState(state.memory, state.owner, asking, writing)

    def select(self, state: TranslatorState, rows: Tensor) -> TranslatorState:
        return TranslatorState(state.memory, *(part.index_select(0, rows) for part in state[1:]))

    def join(self, states: Sequence[TranslatorState]) -> TranslatorState:
        """Put together states of one search, which have one memory."""
        if any(state.memory is not states[0].memory for state in states):
            raise ArgumentError("states of a translator can be joined only if they began together")
        return TranslatorState(
            states[0].memory, *(torch.cat(parts) for parts in list(zip(*states, strict=True))[1:])
        )

    # The network

    def encode(self, source: Tensor) -> tuple[Memory, Tensor]:
        """Return the memory of a source [batch time], and the decoder's first states [batch 2*decoder]."""
        padding = source == PAD
        lengths = (~padding).sum(1)
        packed = pack_padded_sequence(
            self.dropout(self.embedding(source)), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        values, _ = pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        values = self.dropout(values)
        mean = values.masked_fill(padding.unsqueeze(2), 0.0).sum(1) / lengths.unsqueeze(1)
        return Memory(self.key(values), values, padding), torch.tanh(self.first_states(mean))

    def teach(self, source: Tensor, target: Tensor) -> Tensor:
        """Return what the network predicts for each of `target` [batch time]: [batch time embedding]."""
        memory, first = self.encode(source)
        owner = torch.arange(source.shape[0], device=source.device)
        before = torch.cat([torch.full_like(target[:, :1], BEGIN), target[:, :-1]], 1)
        embedded = self.dropout(self.embedding(before))
        return self._decode(embedded, TranslatorState(memory, owner, *first.chunk(2, 1)))[0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits [... pieces] of what is to be said [... embedding]."""
        return nn.functional.linear(hidden, self.embedding.weight, self.bias)

    def _decode(self, embedded: Tensor, state: TranslatorState) -> tuple[Tensor, Tensor, Tensor]:
        """Return the output for embedded tokens, both [rows time embedding], and the layers' states."""
        asked, asking = self.asking(embedded, state.asking.unsqueeze(0).contiguous())
        asked = self.dropout(asked)
        context = self._attend(asked, state)
        written, writing = self.writing(
            torch.cat([asked, context], 2), state.writing.unsqueeze(0).contiguous()
        )
        hidden = self.output(torch.cat([self.dropout(written), context, embedded], 2))
        return self.dropout(hidden), asking.squeeze(0), writing.squeeze(0)

    def _attend(self, asked: Tensor, state: TranslatorState) -> Tensor:
        """Return what attention finds: [rows time decoder] -> [rows time 2*encoder]."""
        keys, values, padding = (part.index_select(0, state.owner) for part in state.memory)
        energies = self.energy(torch.tanh(self.query(asked).unsqueeze(2) + keys.unsqueeze(1))).squeeze(3)
        weights = energies.masked_fill(padding.unsqueeze(1), -torch.inf).softmax(2)  # [rows time source]
        return torch.bmm(weights, values)

    @torch.no_grad()
    def _begin(self, sources: Sequence[Sequence[int]]) -> tuple[Tensor, TranslatorState]:
        device = self.bias.device
        padded = pad_sequence([torch.tensor(ids) for ids in sources], batch_first=True, padding_value=PAD)
        memory, first = self.encode(padded.to(device))
        rows = torch.arange(len(sources), device=device)
        return self.step(torch.full_like(rows, BEGIN), TranslatorState(memory, rows, *first.chunk(2, 1)))

    def _read(self, texts: Sequence[str]) -> list[list[int]]:
        inputs.check_texts(texts)
        plain = [normalised(text) for text in texts]
        read = self.pieces.ids(plain)
        for index, ids in enumerate(read):
            if len(ids) > LONGEST:
                raise ArgumentError(
                    f"text {index} has {len(ids)} word pieces and the translator reads at most {LONGEST}: "
                    "split it into sentences"
                )
            # A run of unknown letters is one piece, however long: pieces alone do not tell.
            if ids.count(UNKNOWN) * 3 > len(ids) or is_mostly_another_script(plain[index]):
                raise ArgumentError(
                    f"text {index} is {checks.short_repr(texts[index])}, in letters the translator does not "
                    "know: it reads English"
                )
        return read

    # Files

    def save(self, path: Path) -> None:
        """Write weights, sizes and pieces into one file."""
        tensors = {**self.state_dict(), "pieces": torch.tensor(list(self.pieces.model), dtype=torch.uint8)}
        storage.write(path, tensors, {"kind": "translator", "sizes": asdict(self.sizes)}, bits=6)

    @classmethod
    def from_file(cls, path: Path) -> Translator:
        tensors, description = storage.read(path)
        storage.check_kind(path, description, "translator")
        with storage.fitting(path):
            pieces = Pieces(bytes(tensors.pop("pieces").tolist()))
            return storage.build_with_weights(
                lambda: cls(pieces, TranslatorSizes(**description["sizes"])), tensors
            )
