"""Run llama.cpp's server on FILE at PORT, with a cache in float32, which makes its numbers repeatable."""

from __future__ import annotations

import signal
import sys

import xllamacpp as llama  # type: ignore[import-not-found]


def main(file: str, port: str) -> None:
    settings = llama.CommonParams()
    settings.model.path = file
    settings.hostnames = ["127.0.0.1"]
    settings.port = int(port)
    settings.n_ctx = 2048
    settings.n_parallel = 4
    settings.cpuparams.n_threads = 2
    settings.cache_type_k = settings.cache_type_v = llama.ggml_type.GGML_TYPE_F32
    settings.flash_attn_type = llama.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    _server = llama.Server(settings)
    signal.sigwait([signal.SIGINT, signal.SIGTERM])


if __name__ == "__main__":
    main(*sys.argv[1:])
