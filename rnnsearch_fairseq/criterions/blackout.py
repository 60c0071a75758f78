"""The fairseq criterion ``blackout``: BlackOut in training, the full softmax in validation."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from fairseq.utils import get_perplexity
from omegaconf import II
from torch import Tensor

from rnnsearch_fairseq.criterions.summed_nll import SummedNLL
from rnnsearch_fairseq.criterions.target_counts import count_targets, training_data
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.blackout import AliasTable, alias_table, draw_negatives
from rnnsearch_fairseq.modules.fused.blackout import blackout_loss
from rnnsearch_fairseq.modules.fused.loss import softmax_loss


@dataclass
class BlackOutConfig(FairseqDataclass):
    """The defaults are the paper's settings for its small data set; for the large one it uses 2,500 negatives."""

    blackout_samples: int = field(default=500, metadata={"help": "K: negative words drawn for each target word"})
    blackout_alpha: float = field(
        default=0.4,
        metadata={"help": "negatives are drawn in proportion to their count in the training targets to this power"},
    )
    sentence_avg: bool = II("optimization.sentence_avg")


@register_criterion("blackout", dataclass=BlackOutConfig)
class BlackOut(SummedNLL):
    """The cost of Section 3.4, summed over the words; with ``--sentence-avg`` gradients are averaged over sentences."""

    def __init__(self, task: FairseqTask, blackout_samples: int, blackout_alpha: float, sentence_avg: bool) -> None:
        super().__init__(task, sentence_avg)
        if blackout_samples < 1:
            raise InputError(f"--blackout-samples is {blackout_samples}, but it must be at least 1")
        if not 0 <= blackout_alpha < math.inf:
            raise InputError(f"--blackout-alpha is {blackout_alpha}, but it must be 0 or a positive number")
        self.samples, self.alpha = blackout_samples, blackout_alpha
        self.proposal: tuple[Tensor, AliasTable] | None = None

    def distribution(self, device: torch.device) -> tuple[Tensor, AliasTable]:
        """log Q, ``(K_y,)`` in float64, and Q's alias table; counted in the training targets at the first call."""
        if self.proposal is None:
            size = len(self.task.target_dictionary)
            counts = sum(count_targets(pairs, size) for pairs in training_data(self.task))
            self.proposal = proposal_of(counts, self.alpha, device)
        return self.proposal

    def forward(
        self, model: BaseFairseqModel, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """The cost of a batch (a scalar), the divisor of the gradients, and the values to log."""
        features, extra = model(**sample["net_input"], features_only=True)
        is_word = sample["target"].ne(self.padding_idx)
        features, targets = features[is_word], sample["target"][is_word]
        if model.training:
            log_proposal, proposal = self.distribution(features.device)
            negatives = draw_negatives(targets, self.samples, proposal, generator_of_process(features.device))
            loss = blackout_loss(features, targets, negatives, *extra["output_layer"], log_proposal)
        else:
            loss = softmax_loss(features, *extra["output_layer"], targets)
        divisor = len(sample["target"]) if self.sentence_avg else sample["ntokens"]
        counts = {"ntokens": sample["ntokens"], "nsentences": len(sample["target"]), "sample_size": divisor}
        return loss, divisor, {"loss": loss.detach(), **counts}

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict[str, Any]]) -> None:
        """Log the cost in bits per word and its perplexity; in training it is the BlackOut cost, not the softmax's."""
        loss, words = (sum(log.get(name, 0) for log in logging_outputs) for name in ("loss", "ntokens"))
        metrics.log_scalar("loss", loss / words / math.log(2), words, round=3)
        metrics.log_derived("ppl", lambda meters: get_perplexity(meters["loss"].avg))


def generator_of_process(device: torch.device) -> torch.Generator | None:
    """The random number generator of this process, so that each process draws its own negatives.

    fairseq seeds torch's generator in all processes with the same ``--seed`` and update number. The first process uses
    it directly (None). Every other process gets a generator seeded with a number drawn from torch's generator plus its
    rank, so that a resumed training draws the same negatives again.
    """
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    if rank == 0:
        return None
    return torch.Generator(device).manual_seed(int(torch.randint(2**32, ())) + rank)


def proposal_of(counts: np.ndarray, alpha: float, device: torch.device) -> tuple[Tensor, AliasTable]:
    """log Q ``(K_y,)`` and Q's alias table. Q is proportional to count^alpha; words that never occur are not drawn.

    Their log Q is that of the rarest word, so that their cost is finite: where a process has no batch left for an
    update, fairseq multiplies the cost of a batch of the development set by zero.

    Raises:
        InputError: fewer than two words occur.
    """
    if (counts > 0).sum() < 2:
        raise InputError("the training targets have fewer than two different words, and BlackOut needs another to draw")
    powers = np.where(counts > 0, counts.astype(np.float64) ** alpha, 0.0)
    proposal = torch.from_numpy(powers / powers.sum()).to(device)
    rarest = proposal[proposal > 0].min()
    return proposal.clamp(min=rarest).log(), alias_table(proposal)
