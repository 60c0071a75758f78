"""Tree-to-sequence translation (Eriguchi, Hashimoto and Tsuruoka, ACL 2016) as the fairseq model ``tree2seq``."""

from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.models import FairseqEncoderDecoderModel, register_model
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig
from torch import Tensor, nn

from rnnsearch_fairseq.errors import InputError
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
from rnnsearch_fairseq.modules.fused.tree import FusedTreeDecoder, FusedTreeEncoder
from rnnsearch_fairseq.modules.init import initialize_uniform
from rnnsearch_fairseq.modules.tree_decoder import DecoderState
from rnnsearch_fairseq.modules.tree_encoder import Constituents
from rnnsearch_fairseq.modules.tree_lstm import Forest


@dataclass
class Tree2SeqConfig(CommonConfig):
    """Sizes and options; the defaults are the paper's model with d = 512."""

    embedding_size: int = field(default=512, metadata={"help": "width of the word embeddings, source and target"})
    hidden_size: int = field(default=512, metadata={"help": "d: units of every LSTM and Tree-LSTM"})
    constituents: ChoiceEnum(["phrases", "words", "phrases-only"]) = field(  # type: ignore[valid-type]
        default="phrases",
        metadata={
            "help": "the encoder: 'phrases' is an LSTM over the words and a Tree-LSTM over their phrases "
            "(tree-to-sequence), 'words' is the LSTM alone (the sequential baseline, ANMT), 'phrases-only' is the "
            "Tree-LSTM over word embeddings (the ablation of Table 5; --embedding-size must equal --hidden-size)"
        },
    )
    reverse_source: bool = field(
        default=False, metadata={"help": "read the source from the last word to the first (--constituents words only)"}
    )


ARCHITECTURES: dict[str, dict[str, Any]] = {
    "tree2seq_512": {},
    "tree2seq_768": {"hidden_size": 768},
    "tree2seq_1024": {"hidden_size": 1024},
    "tree2seq_small": {"embedding_size": 256, "hidden_size": 256},
    "anmt": {"constituents": "words"},
    "anmt_small": {"embedding_size": 256, "hidden_size": 256, "constituents": "words"},
}


def complete(cfg: Any) -> DictConfig:
    """``cfg`` (from the command line, Hydra or a checkpoint) with every missing field set, and checked.

    Raises:
        InputError: if a size is not positive, a rate is outside [0, 1), a choice is unknown or two options clash.
    """
    merged = fill_in(cfg, Tree2SeqConfig)
    check_output_width(merged, "hidden_size")
    if merged.constituents == "phrases-only" and merged.embedding_size != merged.hidden_size:
        raise InputError(
            f"--constituents phrases-only composes word embeddings: --embedding-size {merged.embedding_size} and "
            f"--hidden-size {merged.hidden_size} must be equal"
        )
    if merged.reverse_source and merged.constituents != "words":
        raise InputError("--reverse-source needs --constituents words: a tree fixes the order of its words")
    return merged


@register_model("tree2seq", dataclass=Tree2SeqConfig)
class Tree2SeqModel(FairseqEncoderDecoderModel):
    """The model of Section 3, its sequential baseline, and its ablation."""

    @classmethod
    def build_model(cls, cfg: DictConfig, task: FairseqTask) -> "Tree2SeqModel":
        """Build the model that ``cfg`` describes, with the paper's initial values.

        Raises:
            InputError: if ``cfg`` is not valid, or needs trees or a joint dictionary that the task does not have.
        """
        cfg = complete(cfg)
        if cfg.constituents != "words" and not getattr(task, "has_trees", False):
            raise InputError(
                "this model encodes trees, and the task has none; give --task tree_translation, or --arch anmt"
            )
        encoder = Tree2SeqEncoder(cfg, task.source_dictionary)
        decoder = Tree2SeqDecoder(cfg, task.target_dictionary)
        share_embeddings(cfg, task, encoder.composer.embedding, decoder.translator.embedding, decoder.to_vocabulary)
        model = cls(encoder, decoder)
        initialize_uniform(model)
        return model

    def load_state_dict(self, state_dict: dict[str, Tensor], strict: bool = True, **kwargs: Any) -> Any:
        """As in fairseq.

        Raises:
            InputError: if the model shares matrices that differ in the checkpoint.
        """
        if strict:
            check_shared(self, state_dict)
        return super().load_state_dict(state_dict, strict, **kwargs)


