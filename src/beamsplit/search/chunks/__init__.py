"""Chunk-wise search: every step of a group is a chunk of text, chosen by score and by meaning.

searching.py     the rounds: propose, choose, go on
proposing.py     one round's proposals, by an ordinary search that ends at the end of a chunk
choosing.py      the groups choose, one after another
paths.py         what a group has said so far, and what it may say next
boundaries.py    where a chunk ends
restricting.py   what a path rules out: its n-grams again, and an early end
showing.py       a round as a step that others can watch
"""
