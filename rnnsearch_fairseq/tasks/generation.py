"""This package's searches for fairseq-generate, fairseq-interactive and --eval-bleu: the base of its tasks."""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Optional

import torch
from fairseq import utils
from fairseq.dataclass import ChoiceEnum
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import BaseFairseqModel
from fairseq.tasks.translation import TranslationConfig
from omegaconf import II
from omegaconf.errors import InterpolationKeyError
from torch import Tensor

from rnnsearch_fairseq.errors import InputError, option
from rnnsearch_fairseq.modules.decoder import Decoder
from rnnsearch_fairseq.modules.symbols import EOS, PAD
from rnnsearch_fairseq.modules.tree_decoder import TreeDecoder
from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.search import (
    BeamSearch,
    Ensemble,
    Hypothesis,
    SearchModel,
    SearchOptions,
    make_search,
    search_model,
)
from rnnsearch_fairseq.search.options import SEARCHES
from rnnsearch_fairseq.tasks.base import PaperTask

HELP = {option.name: {"help": option.metadata["help"]} for option in fields(SearchOptions)}
# Options of fairseq's generator that this package's searches lack, with the values that mean "not given".
FAIRSEQS_OWN: dict[str, tuple[Any, ...]] = {
    "sampling": (False,),
    "diverse_beam_groups": (-1,),
    "diversity_rate": (-1.0,),
    "match_source_len": (False,),
    "constraints": (None, False),
    "prefix_size": (0,),
    "no_repeat_ngram_size": (0,),
    "temperature": (1.0,),
    "lm_path": (None,),
}


@dataclass
class SearchTaskConfig(TranslationConfig):
    """The options of ``translation`` and of this package's searches, and the greatest length of training pairs."""

    search: ChoiceEnum(list(SEARCHES)) = field(default="fairseq", metadata=HELP["search"])  # type: ignore[valid-type]
    length_statistics: Optional[str] = field(  # noqa: UP045 (fairseq reads the type's name)
        default=None, metadata=HELP["length_statistics"]
    )
    max_words: Optional[int] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "leave out training pairs with more words than this on either side, end-of-sentence not counted "
            "(the papers: 30 or 50; default: no limit)"
        },
    )
    seed: int = II("common.seed")
    num_shards: int = II("dataset.num_shards")


class SearchTask(PaperTask):
    """``translation`` by the search that the task's options name, where the models are this package's.

    Options that only fairseq's generator has go to fairseq's generator.
    """

    cfg: SearchTaskConfig

    def build_generator(
        self,
        models: Sequence[BaseFairseqModel],
        args: Any,
        seq_gen_cls: Any = None,
        extra_gen_cls_kwargs: dict[str, Any] | None = None,
        prefix_allowed_tokens_fn: Any = None,
    ) -> Any:
        """The generator for fairseq's generation options ``args``.

        Raises:
            InputError: an option has an impossible value or no effect, or the search cannot search these models.
        """
        search = str(self.cfg.search)
        names = {option.name for option in fields(SearchOptions)} - {"search", "length_statistics"}
        options = {name: getattr(args, name) for name in names if hasattr(args, name)}
        options = SearchOptions(search=search, length_statistics=self.cfg.length_statistics, **options)
        _check_options(args, options.beam)
        with contextlib.suppress(InterpolationKeyError):  # the task's options alone, from a checkpoint
            if self.cfg.num_shards > 1:
                raise InputError("--num-shards has no effect: the task translates all sentences; leave it out")
        theirs = [name for name, off in FAIRSEQS_OWN.items() if getattr(args, name, off[0]) not in off]
        ours = all(isinstance(halves(model)[1], (Decoder, TreeDecoder)) for model in models)
        of_fairseq = getattr(args, "score_reference", False) or seq_gen_cls or prefix_allowed_tokens_fn
        if of_fairseq or (search == "fairseq" and (theirs or not ours)):
            return super().build_generator(models, args, seq_gen_cls, extra_gen_cls_kwargs, prefix_allowed_tokens_fn)
        if theirs or not ours:
            cause = f"{option(theirs[0])} has no effect with" if theirs else "another package's model has no"
            raise InputError(f"{cause} --search {search}; leave one of them out")
        return Generator(models, make_search(options), getattr(args, "print_alignment", None))

    def begin_valid_epoch(self, epoch: int, model: BaseFairseqModel) -> None:
        """As in fairseq; the generator then copies the parameters anew: an optimizer does not change their versions."""
        super().begin_valid_epoch(epoch, model)
        generator = getattr(self, "sequence_generator", None)
        if isinstance(generator, Generator):
            generator.version = None


class Generator:
    """This package's search behind the interface of fairseq's generators.

    Args:
        print_alignment: "hard" or "soft" to set the hypotheses' ``alignment``, which fairseq prints.
    """

    def __init__(self, models: Sequence[BaseFairseqModel], search: BeamSearch, print_alignment: str | None) -> None:
        self.models, self.search, self.print_alignment, self.eos = models, search, print_alignment, EOS
        self.version: list[tuple[int, int]] | None = None
        for model in models:
            model.eval()  # once prepared for inference, it returns None
        self.parameters = [module._parameters for model in models for module in model.modules()]

    def generate(
        self, models: Any, sample: dict[str, Any], prefix_tokens: Tensor | None = None, constraints: Any = None
    ) -> list[list[dict[str, Any]]]:
        """fairseq's hypotheses of each sentence of the batch, best first; ``models`` are those of the constructor."""
        if prefix_tokens is not None or constraints is not None:
            raise InputError("this search takes no prefix and no constraints; use fairseq's generator (--prefix-size)")
        words, trees = sample["net_input"]["src_tokens"], sample["net_input"].get("trees")
        found = self.search.search(self._search_model(), words, None if trees is None else Forest(*trees))
        return [[self._as_fairseqs(each, row) for each in hypotheses] for hypotheses, row in zip(found, words.cpu())]

    def _search_model(self) -> SearchModel:
        """The models for the search, made anew when a parameter was changed or replaced."""
        version = [(p.data_ptr(), p._version) for each in self.parameters for p in each.values() if p is not None]
        if version != self.version:
            members = [search_model(*halves(model)) for model in self.models]
            self.version, self.model = version, members[0] if len(members) == 1 else Ensemble(members)
        return self.model

    def _as_fairseqs(self, hypothesis: Hypothesis, source: Tensor) -> dict[str, Any]:
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


def _check_options(args: Any, beam: int) -> None:
    """Raise `InputError` for options of fairseq's generator that it does not check, or only after a while."""
    names = ("nbest", "temperature", "sampling", "sampling_topk", "sampling_topp")
    nbest, temperature, sampling, topk, topp = (getattr(args, name, getattr(GenerationConfig, name)) for name in names)
    possible = {
        f"--nbest is {nbest}; give 1 to --beam {beam}": 1 <= nbest <= beam,
        f"--temperature is {temperature}; give a number above 0": 0 < temperature < math.inf,
        f"--sampling-topk is {topk}; give at least 1": topk == -1 or topk >= 1,
        f"--sampling-topp is {topp}; give a probability above 0": topp == -1 or 0 < topp <= 1,
        "--sampling-topk and --sampling-topp need --sampling": sampling or topk == topp == -1,
    }
    for message, is_possible in possible.items():
        if not is_possible:
            raise InputError(message)


def halves(model: BaseFairseqModel) -> tuple[Any, Any]:
    """The encoder and decoder of this package in a fairseq model; None for others."""
    return getattr(model.encoder, "network", None), getattr(model.decoder, "network", None)
