"""The generation options that this package adds to fairseq, and the generators that they choose."""

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.initialize import hydra_init
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator, SequenceGeneratorWithAlignment
from fairseq.tasks import FairseqTask

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.models.rnnsearch import RNNsearchModel
from rnnsearch_fairseq.search.beam import FastBeamSearch
from rnnsearch_fairseq.search.delegating import MinimumLength
from rnnsearch_fairseq.search.groundhog import HALF_THE_SOURCE, GroundhogSearch
from rnnsearch_fairseq.search.tree2seq import Tree2SeqSearch

SEARCHES = ["fairseq", "groundhog", "tree2seq"]


@dataclass
class SearchOptions(FairseqDataclass):
    """Added to fairseq's GenerationConfig."""

    search: ChoiceEnum(SEARCHES) = field(  # type: ignore[valid-type]
        default="fairseq",
        metadata={
            "help": "'fairseq': fairseq's own, computed faster where it can be; 'groundhog': the first paper's beam "
            "search, in which each finished hypothesis shrinks the beam by one (Table 1: add --unnormalized; its "
            "No-UNK column: also --unkpen inf); 'tree2seq': the second paper's, in which finished hypotheses keep "
            "their places in the beam and scores are not normalised"
        },
    )
    min_len_a: Optional[float] = field(  # noqa: UP045 (fairseq reads the type's name)
        default=None,
        metadata={
            "help": "no translation is shorter than floor(a * x) words, where x is the source length with "
            "end-of-sentence (default: 0.5 with --search groundhog, else 0)"
        },
    )
    length_statistics: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "file written by rnnsearch lengths; adds log p(target length | source length) to the score "
            "(--search tree2seq only)"
        },
    )
    length_smoothing: float = field(
        default=0.0,
        metadata={"help": "pairs to add to every count of --length-statistics (the paper: 0)"},
    )


# Options that our searches do not support, with the value that means "not given".
EXCLUDED = {
    "sampling": False,
    "diverse_beam_groups": -1,
    "diversity_rate": -1.0,
    "match_source_len": False,
    "constraints": None,
    "prefix_size": 0,
    "no_repeat_ngram_size": 0,
    "lm_path": None,
    "min_len": 1,
}
EXCLUDED_BY = {
    "groundhog": {**EXCLUDED, "max_len_a": 0, "max_len_b": 200, "length_statistics": None},
    "tree2seq": {**EXCLUDED, "min_len_a": None, "lenpen": 1},
    "fairseq": {"length_statistics": None},
}
REASONS = {
    "min_len": "it has no minimum length, or one that is a share of the source's length, --min-len-a",
    "max_len_a": "its limit is three words a source word",
    "max_len_b": "its limit is three words a source word",
    "length_statistics": "they belong to --search tree2seq",
}


def choose_generator(build_generator: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `FairseqTask.build_generator` so that it follows :class:`SearchOptions`."""

    def build(
        self: Any,
        models: Any,
        args: Any,
        seq_gen_cls: Any = None,
        extra_gen_cls_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        if getattr(args, "replace_unk", None) is not None and not getattr(args, "print_alignment", None):
            args = copy.deepcopy(args)
            args.print_alignment = "hard"  # fairseq aligns only if it is given (tasks/fairseq_task.py:482)
        search, share = (getattr(args, name, None) for name in ("search", "min_len_a"))
        if search not in (None, *SEARCHES):
            raise InputError(f"there is no search {search!r}; choose one of {', '.join(SEARCHES)}")
        if share is not None and not 0 <= share < float("inf"):
            raise InputError(f"--min-len-a is {share}, but it must be 0 or a positive number")
        if getattr(args, "score_reference", False):
            return build_generator(self, models, args, seq_gen_cls, extra_gen_cls_kwargs, **kwargs)
        refuse_excluded(args, search or "fairseq")
        extra = dict(extra_gen_cls_kwargs or {})
        extra["print_alignment"] = getattr(args, "print_alignment", None) or None
        if search == "groundhog":
            extra["min_len_a"] = HALF_THE_SOURCE if share is None else share
            return build_generator(self, models, args, GroundhogSearch, extra, **kwargs)
        if search == "tree2seq":
            extra["length_statistics"] = getattr(args, "length_statistics", None)
            extra["length_smoothing"] = getattr(args, "length_smoothing", 0.0)
            return build_generator(self, models, args, Tree2SeqSearch, extra, **kwargs)
        generator = build_generator(self, models, args, seq_gen_cls, extra_gen_cls_kwargs, **kwargs)
        if seq_gen_cls is None and not share and fast_search_applies(generator):
            generator = build_generator(self, models, args, FastBeamSearch, extra, **kwargs)
        if share:
            generator.search = MinimumLength(
                generator.tgt_dict, generator.search, share, generator.max_len_a, generator.max_len_b
            )
            generator.should_set_src_lengths = True
        return generator

    return build


def fast_search_applies(generator: Any) -> bool:
    """Whether :class:`FastBeamSearch` finds the same hypotheses as fairseq's ``generator``."""
    return (
        type(generator) in (SequenceGenerator, SequenceGeneratorWithAlignment)
        and type(generator.search) is BeamSearch
        and generator.model.models_size == 1
        and isinstance(generator.model.single_model, RNNsearchModel)
        and 2 * generator.beam_size < generator.vocab_size - generator.tgt_dict.nspecial
        and not generator.match_source_len
        and generator.repeat_ngram_blocker is None
        and generator.lm_model is None
        and generator.token_indices_to_suppress is None
    )


def refuse_excluded(args: Any, search: str) -> None:
    """Refuse options that ``search`` would ignore.

    Raises:
        InputError: if ``args`` has such an option.
    """
    for name, not_given in EXCLUDED_BY[search].items():
        if getattr(args, name, not_given) != not_given:
            reason = REASONS.get(name, "it is another way to search")
            raise InputError(
                f"--{name.replace('_', '-')} has no effect with --search {search}: {reason}; leave one of them out"
            )


def register() -> None:
    """Add :class:`SearchOptions` to fairseq's generation options for every task; a second call changes nothing.

    fairseq has no hook for generation options (it has one for models, tasks, criterions and optimizers), so the fields
    are added to its dataclass (dataclass/configs.py:834), which is then stored again for Hydra. Tasks build the
    generators, so ``build_generator`` is replaced in their common base class.
    """
    if "search" in GenerationConfig.__dataclass_fields__:
        return
    for option in fields(SearchOptions):
        GenerationConfig.__dataclass_fields__[option.name] = option
        GenerationConfig.__annotations__[option.name] = option.type
        setattr(GenerationConfig, option.name, option.default)
    hydra_init()
    original = FairseqTask.build_generator
    FairseqTask.build_generator = functools.wraps(original)(choose_generator(original))


register()
