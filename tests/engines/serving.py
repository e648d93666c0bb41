"""A small server that speaks as engines do, with a tiny model behind it, and can be made to fail."""

from __future__ import annotations

import functools
import json
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
from torch import Tensor

from beamsplit.testing import PrefixHashModel

VOCABULARY, END = 60, 2
TWINS = (20, 21)  # two tokens that read the same
_MODEL = PrefixHashModel(VOCABULARY, seed=3, scale=6.0)


@functools.cache
def log_probs(prefix: tuple[int, ...]) -> Tensor:
    """What the model says after a prefix: [vocabulary]."""
    return torch.log_softmax(_MODEL._logits(_state(prefix))[0], -1)


@functools.cache
def _state(prefix: tuple[int, ...]) -> Tensor:
    if len(prefix) == 1:
        return _MODEL.start(prefix)[1]
    return _MODEL.step(torch.tensor(prefix[-1:]), _state(prefix[:-1]))[1]


class InProcess:
    """The same model without a server, whose state is the prefixes."""

    keeps_earlier_steps = True

    def __init__(self, *, reads: bool = False) -> None:
        """`reads` says that it can turn tokens into text, as some of the engines can."""
        self.to_text = read if reads else None

    def start(self, inputs: list[list[int]]) -> tuple[Tensor, list[tuple[int, ...]]]:
        return self._answer([tuple(prefix) for prefix in inputs])

    def step(self, tokens: Tensor, state: list[tuple[int, ...]]) -> tuple[Tensor, list[tuple[int, ...]]]:
        grown = zip(state, tokens.tolist(), strict=True)
        return self._answer([(*prefix, token) for prefix, token in grown])

    def select(self, state: list[tuple[int, ...]], rows: Tensor) -> list[tuple[int, ...]]:
        return [state[row] for row in rows.tolist()]

    def join(self, states: Sequence[list[tuple[int, ...]]]) -> list[tuple[int, ...]]:
        return [prefix for state in states for prefix in state]

    def _answer(self, prefixes: list[tuple[int, ...]]) -> tuple[Tensor, list[tuple[int, ...]]]:
        return torch.stack([log_probs(prefix) for prefix in prefixes]), prefixes


def word(token: int) -> str:
    return f" {TWINS[0] if token in TWINS else token}"


def read(tokens: Sequence[int]) -> str:
    return "".join(word(token) for token in tokens if token != END)


def tokens_of(text: str) -> tuple[int, ...]:
    return tuple(
        (int(part) if part.isdecimal() else sum(map(ord, part))) % VOCABULARY for part in text.split()
    )


Fault = Callable[["Handler", Any], Any]
"""What happens to a request instead of its answer, or to its answer: returns what is sent, or None."""


