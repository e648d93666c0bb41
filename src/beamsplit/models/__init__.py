"""Models that come with the package, trained for the tasks of the paper.

load("en-fr").translate("I'm cold.")
load("captioner").caption("photo.jpg")
load("questioner").ask("photo.jpg")
load("complexity").predict(["photo.jpg"])

Each of the first three is a torch module and a `StepModel`: `beamsplit.decode` takes it with any strategy,
with texts or pictures as inputs. The cards in the folder `cards` describe their training data and quality.
"""

from beamsplit.models.complexity import Complexity
from beamsplit.models.loading import load
from beamsplit.models.pictures import Captioner, PictureSizes, Questioner
from beamsplit.models.translator import Translator, TranslatorSizes
from beamsplit.models.unconditioned import Unconditioned

__all__ = [
    "Captioner",
    "Complexity",
    "PictureSizes",
    "Questioner",
    "Translator",
    "TranslatorSizes",
    "Unconditioned",
    "load",
]
