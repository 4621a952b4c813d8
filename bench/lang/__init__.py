"""What pages, plans and figures say, in other languages than English: the last step over finished text, which can be read back."""

from bench.lang.messages import LANGUAGES, Language, language
from bench.lang.spoken import said, speaking, spoken

__all__ = ["LANGUAGES", "Language", "language", "said", "speaking", "spoken"]