class Server(ThreadingHTTPServer):
    """One that is there for the length of a `with`."""

    daemon_threads = True

    def __init__(
        self, kind: str = "vllm", most: int | None = None, longest: int = 256, *, at_once: bool = False
    ) -> None:
        """`at_once` sends every part of an answer at once: otherwise some wait for 40 ms."""
        self.at_once = at_once
        super().__init__(("127.0.0.1", 0), Handler)
        self.kind, self.most, self.longest = kind, most, longest
        self.faults: deque[Fault] = deque()  # one for each of the next requests
        self.always: Fault | None = None
        self.key: str | None = None
        self.has_template = True
        self.hides_ends = False  # as llama-cpp-python's server does
        self.full_stops: frozenset[int] = frozenset()  # tokens that read with a full stop
        self.full_stop = "."
        self.own_ends: frozenset[int] = frozenset()  # end tokens of the engine that are none of the search
        self.heeds_seeds = True  # as SGLang does where its user wants it to
        self.parts: frozenset[int] = frozenset()  # tokens that are part of a letter
        self.overshoots = 0  # tokens that are drawn beyond what was asked for
        self.requests: list[tuple[str, Any, dict[str, str]]] = []
        self.connections = 0
        self.under_way = self.most_under_way = 0

    def __enter__(self) -> Server:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def asked(self) -> list[Any]:
        """The bodies of all requests for candidates, without those that look for the end token."""
        bodies = [body for path, body, _ in self.requests if path in CANDIDATES]
        return [body for body in bodies if "allowed_token_ids" not in body]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing where a client has gone away."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        super().setup()
        if self.server.at_once:
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        self.server.connections += 1

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.server.requests.append((self.path, None, dict(self.headers)))
        found = GETS.get((self.server.kind, self.path))
        answer = None if found is None else found(self.server)
        if not self._is_allowed():
            self.reply({"error": "Unauthorized"}, 401)
        elif answer is None:
            self.reply({"detail": "Not Found"}, 404)
        else:
            self.reply(answer)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body, dict(self.headers)))
        if not self._is_allowed():
            self.reply({"error": "Unauthorized"}, 401)
            return
        answer = POSTS.get((self.server.kind, self.path))
        if answer is None:
            self.reply({"detail": "Not Found"}, 404)
            return
        self.server.under_way += 1
        self.server.most_under_way = max(self.server.most_under_way, self.server.under_way)
        try:
            self._answer(answer, body)
        finally:
            self.server.under_way -= 1

    def _answer(self, answer: Callable[[Server, Any], Any], body: Any) -> None:
        fault = self.server.always
        if self.path in CANDIDATES and self.server.faults:
            fault = self.server.faults.popleft()
        try:
            found = answer(self.server, body)
        except RefusalError as refusal:
            self.reply({"error": {"message": str(refusal), "code": 400}}, 400)
            return
        if self.path in CANDIDATES and fault is not None:
            found = fault(self, found)
        if found is not None:
            self.reply(found)

    def _is_allowed(self) -> bool:
        return self.server.key is None or self.headers.get("Authorization") == f"Bearer {self.server.key}"

    def reply(self, answer: Any, status: int = 200, **headers: Any) -> None:
        self.send_text(answer if isinstance(answer, str) else json.dumps(answer), status, **headers)

    def send_text(self, text: str, status: int = 200, *, promised: int = 0, **headers: Any) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(promised or len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)


class RefusalError(Exception):
    """The request is not to be answered."""


# Faults


def slow(seconds: float) -> Fault:
    def wait(_handler: Handler, found: Any) -> Any:
        time.sleep(seconds)
        return found

    return wait


def drop(handler: Handler, _found: Any) -> None:
    """Close the connection without a word."""
    handler.close_connection = True
    handler.connection.close()


def status(code: int, **headers: str) -> Fault:
    def fail(handler: Handler, _found: Any) -> None:
        handler.reply({"error": {"message": f"status {code} on purpose"}}, code, **headers)

    return fail


def garbled(_handler: Handler, found: Any) -> str:
    return json.dumps(found)[:-7] + "<html>"


