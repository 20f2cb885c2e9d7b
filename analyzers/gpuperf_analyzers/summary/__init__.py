"""One paragraph in plain words: what bounds the step, for whom, since when, and on what evidence.

Each sentence is made where a threshold of
:class:`~gpuperf_analyzers.thresholds.Thresholds` is passed, and carries the values it was made
from. Where none is passed there is no clear cause, and the paragraph says so.
"""

from gpuperf_analyzers.summary.paragraph import summarize_set, summarize_trace
from gpuperf_analyzers.summary.sentence import Evidence, Sentence, Summary

__all__ = ["Evidence", "Sentence", "Summary", "summarize_set", "summarize_trace"]
