"""Find out what kind of engine is at an address, and make a model of it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from beamsplit import checks
from beamsplit.engines.dialects import Completions, Dialect, Generate, LlamaCpp, Texts
from beamsplit.engines.http import Client, Patience, RefusedError
from beamsplit.engines.model import EngineModel
from beamsplit.engines.remote import RemoteEngine
from beamsplit.engines.running import InBackground
from beamsplit.engines.serving_tokenizers import LlamaTokenizer, VllmTokenizer
from beamsplit.engines.tokenizers import has_tokenizer, load_tokenizer
from beamsplit.engines.vocabularies import (
    PlainVocabulary,
    ServerTokenizer,
    ServerVocabulary,
    TextVocabulary,
    TokenizerVocabulary,
    Vocabulary,
)
from beamsplit.errors import ArgumentError, EngineError

__all__ = ["KINDS", "Kind", "connect"]

Kind: TypeAlias = Literal["vllm", "sglang", "llama.cpp", "texts"]
KINDS: tuple[str, ...] = get_args(Kind)
_SGLANG_KEEPS = 6  # tokens of its context that it does not give away


def connect(
    url: str,
    model: str | None = None,
    *,
    kind: Kind | None = None,
    tokenizer: Any = None,
    end: int | str | Sequence[int | str] | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    key: str | None = None,
    patience: Patience | None = None,
    connections: int = 16,
    rows_per_request: int | None = None,
    most: int = 1000,
) -> EngineModel:
    """Return the model that a serving engine has at an address, for `decode` and everything else.

    Args:
        url: such as "http://localhost:8000".
        model: the name that it is served by; not needed if there is one alone.
        kind: "vllm", also for others that know token ids in `/v1/completions`; "sglang"; "llama.cpp",
            its own server; "texts", for completions without token ids. By default, the engine is asked.
        tokenizer: one of transformers, or its name or folder. By default, that of the model's name if it is
            on this machine, else the engine's own, by its requests; False is the engine's own.
        end: the tokens that end an output, by id; for kind="texts" by text, and by id too if it tells nothing
            where it would end. () is none. By default, what the tokenizer or the engine says; where nobody
            knows, there is a warning.
        chat_template_kwargs: arguments of the chat template, such as `{"enable_thinking": False}`.
        key: a bearer token. By default, that of the environment variable BEAMSPLIT_ENGINE_KEY.
        patience: how long to wait, and how often to try.
        connections: how many requests may be under way at once.
        rows_per_request: how many prefixes go into one request at most.
        most: how many candidates of a prefix to ask for at most, where a step needs many to be certified. An
            engine may list fewer: vLLM lists 20, unless it is started with --max-logprobs.
    """
    if kind is not None and kind not in KINDS:
        raise ArgumentError(f"kind is {checks.short_repr(kind)}: give one of {', '.join(KINDS)}")
    checks.at_least("most", most, 1)
    if rows_per_request is not None:
        checks.at_least("rows_per_request", rows_per_request, 1)
    client = Client(url, key=key, patience=patience, connections=connections)
    runner = InBackground(client.aclose)
    probe = runner.run(_probe(client, model, kind))
    wishes = _Wishes(tokenizer, checks.materialise(end), chat_template_kwargs)
    vocabulary = _vocabulary(client, runner, probe, wishes)
    if not vocabulary.end and end is None:
        warnings.warn(
            f"nobody knows the end token of {probe.model} at {client.url}: every output will have max_length "
            "tokens (give connect end= or a tokenizer)",
            stacklevel=2,
        )
    engine = RemoteEngine(
        client,
        _dialect(probe, vocabulary, wishes),
        model=probe.model,
        most=most if probe.vocabulary is None else min(most, probe.vocabulary),
        longest=probe.longest,
        rows_per_request=rows_per_request,
    )
    return EngineModel(engine, vocabulary, runner)


@dataclass(frozen=True)
class _Probe:
    """What an engine says of itself."""

    kind: str
    model: str
    source: str | None = None  # the folder or the name that it has loaded the model from
    longest: int | None = None
    vocabulary: int | None = None
    end: tuple[int, ...] = ()
    letter: int | None = None  # a token that is a whole letter
    heeds_seeds: bool = False  # of SGLang: it draws by the seed of a request


@dataclass(frozen=True)
class _Wishes:
    """What the user says of tokens."""

    tokenizer: Any
    end: Any
    template: Mapping[str, Any] | None

    @property
    def ids(self) -> list[int] | None:
        """The ends by id."""
        if self.end is None:
            return None
        return [checks.whole_number("end", each, ", or several") for each in self._ends]

    @property
    def texts(self) -> list[str]:
        """The ends by text, for an engine that knows texts alone; one with an id alone reads as nothing."""
        texts = [each for each in self._ends if isinstance(each, str)]
        return texts or [""] * bool(self.hidden_ends)

    @property
    def hidden_ends(self) -> list[int]:
        """The ends by id, for the same engine."""
        return [checks.whole_number("end", each) for each in self._ends if not isinstance(each, str)]

    @property
    def _ends(self) -> list[Any]:
        return [] if self.end is None else self.end if isinstance(self.end, list) else [self.end]


# Asking the engine what it is


async def _probe(client: Client, model: str | None, kind: str | None) -> _Probe:
    """Return what the engine says of itself. Raise if nobody answers."""
    found = await _get(client, "/v1/models")
    listed = found.get("data") if isinstance(found, Mapping) else None
    entries = [each for each in listed or () if isinstance(each, Mapping) and isinstance(each.get("id"), str)]
    names = tuple(each["id"] for each in entries)
    if model is None and len(names) > 1:
        raise ArgumentError(f"the engine at {client.url} has several models: name one of {', '.join(names)}")
    if model is not None and names and model not in names:
        hint = checks.nearest(model, names, f"it has {', '.join(names)}")
        raise ArgumentError(f"the engine at {client.url} has no model {model!r}: {hint}")
    entry: Mapping[str, Any] = next((each for each in entries if model in (None, each["id"])), {})
    probe = _Probe(
        kind=kind or await _kind(client, entry),
        model=model or (names[0] if names else "model"),
        source=_text(entry.get("root")),
        longest=_count(entry.get("max_model_len")),
        vocabulary=_count((entry.get("meta") or {}).get("n_vocab")),
    )
    if probe.kind == "sglang":
        return await _of_sglang(client, probe)
    if probe.kind == "llama.cpp":
        return await _of_llama_cpp(client, probe)
    return probe


async def _kind(client: Client, entry: Mapping[str, Any]) -> str:
    """Return the kind of engine, by who owns its models and by what else it answers."""
    owner = str(entry.get("owned_by", "")).lower()
    for known, kind in {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llama.cpp"}.items():
        if owner == known:
            return kind
    if await _get(client, "/get_model_info") is not None:
        return "sglang"
    if entry or await _get(client, "/version") is not None:
        return "vllm"
    raise EngineError(
        f"{client.url} answers, but does not say what kind of engine it is: give connect a kind, one of "
        f"{', '.join(KINDS)}"
    )


async def _of_sglang(client: Client, probe: _Probe) -> _Probe:
    info = await _get(client, "/get_model_info") or {}
    source = _text(info.get("tokenizer_path")) or _text(info.get("model_path")) or probe.source
    longest = None if probe.longest is None else probe.longest - _SGLANG_KEEPS
    settings = await _get(client, "/server_info") or await _get(client, "/get_server_info") or {}
    is_seeded = settings.get("enable_deterministic_inference") is True
    can_read = not settings.get("skip_tokenizer_init")  # or else it knows no marks to stop at
    return replace(probe, source=source, longest=longest, heeds_seeds=is_seeded and can_read)


async def _of_llama_cpp(client: Client, probe: _Probe) -> _Probe:
    """Return the same with its end token, which it names by text, and the length that it was started with."""
    props = await _get(client, "/props") or {}
    longest = _count((props.get("default_generation_settings") or {}).get("n_ctx"))
    tokenizer, end = LlamaTokenizer(client), _text(props.get("eos_token"))
    ends = () if end is None else await tokenizer.spell(end)
    letter = (await tokenizer.spell("a"))[-1:]
    return replace(
        probe,
        source=None,
        longest=longest,
        end=ends if len(ends) == 1 else (),
        letter=letter[0] if letter else None,
    )


async def _get(client: Client, path: str) -> Any:
    """Return what is there; None if the engine has no such thing."""
    try:
        return await client.get(path)
    except RefusedError as refusal:
        if refusal.status in (401, 403):
            raise
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


# Its language, and its tokens


def _dialect(probe: _Probe, vocabulary: Vocabulary, wishes: _Wishes) -> Dialect:
    if isinstance(vocabulary, TextVocabulary):
        return Texts(probe.model, vocabulary, wishes.hidden_ends)
    if probe.kind == "sglang":
        return Generate(draws=probe.heeds_seeds)
    return LlamaCpp(probe.letter) if probe.kind == "llama.cpp" else Completions(probe.model)


def _vocabulary(client: Client, runner: InBackground, probe: _Probe, wishes: _Wishes) -> Vocabulary:
    if probe.kind == "texts":
        return TextVocabulary(wishes.texts)
    ids = wishes.ids
    own = _own_tokenizer(probe, wishes)
    if own is not None:
        tokenizer, ends_of_model = own
        return TokenizerVocabulary(tokenizer, ids, wishes.template, ends_of_model)
    ends = ids if ids is not None else list(probe.end) or None
    server = runner.run(_server_tokenizer(client, probe))
    if server is None:
        return PlainVocabulary(ends)
    if ends is None and isinstance(server, VllmTokenizer) and probe.kind == "vllm":
        ends = runner.run(server.find_ends()) or None
    return ServerVocabulary(
        server, ends, lambda tokens: runner.run(server.detokenize(tokens)), wishes.template
    )


def _own_tokenizer(probe: _Probe, wishes: _Wishes) -> tuple[Any, list[int]] | None:
    """Return a tokenizer in this process, and the ends that the model's settings name, if there is one."""
    if wishes.tokenizer is False:
        return None
    if wishes.tokenizer is not None and not isinstance(wishes.tokenizer, str | os.PathLike):
        return wishes.tokenizer, []
    if wishes.tokenizer is not None:
        return load_tokenizer(os.fspath(wishes.tokenizer))
    for name in dict.fromkeys(filter(None, (probe.source, probe.model))):
        if has_tokenizer(name):
            with suppress(ArgumentError, ImportError):
                return load_tokenizer(name, here_alone=True)
    return None


async def _server_tokenizer(client: Client, probe: _Probe) -> ServerTokenizer | None:
    """Return the engine's tokenizer, if it answers."""
    server: ServerTokenizer
    server = LlamaTokenizer(client) if probe.kind == "llama.cpp" else VllmTokenizer(client, probe.model)
    try:
        await server.tokenize("a")
    except EngineError:
        return None
    with suppress(EngineError):  # not every model has a chat template
        await server.tokenize_chat([{"role": "user", "content": "a"}], {})
        server.can_chat = True
    return server
