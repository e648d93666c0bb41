"""Eight answers that say different things, at the quality of nucleus sampling: all methods at equal cost.

python -m research.novelty answers --model FOLDER --prompts FILE --part valid --part test --out OUT
python -m research.novelty measure OUT/valid --part valid --model FOLDER --encoder FOLDER --prompts FILE
python -m research.novelty examples OUT/test --model FOLDER --prompts FILE
python -m research.novelty pronounce
python -m research.novelty report

The last three write to docs/results/novelty, as `measure` does. With glibc, set for `answers`
MALLOC_MMAP_THRESHOLD_=4294967296 and MALLOC_TRIM_THRESHOLD_=8589934592: samplers need large tensors at every
step, and getting them from the system takes longer than everything else.

On a GPU, several processes decode side by side, with --device cuda --batch 25 --share and the same --out.
"""
