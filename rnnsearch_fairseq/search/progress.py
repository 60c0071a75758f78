"""Reports of a running search: the best unfinished hypothesis of each sentence after each step."""

from collections.abc import Callable
from typing import Any

from fairseq.search import Search
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from rnnsearch_fairseq.search.delegating import DelegatingSearch

# Receives the target words so far, (words,), keyed by the sentence's "id" in the sample. An exception ends the search.
OnStep = Callable[[dict[int, Tensor]], None]


def watch(generator: SequenceGenerator, on_step: OnStep | None) -> None:
    """Let ``generator`` report to ``on_step``, or stop its reports with None. The search itself does not change.

    Args:
        generator: any of fairseq's beam searches and samplers, or a search of this package.
    """
    if hasattr(generator, "on_step"):
        generator.on_step = on_step
        return
    inner = generator.search.inner if isinstance(generator.search, ReportingSearch) else generator.search
    generator.search = inner if on_step is None else ReportingSearch(generator.tgt_dict, inner, on_step)


class ReportingSearch(DelegatingSearch):
    """Reports the hypotheses before each step of the wrapped search."""

    def __init__(self, tgt_dict: Any, search: Search, on_step: OnStep) -> None:
        super().__init__(tgt_dict, search)
        self.on_step = on_step

    def step(
        self,
        step: int,
        lprobs: Tensor,
        scores: Tensor,
        prev_output_tokens: Tensor,
        original_batch_idxs: Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """As in fairseq; ``scores`` is ``(batch, beam, step)``, and ``original_batch_idxs`` ``(batch,)`` the ids."""
        if step > 0:
            tokens = prev_output_tokens.view(*scores.shape[:2], -1)
            # Without enough unfinished hypotheses, a beam also contains finished ones, which are not reported.
            ended = tokens[:, :, -1].eq(self.eos)
            best = scores[:, :, -1].masked_fill(ended, -float("inf")).argmax(dim=1).tolist()
            places = zip(original_batch_idxs.tolist(), tokens, best)
            self.on_step({number: hypotheses[place, 1:] for number, hypotheses, place in places})
        return self.inner.step(step, lprobs, scores, prev_output_tokens, original_batch_idxs, *args, **kwargs)
