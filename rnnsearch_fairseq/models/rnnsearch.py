"""RNNsearch and RNNencdec (Bahdanau, Cho and Bengio, ICLR 2015) as the fairseq model ``rnnsearch``."""

import argparse
import logging
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.models import FairseqEncoderDecoderModel, register_model
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig
from torch import Tensor, nn

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.models.captured_updates import CapturedUpdates
from rnnsearch_fairseq.models.common import (
    BatchFirstDecoder,
    BatchFirstEncoder,
    CommonConfig,
    check_output_width,
    check_shared,
    drop_words,
    fill_in,
    register_architectures,
    share_embeddings,
)
from rnnsearch_fairseq.modules import Decoder, Encoder, initialize
from rnnsearch_fairseq.modules.attention import Memory, repeat_rows
from rnnsearch_fairseq.modules.fused import dispatch
from rnnsearch_fairseq.modules.fused.rnn import FusedDecoder, FusedEncoder
from rnnsearch_fairseq.modules.fused.search_step import SearchStep

logger = logging.getLogger(__name__)


@dataclass
class RNNsearchConfig(CommonConfig):
    """Sizes and options, named as in the paper (Appendix A.2.3); the defaults are the paper's RNNsearch."""

    embedding_size: int = field(default=620, metadata={"help": "m: width of the word embeddings, source and target"})
    hidden_size: int = field(default=1000, metadata={"help": "n: units of the decoder and of each encoder direction"})
    alignment_size: int = field(
        default=1000, metadata={"help": "n': units of the alignment model (no effect with --context last)"}
    )
    maxout_size: int = field(default=500, metadata={"help": "l: units of the maxout layer, after the maximum"})
    maxout_pool: int = field(default=2, metadata={"help": "units per maximum in the maxout layer"})
    context: ChoiceEnum(["attention", "last"]) = field(  # type: ignore[valid-type]
        default="attention",
        metadata={
            "help": "the context c_i: 'attention' weights the annotations of a bidirectional encoder (RNNsearch); "
            "'last' is always the last state of a forward encoder (RNNencdec)"
        },
    )
    readout_state: ChoiceEnum(["previous", "current"]) = field(  # type: ignore[valid-type]
        default="previous",
        metadata={"help": "decoder state that the readout takes: 'previous' s_{i-1} (A.2.2) or 'current' s_i (Eq. 4)"},
    )
    update_word: ChoiceEnum(["previous", "current"]) = field(  # type: ignore[valid-type]
        default="previous",
        metadata={
            "help": "word that the update to s_i consumes: 'previous' y_{i-1} (Appendix A), or 'current' y_i, which "
            "s_{i-1} predicts (the original code; the first readout sees no previous word)"
        },
    )
    output_rank: int = field(
        default=0,
        metadata={
            "help": "width of a linear layer between maxout and vocabulary, which makes W_o a product of two matrices "
            "(the original code: 620); 0 for no such layer (Appendix A)"
        },
    )
    dropout: float = field(default=0.0, metadata={"help": "dropout on the source and target embeddings"})
    annotation_dropout: float = field(
        default=0.0,
        metadata={"help": "variational dropout on the annotations h_j: one mask for all positions of a sentence"},
    )
    readout_dropout: float = field(default=0.0, metadata={"help": "dropout on the maxout layer"})
    scan: ChoiceEnum(["fused", "reference"]) = field(  # type: ignore[valid-type]
        default="fused",
        metadata={
            "help": "implementation of the loops over time: 'fused' has hand-written gradients and is faster, "
            "'reference' follows the paper's equations; the results are equal up to rounding"
        },
    )
    cuda_graphs: bool = field(
        default=False,
        metadata={
            "help": "on a GPU, replay the forward and backward pass of a batch as one CUDA graph for each shape, with "
            "lengths rounded up to multiples of 4; for --criterion summed_nll and one process, not with --fp16; takes "
            "about twice the memory. It has not run on a GPU yet: compare the first losses with those without it"
        },
    )


ARCHITECTURES: dict[str, dict[str, Any]] = {
    "bahdanau_gru": {},
    "rnnencdec": {"context": "last"},
    "groundhog_search": {"update_word": "current", "output_rank": 620},
    "groundhog_encdec": {"update_word": "current", "output_rank": 620, "context": "last"},
    "bahdanau_gru_small": {"embedding_size": 256, "hidden_size": 256, "alignment_size": 256, "maxout_size": 256},
}


