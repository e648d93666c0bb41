"""Run ahead: a GPU takes step after step by itself, and the search on the processor follows.

A step of a small model takes a GPU less time than a processor needs to tell it what to do. So the whole step
(the model, the candidate lists, the choice, which beam goes on from which) is captured and repeated without
a word from the processor, which reads a record of each step a little later.

What the processor makes of a record is what counts: it keeps the same beams and hypotheses as any search.
Where a choice was not certain, or the GPU has gone on in another way, it says so, and the GPU goes back.

Searches whose choice a GPU cannot make by itself still take the model's captured steps (`stepping`), and look
at each answer. BEAMSPLIT_GRAPHS=0 switches both off. On a processor the same is proven, with steps that are
called again and with steps that are recorded and done again as a graph would do them.
"""
