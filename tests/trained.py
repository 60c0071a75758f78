"""Small models that have learnt a few sentences by heart, in folders as fairseq-train leaves them."""

import functools
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from rnnsearch_fairseq.inference.loading import KINDS, Member, write_member
from rnnsearch_fairseq.modules import rnnsearch, tree2seq
from rnnsearch_fairseq.modules.config import NetworkConfig
from rnnsearch_fairseq.modules.forest import build_forest
from rnnsearch_fairseq.modules.symbols import PAD
from rnnsearch_fairseq.text.preparation import Preparation
from rnnsearch_fairseq.text.settings import TextSettings, pack_record, unpack_record
from rnnsearch_fairseq.text.trees import read_penn
from rnnsearch_fairseq.text.vocabulary import SPECIAL, Vocabulary

SHIPPED_MODEL = Path(__file__).resolve().parents[1] / "recipes/docs_en_fr/model"
needs_shipped_model = pytest.mark.skipif(not SHIPPED_MODEL.exists(), reason="the source distribution has no model")
PAIRS = {
    "the dog sleeps .": "le chien dort .",
    "the cat sleeps .": "le chat dort .",
    "the black cat eats .": "le chat noir mange .",
    "the black dog eats .": "le chien noir mange .",
    "it &apos;s a cat .": "c&apos; est un chat .",
}
PARSES = [
    "(S (NP the dog) sleeps .)",
    "(S (NP the cat) sleeps .)",
    "(S (NP the (X black cat)) eats .)",
    "(S (NP the (X black dog)) eats .)",
    "(S it (VP &apos;s (NP a cat)) .)",
]
ARCHITECTURES = ("bahdanau_gru", "rnnencdec", "tree2seq_small")  # one of each kind
LANGUAGES = ("en", "fr")
PREPARATION = Preparation("moses", lowercase=True)
SIZES = dict.fromkeys(("embedding_size", "hidden_size", "alignment_size", "maxout_size"), 32)


def train(folder: Path, arch: str = "bahdanau_gru", **options: Any) -> Path:
    """Write a model of ``arch`` that was trained on PAIRS, with their PARSES if it reads them.

    Returns:
        ``folder``, with the model in ``checkpoints``.
    """
    (folder / "checkpoints").mkdir(parents=True)
    torch.save(make_checkpoint(arch, **options), folder / "checkpoints" / "checkpoint_best.pt")
    return folder


@functools.cache  # the tests of a process train each architecture once
def _trained(arch: str, options: tuple[tuple[str, Any], ...]) -> tuple[NetworkConfig, nn.Module]:
    torch.manual_seed(1)
    kind, values = ("tree2seq", tree2seq) if arch in tree2seq.ARCHITECTURES else ("rnnsearch", rnnsearch)
    config_class, network_class = KINDS[kind]
    config = config_class.from_values({**values.ARCHITECTURES[arch], **SIZES, "output_rank": 0, **dict(options)})
    network = network_class(config, *map(len, vocabularies()))
    _learn(network, trees=kind == "tree2seq")
    return config, network


def change_text(state: dict[str, Any], **values: Any) -> None:
    """Change values of the record of its text in a checkpoint."""
    record = unpack_record(state["model"]["_extra_state"])
    state["model"]["_extra_state"] = pack_record({**record, **values})


def make_checkpoint(arch: str = "bahdanau_gru", **options: Any) -> dict[str, Any]:
    """What fairseq's trainer saves of a model that was trained on PAIRS."""
    kind = "tree2seq" if arch in tree2seq.ARCHITECTURES else "rnnsearch"
    text = TextSettings(LANGUAGES, vocabularies(), (PREPARATION, PREPARATION))
    with tempfile.TemporaryDirectory() as folder:
        write_member(path := Path(folder) / "x.pt", Member(kind, *_trained(arch, tuple(sorted(options.items()))), text))
        state = torch.load(path, weights_only=True)
    state["cfg"]["model"]["_name"] = arch
    state["optimizer_history"][-1]["num_updates"] = 150
    return state


def vocabularies() -> tuple[Vocabulary, Vocabulary]:
    """The words of both sides of PAIRS."""
    return _vocabulary(PAIRS), _vocabulary(PAIRS.values())


def _vocabulary(sentences: Iterable[str]) -> Vocabulary:
    return Vocabulary([*SPECIAL, *dict.fromkeys(word for sentence in sentences for word in sentence.split())])


def _learn(network: nn.Module, trees: bool) -> None:
    sides = zip(vocabularies(), (PAIRS, PAIRS.values()))
    sources, targets = ([vocabulary.encode(line.split()) for line in lines] for vocabulary, lines in sides)
    forest = None
    if trees:  # each sentence is learnt without its parse, too
        sources, targets = sources * 2, targets * 2
        parses = [read_penn(parse).tree for parse in PARSES] + [None] * len(PARSES)
        forest = build_forest(parses, [0] * len(parses), max(map(len, sources)))
    source, target = (pad_sequence(side, batch_first=True, padding_value=PAD) for side in (sources, targets))
    previous = torch.cat([torch.full((len(target), 1), 2), target[:, :-1]], dim=1)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        scores, _ = network(source, previous, forest)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=PAD)
        loss.backward()
        optimizer.step()
    assert loss < 0.05, "the sentences are not learnt"