def complete(cfg: Any) -> DictConfig:
    """``cfg`` (from the command line, Hydra or a checkpoint) with every missing field set, and checked.

    Raises:
        InputError: if a size is not positive, a rate is outside [0, 1), a choice is unknown or two options clash.
    """
    merged = fill_in(cfg, RNNsearchConfig)
    if merged.output_rank < 0:
        raise InputError(f"--output-rank is {merged.output_rank}, but it must be a size, or 0 for no such layer")
    check_output_width(merged, "output_rank" if merged.output_rank else "maxout_size")
    if merged.update_word == "current" and merged.readout_state == "current":
        raise InputError(
            "--update-word current and --readout-state current exclude each other: s_i would already have consumed the "
            "word y_i that it predicts; leave one of them at 'previous'"
        )
    return merged


@register_model("rnnsearch", dataclass=RNNsearchConfig)
class RNNsearchModel(FairseqEncoderDecoderModel):
    """The model of Section 3: an encoder that annotates the source, and a decoder that attends to the annotations."""

    @classmethod
    def build_model(cls, cfg: DictConfig, task: FairseqTask) -> "RNNsearchModel":
        """Build the model that ``cfg`` describes, with the initial values of Appendix B.1.

        Raises:
            InputError: if ``cfg`` is not valid; see :func:`complete` and :func:`share_embeddings`.
        """
        cfg = complete(cfg)
        encoder = RNNsearchEncoder(cfg, task.source_dictionary)
        decoder = RNNsearchDecoder(cfg, task.target_dictionary, encoder.annotator.annotation_size)
        tables = (side.embedding.table for side in (encoder.annotator, decoder.translator))
        share_embeddings(cfg, task, *tables, decoder.to_vocabulary)
        model = cls(encoder, decoder)
        initialize(model)
        if cfg.cuda_graphs:
            task.train_step = CapturedUpdates(task.train_step, model)
        return model

    def load_state_dict(
        self,
        state_dict: dict[str, Tensor],
        strict: bool = True,
        model_cfg: DictConfig | None = None,
        args: argparse.Namespace | None = None,
    ) -> Any:
        """As in fairseq, but with a clear error for parameters that do not fit.

        Raises:
            InputError: if the checkpoint has another architecture, other sizes or other dictionaries.
        """
        if strict:
            explain_misfit(state_dict, self.state_dict())
            check_shared(self, state_dict)
        return super().load_state_dict(state_dict, strict, model_cfg, args)

    def prepare_for_inference_(self, cfg: DictConfig) -> None:
        """As in fairseq, but refuse options that need alignments for a model without them.

        Raises:
            InputError: if such an option is given for a model with ``--context last``.
        """
        generation = getattr(cfg, "generation", None)
        for option in ("print_alignment", "replace_unk"):
            if not self.decoder.has_attention and getattr(generation, option, None) is not None:
                raise InputError(
                    f"--{option.replace('_', '-')} needs an alignment, and RNNencdec (--context last) has none: "
                    "leave the option out, or use a checkpoint of RNNsearch"
                )
        super().prepare_for_inference_(cfg)