def truncated(handler: Handler, found: Any) -> None:
    text = json.dumps(found)
    handler.send_text(text[: len(text) // 2], promised=len(text))
    handler.close_connection = True
    handler.connection.close()


def dripping(handler: Handler, _found: Any) -> None:
    """Send a byte now and then, so that no single wait is long."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    try:
        for _ in range(100):
            handler.wfile.write(b" ")
            time.sleep(0.1)
    except OSError:
        pass
    handler.close_connection = True


def changed(change: Callable[[Any], Any]) -> Fault:
    """Answer with something else."""

    def replace(_handler: Handler, found: Any) -> Any:
        return change(found)

    return replace


# What engines answer


def best(prefix: Sequence[int], count: int) -> list[tuple[int, float]]:
    if not prefix:
        raise RefusalError("The decoder prompt cannot be empty")
    values, tokens = log_probs(tuple(prefix)).topk(min(count, VOCABULARY))
    return list(zip(tokens.tolist(), values.tolist(), strict=True))


def completions(server: Server, body: Any) -> Any:
    """As vLLM, and as servers of its kind that know texts alone."""
    count, prompts = body.get("logprobs", 0), body["prompt"]
    if body["model"] != "tiny":
        raise RefusalError(f"The model `{body['model']}` does not exist.")
    if server.most is not None and count > server.most:
        raise RefusalError(
            f"Requested sample logprobs of {count}, which is greater than max allowed: {server.most} "
            f"(parameter=logprobs, value={count})"
        )
    if "n" in body:
        return draw(server, body)
    if "allowed_token_ids" in body:
        stops = body["allowed_token_ids"] == [END]
        return {"choices": [{"index": 0, "finish_reason": "stop" if stops else "length"}]}
    may_hide = server.hides_ends and str(END) not in body.get("logit_bias", {})
    if may_hide and best(tokens_of(prompts), 1)[0][0] == END:
        return {"choices": [{"index": 0, "logprobs": {"top_logprobs": []}, "finish_reason": "stop"}]}
    if server.kind == "texts":
        tops = [{word(token): value for token, value in best(tokens_of(prompts), count)}]
    else:
        for prompt in prompts:
            if len(prompt) >= server.longest:
                raise RefusalError(f"This model's maximum context length is {server.longest} tokens.")
        name = "token_id:{}".format if body.get("return_tokens_as_token_ids") else word
        tops = [{name(token): value for token, value in best(prompt, count)} for prompt in prompts]
    choices = [
        {"index": index, "text": "", "logprobs": {"top_logprobs": [top]}, "finish_reason": "length"}
        for index, top in enumerate(tops)
    ]
    return {"object": "text_completion", "choices": choices[::-1]}  # in no order: `index` tells


@dataclass
class Chunk:
    """What an engine has drawn."""

    tokens: list[int]
    told: list[float]  # the model's log-probabilities
    tempered: list[float]  # the same after temperature
    at_mark: bool  # it has stopped where a text was to stop it


def sample(server: Server, prefix: Sequence[int], seed: int, most: int, settings: Any) -> list[Chunk]:
    """Draw chunks by the request's own seed, up to a stop."""
    random = torch.Generator().manual_seed(seed)
    chunks = []
    for _ in range(settings.get("n", 1)):
        said, chunk = list(prefix), Chunk([], [], [], False)
        while len(chunk.tokens) < most and not chunk.at_mark:
            row = log_probs(tuple(said))
            tempered = torch.log_softmax(row / settings["temperature"], -1)
            likely = tempered.exp()
            if "top_k" in settings:
                likely = likely.masked_fill(likely < likely.topk(settings["top_k"]).values[-1], 0.0)
            token = int(torch.multinomial(likely, 1, generator=random))
            said.append(token)
            chunk.tokens.append(token)
            chunk.told.append(float(row[token]))
            chunk.tempered.append(float(tempered[token]))
            if token in settings["stop_token_ids"]:
                break
            chunk.at_mark = token in server.full_stops and server.full_stop in settings.get("stop", ())
        chunks.append(chunk)
    return chunks


def draw(server: Server, body: Any) -> Any:
    """As vLLM draws."""
    if len(body.get("stop", ())) > 4:
        raise RefusalError("List should have at most 4 items after validation")
    choices = []
    for index, chunk in enumerate(sample(server, body["prompt"], body["seed"], body["max_tokens"], body)):
        tokens = [f"token_id:{token}" for token in chunk.tokens]
        choices.append({"index": index, "logprobs": {"tokens": tokens, "token_logprobs": chunk.told}})
    return {"object": "text_completion", "choices": choices[::-1]}


def generate(server: Server, body: Any) -> Any:
    """As SGLang."""
    if isinstance(body["sampling_params"], list):
        pairs = zip(body["input_ids"], body["sampling_params"], strict=True)
        return [draw_as_sglang(server, prefix, settings) for prefix, settings in pairs]
    if "logprob_start_len" in body:
        starts = zip(body["input_ids"], body["logprob_start_len"], strict=True)
        return [{"text": "", "meta_info": {"input_token_logprobs": scored(*each)}} for each in starts]
    count = body["top_logprobs_num"]
    answers = []
    for prefix in body["input_ids"]:
        listed = [[value, token, None] for token, value in best(prefix, count)]
        info = {"prompt_tokens": len(prefix), "output_top_logprobs": [listed]}
        answers.append({"text": "", "meta_info": info})
    return answers


def draw_as_sglang(server: Server, prefix: list[int], settings: Any) -> Any:
    """It stops at its own end token too, and tells what it has drawn by."""
    ends = {**settings, "stop_token_ids": [*settings["stop_token_ids"], *server.own_ends]}
    (chunk,) = sample(server, prefix, settings["sampling_seed"], settings["max_new_tokens"], ends)
    told = [[value, token, None] for value, token in zip(chunk.tempered, chunk.tokens, strict=True)]
    return {"text": "", "meta_info": {"output_token_logprobs": told}}


def scored(tokens: list[int], start: int) -> list[Any]:
    """Tell the log-probabilities of given tokens; nothing of the first."""
    after = range(start + 1, len(tokens))
    values = [float(log_probs(tuple(tokens[:place]))[tokens[place]]) for place in after]
    told = [[value, tokens[at], None] for at, value in zip(after, values, strict=True)]
    return [[None, tokens[start], None], *told]


def completion(server: Server, body: Any) -> Any:
    """As llama.cpp's server."""
    if "seed" in body:
        return draw_as_llama_cpp(server, body)
    answers = []
    for index, prefix in enumerate(body["prompt"]):
        listed: list[dict[str, Any]] = [
            {"id": token, "token": word(token), "logprob": value}
            for token, value in best(prefix, body["n_probs"])
        ]
        answer: dict[str, Any] = {"index": index}
        is_part_of_letter = listed[0]["id"] % 2 == 1 and "logit_bias" not in body
        if not is_part_of_letter:  # or else it has no word on probabilities
            answer["completion_probabilities"] = [{**listed[0], "top_logprobs": listed}]
        answers.append(answer)
    return answers[::-1]


def draw_as_llama_cpp(server: Server, body: Any) -> Any:
    """It says nothing of the last token before a stop, nor of parts of letters."""
    ends = {**body, "stop_token_ids": [END, *server.own_ends]}
    (chunk,) = sample(server, body["prompt"], body["seed"], body["n_predict"] + server.overshoots, ends)
    entries = [
        {"id": token, "logprob": value, "top_logprobs": [{"id": 0, "logprob": -0.5}]}
        for token, value in zip(chunk.tokens, chunk.told, strict=True)
    ]
    told = [entry for entry in entries[: -1 if chunk.at_mark else None] if entry["id"] not in server.parts]
    answer = {"tokens": chunk.tokens, "completion_probabilities": told}
    return answer if told else {"tokens": chunk.tokens}


def tokenize(server: Server, body: Any) -> Any:
    text = body.get("prompt", body.get("content"))
    if "messages" in body and not server.has_template:
        raise RefusalError("there is no chat template")
    if "messages" in body:
        text = " ".join(["7", *(message["content"] for message in body["messages"]), "8"])
    if text == "</s>":
        return {"tokens": [END]}
    if not all(part.isdecimal() for part in text.split()):
        return {"tokens": [5, 6]}
    return {"tokens": list(tokens_of(text))}


def detokenize(server: Server, body: Any) -> Any:
    stops = server.full_stops
    text = "".join(f"{word(token)}{server.full_stop * (token in stops)}" for token in body["tokens"])
    return {"prompt" if server.kind == "vllm" else "content": text}


def models(server: Server) -> Any:
    owner = {"llama.cpp": "llamacpp", "texts": "me"}.get(server.kind, server.kind)
    entry = {"id": "tiny", "owned_by": owner, "root": "/nowhere/tiny", "max_model_len": server.longest}
    return {"object": "list", "data": [entry]}


CANDIDATES = ("/v1/completions", "/generate", "/completion")
GETS: dict[tuple[str, str], Callable[[Server], Any]] = {
    **{(kind, "/v1/models"): models for kind in ("vllm", "sglang", "llama.cpp", "texts")},
    ("vllm", "/version"): lambda server: {"version": "0.32.0"},
    ("sglang", "/get_model_info"): lambda server: {"model_path": "/nowhere/tiny"},
    ("sglang", "/server_info"): lambda server: {"enable_deterministic_inference": server.heeds_seeds},
    ("llama.cpp", "/props"): lambda server: {
        "eos_token": "</s>",
        "default_generation_settings": {"n_ctx": server.longest},
    },
}
POSTS: dict[tuple[str, str], Callable[[Server, Any], Any]] = {
    **{(kind, "/v1/completions"): completions for kind in ("vllm", "texts")},
    ("sglang", "/generate"): generate,
    ("llama.cpp", "/completion"): completion,
    **{(kind, "/tokenize"): tokenize for kind in ("vllm", "llama.cpp")},
    **{(kind, "/detokenize"): detokenize for kind in ("vllm", "llama.cpp")},
    ("llama.cpp", "/apply-template"): lambda server, body: {
        "prompt": " ".join(["7", *(message["content"] for message in body["messages"]), "8"])
    },
}
