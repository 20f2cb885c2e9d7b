"""A language model small enough for a laptop: what the performance tests here guard."""

from tinylm.model import TinyLM, training_step

__all__ = ["TinyLM", "training_step"]