def explain_misfit(loaded: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Compare the parameter names and shapes of a checkpoint with the model's.

    Raises:
        InputError: if they differ; it says what does not fit, and the likely cure.
    """
    for side in ("encoder.annotator", "decoder.translator"):
        table = f"{side}.embedding.table.weight"
        if table in loaded and len(loaded[table]) != len(expected[table]):
            language = "source" if side.startswith("encoder") else "target"
            raise InputError(
                f"The checkpoint was trained with {len(loaded[table]):,} {language} words, but this {language} "
                f"dictionary has {len(expected[table]):,}: give the data it was trained on"
            )
    if loaded.keys() != expected.keys():
        name = min(loaded.keys() ^ expected.keys())
        raise InputError(
            f"The checkpoint is another architecture's ({name} is in {'it' if name in loaded else 'this model'} only); "
            "give the --arch and model options it was trained with, or another --save-dir or --restore-file"
        )
    for name, parameter in expected.items():
        if loaded[name].shape != parameter.shape:
            raise InputError(
                f"The checkpoint is of other sizes: {name} is {tuple(loaded[name].shape)} there and "
                f"{tuple(parameter.shape)} here; give the --arch and model options it was trained with"
            )


class RNNsearchEncoder(BatchFirstEncoder):
    """:class:`~rnnsearch_fairseq.modules.Encoder` behind fairseq's encoder interface."""

    def __init__(self, cfg: DictConfig, dictionary: Dictionary) -> None:
        super().__init__(dictionary)
        self.word_dropout, self.annotation_dropout = cfg.word_dropout, cfg.annotation_dropout
        kind = FusedEncoder if cfg.scan == "fused" else Encoder
        self.annotator = kind(
            len(dictionary),
            cfg.embedding_size,
            cfg.hidden_size,
            dictionary.pad(),
            bidirectional=cfg.context == "attention",
            dropout=cfg.dropout,
        )

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_: Any) -> dict[str, list[Tensor]]:
        """Annotate ``src_tokens`` ``(batch, src_len)``, each sentence ended by end-of-sentence, padded left or right.

        Returns:
            ``annotations`` ``(batch, src_len, 2n)``; ``summary`` ``(batch, n)``; ``padding_mask`` ``(batch, src_len)``.
        """
        padding_mask = src_tokens.eq(self.dictionary.pad())
        if self.training:
            src_tokens = drop_words(src_tokens, self.word_dropout, self.dictionary)
        # On a GPU the test for padding would wait for the device; the mask costs less.
        masked = dispatch.on_gpu(padding_mask) or padding_mask.any()
        annotations, summary = self.annotator(src_tokens, padding_mask if masked else None)
        if self.training and self.annotation_dropout:
            # Gal and Ghahramani (2016), A Theoretically Grounded Application of Dropout in Recurrent Neural Networks:
            # the decoder reads c_i, which is dropped by the same mask at every position i.
            annotations = annotations * F.dropout(torch.ones_like(annotations[:, :1]), self.annotation_dropout)
        return {"annotations": [annotations], "summary": [summary], "padding_mask": [padding_mask]}

    def reorder_encoder_out(self, encoder_out: dict[str, list[Tensor]], new_order: Tensor) -> dict[str, list[Tensor]]:
        """Take the rows ``new_order`` ``(new_rows,)``, in that order.

        As long as all sentences have the same number of adjacent rows, the tensors hold each sentence once instead of
        once per row, and ``rows`` holds the sentence of each row. Otherwise sentences are copied for their rows.
        """
        tensors = {name: tensor for name, (tensor,) in encoder_out.items() if name != "rows"}
        own = torch.arange(len(tensors["summary"]), device=new_order.device)
        rows = encoder_out.get("rows", [own])[0]
        chosen = rows.index_select(0, new_order)
        if torch.equal(chosen, rows):
            return encoder_out
        sentences, counts = torch.unique_consecutive(chosen, return_counts=True)
        if len(counts) == 0 or counts.min() != counts.max():
            sentences, counts = chosen, torch.ones_like(chosen)
        if not torch.equal(sentences, own):
            tensors = {name: tensor.index_select(0, sentences) for name, tensor in tensors.items()}
        shared = torch.arange(len(sentences), device=new_order.device).repeat_interleave(counts)
        return {name: [tensor] for name, tensor in tensors.items()} | {"rows": [shared]}


