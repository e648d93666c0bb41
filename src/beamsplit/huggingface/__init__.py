"""Hugging Face transformers: diverse beam search for its `generate`, and its models for our `decode`.

model.generate(**inputs, custom_generate=diverse_beam_search, num_beams=6, num_beam_groups=3, ...)
install()                                   the same without `custom_generate`, by patching `generate`
decode(from_transformers(model, tokenizer), ["text"], strategy, max_length=20)
decode(load("folder, hub name or file.gguf"), ["text"], strategy, max_length=20)
"""

try:
    import transformers  # noqa: F401
except ImportError as error:
    raise ImportError("beamsplit.huggingface needs transformers: pip install 'beamsplit[hf]'") from error

from beamsplit.huggingface.generate import diverse_beam_search
from beamsplit.huggingface.loading import load
from beamsplit.huggingface.model import TransformersModel, from_transformers
from beamsplit.huggingface.output import DiverseBeamDecoderOnlyOutput, DiverseBeamEncoderDecoderOutput
from beamsplit.huggingface.patch import install, uninstall

__all__ = [
    "DiverseBeamDecoderOnlyOutput",
    "DiverseBeamEncoderDecoderOutput",
    "TransformersModel",
    "diverse_beam_search",
    "from_transformers",
    "install",
    "load",
    "uninstall",
]
