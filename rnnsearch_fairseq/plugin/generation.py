"""This package's searches behind the interface of fairseq's generators."""

from collections.abc import Sequence
from typing import Any

import torch
from fairseq import utils
from fairseq.models import BaseFairseqModel
from torch import Tensor

from rnnsearch_fairseq.modules.symbols import EOS, PAD
from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.search import BeamSearch, Hypothesis, SearchModel, search_model


class Generator:
    """A search of this package in fairseq-generate, fairseq-interactive and --eval-bleu.

    ``print_alignment`` is "hard" or "soft" to set the hypotheses' ``alignment``, which fairseq prints.
    """

    def __init__(self, models: Sequence[BaseFairseqModel], search: BeamSearch, print_alignment: str | None) -> None:
        self.models, self.search, self.print_alignment, self.eos = models, search, print_alignment, EOS
        for model in models:
            model.eval()
        self.search_model: SearchModel | None = None  # built from the parameters at the first batch

    def generate(self, models: Any, sample: dict[str, Any], **unused: None) -> list[list[dict[str, Any]]]:
        """Translate a batch: fairseq's hypotheses of each sentence, best first. ``models`` are the constructor's."""
        words, trees = sample["net_input"]["src_tokens"], sample["net_input"].get("trees")
        if self.search_model is None:
            self.search_model = search_model(list(map(halves, self.models)))
        batch = self.search.search(self.search_model, words, None if trees is None else Forest(*trees))
        return [[self._convert(hypothesis, row) for hypothesis in best] for best, row in zip(batch, words.cpu())]

    def _convert(self, hypothesis: Hypothesis, source: Tensor) -> dict[str, Any]:
        tokens, weights = torch.tensor(hypothesis.words), hypothesis.weights
        alignment: Any = []
        if weights is not None:
            weights = weights[:, : len(source)]
            if self.print_alignment is not None:
                extract = getattr(utils, f"extract_{self.print_alignment}_alignment")
                alignment = extract(weights, source, tokens, PAD, EOS)
        return {
            "tokens": tokens,
            "score": hypothesis.logprobs.new_tensor(hypothesis.score),
            "attention": torch.empty(0) if weights is None else weights.T,  # (src_len, tgt_len)
            "alignment": alignment,
            "positional_scores": hypothesis.logprobs,
        }


def halves(model: BaseFairseqModel) -> tuple[Any, Any]:
    """The encoder and decoder of a model of this package; None for each in another model."""
    return getattr(model.encoder, "network", None), getattr(model.decoder, "network", None)