class RNNsearchDecoder(BatchFirstDecoder):
    """:class:`~rnnsearch_fairseq.modules.Decoder` behind fairseq's decoder interface."""

    def __init__(self, cfg: DictConfig, dictionary: Dictionary, annotation_size: int) -> None:
        super().__init__(dictionary)
        self.word_dropout = cfg.word_dropout
        self.has_attention = cfg.context == "attention"
        self.search_step: SearchStep | None = None
        kind = FusedDecoder if cfg.scan == "fused" else Decoder
        self.translator = kind(
            len(dictionary),
            cfg.embedding_size,
            cfg.hidden_size,
            annotation_size,
            cfg.alignment_size if self.has_attention else 0,
            cfg.maxout_size,
            cfg.maxout_pool,
            dictionary.pad(),
            reads_current_state=cfg.readout_state == "current",
            updates_with_current_word=cfg.update_word == "current",
            output_rank=cfg.output_rank,
            dropout=cfg.dropout,
            readout_dropout=cfg.readout_dropout,
        )

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Tensor]],
        incremental_state: dict[str, dict[str, Tensor | None]] | None = None,
        features_only: bool = False,
        **_: Any,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Score every next word.

        Args:
            prev_output_tokens: y_{i-1}, ``(batch, tgt_len)``, beginning with end-of-sentence as y_0. In a search
                (``incremental_state`` given) only the last column is read.
            features_only: return the input of :attr:`to_vocabulary` instead of the scores.

        Returns:
            Unnormalised log-probabilities ``(batch, tgt_len, K_y)``, or features ``(batch, tgt_len, l)``; ``attn``:
            alpha ``(batch, tgt_len, src_len)``; and with features, :meth:`output_layer`.
        """
        (annotations,), (summary,), (padding_mask,) = (
            encoder_out[name] for name in ("annotations", "summary", "padding_mask")
        )
        if self.training:
            prev_output_tokens = drop_words(prev_output_tokens, self.word_dropout, self.dictionary)
        saved, keys = None, encoder_out.get("keys", [None])[0]
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
            saved = self.get_incremental_state(incremental_state, "search")
        memory = self.translator.attention.encode_keys(annotations, padding_mask, keys)
        if saved:
            state, context = saved["state"], saved["context"]
        else:
            state, context = repeat_rows(self.translator.initial_state(summary), len(prev_output_tokens)), None
        output = self.translator(prev_output_tokens, state, memory, context)
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, "search", {"state": output.state, "context": output.context})
            if memory.keys is not None:
                encoder_out["keys"] = [memory.keys]  # computed once a sentence
        extra = {"attn": [output.weights]}
        if features_only:
            return output.features, {**extra, "output_layer": self.output_layer()}
        return self.to_vocabulary(output.features), extra

    def prepare_search(self, encoder_out: dict[str, list[Tensor]]) -> tuple[SearchStep, Memory, Tensor]:
        """The search step, the encoded source in the form that it needs, and s_0 ``(batch, n)``.

        The step is cached until the model is trained, loaded or moved.
        """
        (annotations,), (summary,), (padding_mask,) = (
            encoder_out[name] for name in ("annotations", "summary", "padding_mask")
        )
        if self.search_step is None:
            self.search_step = SearchStep(self.translator)
        memory = self.translator.attention.encode_keys(annotations, padding_mask if padding_mask.any() else None)
        return self.search_step, self.search_step.prepare_memory(memory), self.translator.initial_state(summary)

    def train(self, mode: bool = True) -> "RNNsearchDecoder":
        """As in PyTorch; training drops the cached search step, a copy of the parameters."""
        if mode:
            self.search_step = None
        return super().train(mode)

    def _load_from_state_dict(self, *args: Any) -> None:
        self.search_step = None
        super()._load_from_state_dict(*args)

    def _apply(self, *args: Any, **kwargs: Any) -> "RNNsearchDecoder":
        self.search_step = None
        return super()._apply(*args, **kwargs)

    @property
    def to_vocabulary(self) -> nn.Linear:
        """W_o with the softmax's bias."""
        return self.translator.readout.to_vocabulary


def choose_training(args: argparse.Namespace) -> None:
    """Choose the paper's training settings if the command line has no ``--optimizer``, which fairseq would refuse.

    An option with fairseq's default value counts as not given; all others keep their values. The choice is logged, with
    the paper's settings that the task lacks.
    """
    if getattr(args, "optimizer", "") is not None:
        return
    fairseq_and_paper = {"lr": ([0.25], [1.0]), "clip_norm": (0.0, 1.0), "criterion": ("cross_entropy", "summed_nll")}
    chosen: dict[str, Any] = {"optimizer": "adadelta"}
    chosen |= {name: paper for name, (default, paper) in fairseq_and_paper.items() if getattr(args, name) == default}
    if args.batch_size is None and args.max_tokens is None:
        chosen |= {"batch_size": 80, "batch_size_valid": args.batch_size_valid or 80}
    vars(args).update(chosen)
    missing = [] if args.task == "pooled_translation" else ["no pools of 20 batches", "no single shuffle"]
    if getattr(args, "max_words", None) is None:
        missing.append("no length limit")
    but = f", but --task {args.task} has {', '.join(missing)}; give --task pooled_translation --max-words 50"
    logger.warning("no --optimizer is given: training as in the paper, %s%s", chosen, but if missing else "")


register_architectures("rnnsearch", ARCHITECTURES, then=choose_training)
