"""Updates and search of JoeyNMT, if it is installed: its model, cost, clipping, optimizer and beam search."""

import importlib
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor

from recipes.benchmark.cases import Size, read_widths
from recipes.benchmark.workloads import WARM_UP, Batch, Workload, make_dictionary, peak_bytes, random_batch
from rnnsearch_fairseq.errors import InputError

SYMBOLS = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>"}  # in the order of JoeyNMT's ids, from 0


class JoeyNMT(Workload):
    """JoeyNMT's GRU encoder-decoder with attention, of random weights, and random words.

    Args:
        width, embedding: the arguments of `model_options`.

    Raises:
        InputError: JoeyNMT is not installed.
    """

    def __init__(self, width: int, embedding: int, size: Size, batches: int) -> None:
        self.batch = load("batch")
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        dictionary = make_dictionary(size.vocabulary)
        vocabularies = [make_vocabulary(dictionary) for _ in range(2)]
        self.model = load("model").build_model(model_options(width, embedding), *vocabularies).to(self.device)
        self.batches = [random_batch((dictionary, dictionary), size) for _ in range(batches)]

    def make_batch(self, source: Tensor, target: Tensor | None = None) -> Any:
        """Make JoeyNMT's batch of fairseq's ids ``(batch, src_len)`` and ``(batch, tgt_len)``, all of equal lengths."""
        index = self.model
        source = translate_ids(source, index)
        if target is not None:
            first = target.new_full((len(target), 1), index.bos_index)
            target = torch.cat([first, translate_ids(target, index)], dim=1)
        batch = self.batch.Batch(
            src=source,
            src_length=torch.full((len(source),), source.size(1)),
            src_prompt_mask=None,
            trg=target,
            trg_prompt_mask=None,
            indices=torch.arange(len(source)),
            device=self.device,
            pad_index=index.pad_index,
            eos_index=index.eos_index,
        )
        batch.sort_by_src_length()
        return batch


class JoeyNMTTraining(JoeyNMT):
    """Updates as in JoeyNMT's ``TrainManager``: cost averaged over sentences, gradients clipped to norm 1, Adam.

    Args:
        options: the width throughout, or width/embedding.

    Raises:
        InputError: JoeyNMT is not installed, or the options or size do not fit.
    """

    def __init__(self, options: Sequence[str], size: Size, updates: int) -> None:
        super().__init__(*read_widths(options, size, "joeynmt WIDTH[/EMBEDDING]"), size, updates)
        self.model.train().loss_function = ("crossentropy", 0.0)
        builders = load("builders")
        self.clip = builders.build_gradient_clipper({"clip_grad_val": None, "clip_grad_norm": 1.0})
        training = {"optimizer": "adam", "learning_rate": 0.001}
        self.optimizer = builders.build_optimizer(training, self.model.parameters())
        self.count = sum(batch["ntokens"] for batch in self.batches)
        self.work(WARM_UP)

    def step(self, batch: Batch) -> float:
        """Make one update; return the cost."""
        own = self.make_batch(batch["net_input"]["src_tokens"], batch["target"])
        cost, _, _, _ = self.model(return_type="loss", **vars(own))
        cost = own.normalize(cost, normalization="batch")
        cost.backward()
        self.clip(parameters=self.model.parameters())
        self.optimizer.step()
        self.model.zero_grad()
        return cost.item()

    def peak(self) -> int:
        """The peak above the parameters and the optimizer's state; gradients count."""
        return peak_bytes(lambda: self.work(1), self.device)


class JoeyNMTTranslation(JoeyNMT):
    """JoeyNMT's search with its default settings: greedy for a beam of 1, and no length penalty.

    Every translation has as many words as the size's ``target``: this is the limit, and end-of-sentence is forbidden
    before.

    Args:
        options: the width throughout, or width/embedding, and the beam size.

    Raises:
        InputError: JoeyNMT is not installed, or the options or size do not fit.
    """

    def __init__(self, options: Sequence[str], size: Size, batches: int) -> None:
        width, embedding, self.beam = read_widths(options, size, "joeynmt WIDTH[/EMBEDDING] BEAM")
        super().__init__(width, embedding, size, batches)
        self.model.eval()
        self.search, self.length = load("search").search, size.target
        self.count = batches * size.batch
        self.work(WARM_UP)

    def step(self, batch: Batch) -> Any:
        """Translate a batch; return JoeyNMT's ids ``(batch, target)``."""
        own = self.make_batch(batch["net_input"]["src_tokens"])
        limits = {"min_output_length": self.length, "max_output_length": self.length}
        translations, _, _ = self.search(self.model, own, beam_size=self.beam, beam_alpha=-1, **limits)
        return translations


def load(name: str) -> ModuleType:
    """Import a module of JoeyNMT.

    Raises:
        InputError: JoeyNMT or one of its requirements is missing.
    """
    try:
        return importlib.import_module(f"joeynmt.{name}")
    except ImportError as error:
        raise InputError(
            f"JoeyNMT cannot be imported ({error}); install it by pip install --no-deps joeynmt && "
            "pip install importlib_metadata tensorboard"
        ) from error


def model_options(width: int, embedding: int) -> dict[str, Any]:
    """JoeyNMT's options for a bidirectional GRU encoder and a GRU decoder as in RNNsearch, of these widths."""
    shared = {"type": "recurrent", "rnn_type": "gru", "num_layers": 1, "hidden_size": width, "dropout": 0.0}
    shared |= {"embeddings": {"embedding_dim": embedding, "dropout": 0.0}}
    decoder = {"attention": "bahdanau", "init_hidden": "bridge", "input_feeding": True, "hidden_dropout": 0.0}
    return {"encoder": shared | {"bidirectional": True}, "decoder": shared | decoder}


def make_vocabulary(dictionary: Dictionary) -> Any:
    """Make JoeyNMT's vocabulary of the same words."""
    tokens = {f"{name}_token": symbol for name, symbol in SYMBOLS.items()}
    ids = {f"{name}_id": number for number, name in enumerate(SYMBOLS)}
    options = SimpleNamespace(**tokens, **ids, sep_token=None, sep_id=None, lang_tags=[])
    return load("vocabulary").Vocabulary(dictionary.symbols[dictionary.nspecial :], options)


def translate_ids(words: Tensor, index: Any) -> Tensor:
    """Convert fairseq's ids to JoeyNMT's; only the four symbols differ."""
    ids = torch.tensor([index.bos_index, index.pad_index, index.eos_index, index.unk_index])
    return torch.where(words < len(ids), ids[words.clamp(max=len(ids) - 1)], words)
