"""Hugging Face transformers: our searches for its `generate`, and its models for our `decode`.

model.generate(**inputs, custom_generate=late_branching, num_beams=6)
model.generate(**inputs, custom_generate=diverse_beam_search, num_beams=6, num_beam_groups=3, ...)
model.generate(**inputs, custom_generate=diverse_chunks, num_return_sequences=6, to_text=tokenizer)
install()                                   the same without `custom_generate`, by patching `generate`
decode(from_transformers(model, tokenizer), ["text"], strategy, max_length=20)
decode(load("folder, hub name or file.gguf"), ["text"], strategy, max_length=20)
"""

from beamsplit.extras import need

need("transformers", "beamsplit.huggingface", "hf")

from beamsplit.huggingface.generate import (  # noqa: E402 (say what is missing first)
    diverse_beam_search,
    diverse_chunks,
    late_branching,
)
from beamsplit.huggingface.loading import load  # noqa: E402
from beamsplit.huggingface.model import TransformersModel, from_transformers  # noqa: E402
from beamsplit.huggingface.output import (  # noqa: E402
    DiverseBeamDecoderOnlyOutput,
    DiverseBeamEncoderDecoderOutput,
)
from beamsplit.huggingface.patch import install, uninstall  # noqa: E402

__all__ = [
    "DiverseBeamDecoderOnlyOutput",
    "DiverseBeamEncoderDecoderOutput",
    "TransformersModel",
    "diverse_beam_search",
    "diverse_chunks",
    "from_transformers",
    "install",
    "late_branching",
    "load",
    "uninstall",
]
