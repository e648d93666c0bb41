"""Several answers from a chat model: find settings whose answers differ, fit the question and do not loop.

python -m research.chat answers --model MODEL --prompts FILE --part valid --out DIR
python -m research.chat measure DIR --encoder FOLDER --out figures.json
python -m research.chat report figures.json
"""
