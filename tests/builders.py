"""Builders that several tests share: dictionaries, models, and modules with the NumPy reference's parameters."""

import functools
import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fairseq.options  # by this name, since the package replaces a function in it
import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import DictConfig, OmegaConf
from torch import nn

from recipes.groundhog import files
from recipes.groundhog.__main__ import make_config, make_parameters
from rnnsearch_fairseq.modules.rnnsearch import ARCHITECTURES
from rnnsearch_fairseq.modules.symbols import EOS, PAD, UNK
from rnnsearch_fairseq.plugin.models import RNNsearchModel

SMALL = {"embedding_size": 5, "hidden_size": 6, "alignment_size": 7, "maxout_size": 4}


def make_dictionary(words: int) -> Dictionary:
    """Make a dictionary of fairseq's four symbols and the words w0, w1, ..."""
    dictionary = Dictionary()
    for number in range(words):
        dictionary.add_symbol(f"w{number}")
    return dictionary


def make_model(
    arch: str = "bahdanau_gru", source_words: int = 20, target_words: int = 17, **options: Any
) -> RNNsearchModel:
    """Build a tiny float64 model of ``arch`` in evaluation mode, with large random parameters."""
    task = Namespace(source_dictionary=make_dictionary(source_words), target_dictionary=make_dictionary(target_words))
    settings = {**ARCHITECTURES[arch], **SMALL}
    if "output_rank" in settings:
        settings["output_rank"] = 3
    model = RNNsearchModel.build_model(OmegaConf.create({**settings, **options}), task)
    randomize(model)
    return model.double().eval()


def randomize(model: nn.Module, std: float = 0.5) -> None:
    """Draw every parameter at random, large enough that gates and attention are far from uniform."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * std)


def groundhog_model(params: Mapping[str, np.ndarray]) -> RNNsearchModel:
    """Convert the arrays of ``tests/reference/groundhog.py`` to a float64 fairseq model, with the package's conversion.

    In GroundHog's ids, 0 is unused, 1 is the unknown word, and the last one is end-of-sentence.
    """
    arrays = [params[name] for name in ("W_0_enc_approx_embdr", "b_dec_deep_softmax")]
    source, target = (files.Symbols(len(array), end=len(array) - 1, unknown=1) for array in arrays)
    n, m = len(params["b_0_dec_initializer_0"]), arrays[0].shape[1]
    settings = files.Settings("A_dec_transition_0" in params, n, m, 2, source, target)
    sizes = {"source_words": source.size - 3, "target_words": target.size - 3}
    model = make_model(**sizes, **vars(make_config(settings, params)))
    for name, parameter in make_parameters(dict(params), settings).items():
        half, _, rest = name.partition(".")
        getattr(model, half).network.get_parameter(rest).data.copy_(parameter)
    return model


def from_original(ids: Sequence[int], size: int) -> list[int]:
    """Convert GroundHog's ids, in a vocabulary of ``size``, to fairseq's."""
    return [{0: 0, 1: UNK, size - 1: EOS}.get(number, number + 2) for number in ids]


def make_sample(sources: list[list[int]], targets: list[list[int]], left: bool = False) -> dict[str, Any]:
    """Make a batch like LanguagePairDataset's, of sentences with end-of-sentence; ``left``: pad sources on the left."""
    src_tokens = pad(sources, left)
    return {
        "id": torch.arange(len(sources)),
        "nsentences": len(sources),
        "ntokens": sum(map(len, targets)),
        "net_input": {
            "src_tokens": src_tokens,
            "src_lengths": src_tokens.ne(PAD).sum(dim=1),
            "prev_output_tokens": pad([[EOS, *target[:-1]] for target in targets]),
        },
        "target": pad(targets),
    }


@functools.cache
def parse_training(*words: str) -> DictConfig:
    """The configuration of ``fairseq-train data`` with these further words."""
    parser = fairseq.options.get_training_parser()
    return convert_namespace_to_omegaconf(fairseq.options.parse_args_and_arch(parser, ["data", *words]))


def pad(sentences: list[list[int]], left: bool = False) -> torch.Tensor:
    """Pad sentences to the longest of them."""
    longest = max(map(len, sentences))
    rows = [[PAD] * (longest - len(s)) * left + s + [PAD] * (longest - len(s)) * (not left) for s in sentences]
    return torch.tensor(rows)


class Touch:
    """Unpickled, it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)
