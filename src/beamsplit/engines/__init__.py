"""Serving engines: diverse beams on vLLM, SGLang, llama.cpp and anything that tells top log-probabilities.

decode(connect("http://localhost:8000"), ["text"], strategy, max_length=20)
decode(from_vllm(LLM(model=...)), ["text"], strategy, max_length=20)
await decode_async(connect(...).asynchronous, ["text"], strategy, max_length=20)
"""

from beamsplit.extras import need

need("httpx2", "beamsplit.engines", "engines")

from beamsplit.engines.candidates import Candidates, Engine  # noqa: E402 (say what is missing first)
from beamsplit.engines.connecting import connect  # noqa: E402
from beamsplit.engines.http import Patience  # noqa: E402
from beamsplit.engines.model import AsyncEngineModel, EngineModel, Usage  # noqa: E402
from beamsplit.engines.vllm import from_vllm  # noqa: E402
from beamsplit.engines.vocabularies import Vocabulary  # noqa: E402

__all__ = [
    "AsyncEngineModel",
    "Candidates",
    "Engine",
    "EngineModel",
    "Patience",
    "Usage",
    "Vocabulary",
    "connect",
    "from_vllm",
]