class Tree2SeqEncoder(BatchFirstEncoder):
    """:class:`~rnnsearch_fairseq.modules.tree_encoder.TreeEncoder` behind fairseq's encoder interface."""

    def __init__(self, cfg: DictConfig, dictionary: Dictionary) -> None:
        super().__init__(dictionary)
        self.parses = cfg.constituents != "words"
        self.reverse_source = cfg.reverse_source
        self.word_dropout = cfg.word_dropout
        self.composer = FusedTreeEncoder(
            len(dictionary),
            cfg.embedding_size,
            cfg.hidden_size,
            dictionary.pad(),
            parses=self.parses,
            sequential=cfg.constituents != "phrases-only",
        )

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor | None = None, trees: tuple[Any, ...] | None = None, **_: Any
    ) -> dict[str, list[Tensor]]:
        """Encode ``src_tokens`` ``(batch, src_len)``, each sentence ended by end-of-sentence, padded left or right.

        Args:
            trees: the fields of a :class:`~rnnsearch_fairseq.modules.tree_lstm.Forest` as a plain tuple.

        Returns:
            The fields of :class:`~rnnsearch_fairseq.modules.tree_encoder.Constituents`, batch first, and ``src_len``
            ``(batch,)``: the number of columns of the states that are words.
        """
        padding_mask = src_tokens.eq(self.dictionary.pad())
        if self.training:
            src_tokens = drop_words(src_tokens, self.word_dropout, self.dictionary)
        if self.reverse_source:
            src_tokens = reverse_words(src_tokens, padding_mask)
        source = self.composer(src_tokens, padding_mask, Forest(*trees) if self.parses and trees is not None else None)
        columns = padding_mask.new_full((len(src_tokens),), src_tokens.size(1), dtype=torch.long)
        states = source.states
        if self.reverse_source:
            # Attention weights are reported in the original word order.
            states = reverse_words(states, padding_mask)
        encoded = {"states": [states], "padding_mask": [source.padding_mask], "end": list(source.end)}
        return {**encoded, "root": list(source.root or ()), "src_len": [columns]}


def reverse_words(words: Tensor, padding_mask: Tensor) -> Tensor:
    """``words`` ``(batch, src_len, ...)`` from the last to the first; padding and end-of-sentence stay in place."""
    columns = torch.arange(words.size(1), device=words.device).expand_as(padding_mask)
    is_word = ~padding_mask
    first = is_word.long().argmax(dim=1, keepdim=True)
    last = first + is_word.sum(dim=1, keepdim=True) - 2  # before end-of-sentence
    order = torch.where((columns >= first) & (columns <= last), first + last - columns, columns)
    return words.gather(1, order.reshape(*order.shape, *[1] * (words.dim() - 2)).expand_as(words))


class Tree2SeqDecoder(BatchFirstDecoder):
    """:class:`~rnnsearch_fairseq.modules.tree_decoder.TreeDecoder` behind fairseq's decoder interface."""

    def __init__(self, cfg: DictConfig, dictionary: Dictionary) -> None:
        super().__init__(dictionary)
        self.word_dropout = cfg.word_dropout
        self.translator = FusedTreeDecoder(
            len(dictionary), cfg.embedding_size, cfg.hidden_size, dictionary.pad(), parses=cfg.constituents != "words"
        )

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Tensor]],
        incremental_state: dict[str, dict[str, Tensor | None]] | None = None,
        features_only: bool = False,
        **_: Any,
    ) -> tuple[Tensor, dict[str, list[Tensor]]]:
        """Score every next word.

        Args:
            prev_output_tokens: y_{j-1}, ``(batch, tgt_len)``; the first column is ignored. In a search
                (``incremental_state`` given) only the last column is read.
            features_only: return s~_j instead of scores.

        Returns:
            Unnormalised log-probabilities ``(batch, tgt_len, K_y)``, or s~_j ``(batch, tgt_len, d)``; and a dictionary:
            ``attn``, the alpha of the words ``(batch, tgt_len, src_len)``; ``constituents``, the alpha of words and
            phrases; and with ``features_only``, :meth:`output_layer`.
        """
        if self.training:
            prev_output_tokens = drop_words(prev_output_tokens, self.word_dropout, self.dictionary)
        source = Constituents(
            encoder_out["states"][0],
            encoder_out["padding_mask"][0],
            tuple(encoder_out["end"]),
            tuple(encoder_out["root"]) or None,
        )
        if incremental_state is None:
            features, alpha = self.translator.scan(prev_output_tokens, source)
        else:
            saved = self.get_incremental_state(incremental_state, "search")
            state = DecoderState(**saved) if saved else self.translator.initial_state(source)
            features, alpha, state = self.translator.step(prev_output_tokens[:, -1], state, source)
            features, alpha = features.unsqueeze(1), alpha.unsqueeze(1)
            self.set_incremental_state(incremental_state, "search", state._asdict())
        words = int(encoder_out["src_len"][0][0])
        extra = {"attn": [alpha[..., :words]], "constituents": [alpha]}
        if features_only:
            return features, {**extra, "output_layer": self.output_layer()}
        return self.to_vocabulary(features), extra

    @property
    def to_vocabulary(self) -> nn.Linear:
        """W_s with its bias."""
        return self.translator.to_vocabulary


register_architectures("tree2seq", ARCHITECTURES)
