"""Updates of JoeyNMT, if it is installed: its model, cost, clipping and optimizer."""

import importlib
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor

from recipes.benchmark.cases import Size
from recipes.benchmark.workloads import WARM_UP, Batch, Workload, make_dictionary, peak_bytes, random_batch
from rnnsearch_fairseq.errors import InputError

SYMBOLS = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>"}  # in the order of JoeyNMT's ids, from 0


class JoeyNMT(Workload):
    """Updates of JoeyNMT's GRU encoder-decoder with attention on random words, with the sizes of `model_options`.

    The update is the same as in its ``TrainManager``: cost averaged over sentences, gradients clipped to norm 1, Adam.

    Args:
        options: the width.

    Raises:
        InputError: JoeyNMT is not installed, or the options or size do not fit.
    """

    def __init__(self, options: Sequence[str], size: Size, updates: int) -> None:
        if len(options) != 1 or not options[0].isdecimal() or size.vocabulary is None:
            raise InputError("joeynmt takes a width, as 'joeynmt 256', and --vocabulary N")
        builders, self.batch = load("builders"), load("batch")
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        dictionary = make_dictionary(size.vocabulary)
        vocabularies = [make_vocabulary(dictionary) for _ in range(2)]
        self.model = load("model").build_model(model_options(int(options[0])), *vocabularies).to(self.device).train()
        self.model.loss_function = ("crossentropy", 0.0)
        self.clip = builders.build_gradient_clipper({"clip_grad_val": None, "clip_grad_norm": 1.0})
        training = {"optimizer": "adam", "learning_rate": 0.001}
        self.optimizer = builders.build_optimizer(training, self.model.parameters())
        self.batches = [random_batch((dictionary, dictionary), size) for _ in range(updates)]
        self.count = sum(batch["ntokens"] for batch in self.batches)
        self.work(WARM_UP)

    def step(self, batch: Batch) -> float:
        """Make one update; return the cost."""
        own = self.make_batch(batch["net_input"]["src_tokens"], batch["target"])
        own.sort_by_src_length()
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

    def make_batch(self, source: Tensor, target: Tensor) -> Any:
        """Make JoeyNMT's batch of fairseq's ids ``(batch, src_len)`` and ``(batch, tgt_len)``, all of equal lengths."""
        index = self.model
        source, target = (translate_ids(words, index) for words in (source, target))
        first = target.new_full((len(target), 1), index.bos_index)
        return self.batch.Batch(
            src=source,
            src_length=torch.full((len(source),), source.size(1)),
            src_prompt_mask=None,
            trg=torch.cat([first, target], dim=1),
            trg_prompt_mask=None,
            indices=torch.arange(len(source)),
            device=self.device,
            pad_index=index.pad_index,
            eos_index=index.eos_index,
        )


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


def model_options(width: int) -> dict[str, Any]:
    """JoeyNMT's options for a bidirectional GRU encoder and a GRU decoder as in RNNsearch, ``width`` throughout."""
    shared = {"type": "recurrent", "rnn_type": "gru", "num_layers": 1, "hidden_size": width, "dropout": 0.0}
    shared |= {"embeddings": {"embedding_dim": width, "dropout": 0.0}}
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
