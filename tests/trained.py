"""Small models that have learnt a few sentences by heart, in folders as fairseq-train leaves them."""

import functools
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import BaseFairseqModel
from omegaconf import DictConfig

from rnnsearch_fairseq.tasks.tree_translation import TreeTranslationTask
from rnnsearch_fairseq.text.forest import build_forest
from rnnsearch_fairseq.text.trees import read_penn
from tests.builders import SMALL, make_sample, parse_training, save_checkpoint

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
SIZES = [word for name in SMALL for word in (f"--{name.replace('_', '-')}", "32")]
ARCHITECTURES = {
    "bahdanau_gru": [*SIZES, "--task", "translation"],
    "rnnencdec": [*SIZES, "--task", "translation"],
    "tree2seq_small": ["--embedding-size", "32", "--hidden-size", "32", "--task", "tree_translation"],
}


def train(folder: Path, arch: str = "bahdanau_gru") -> Path:
    """Write a model of ``arch`` that was trained on PAIRS, with their PARSES if it reads them.

    Returns:
        ``folder``, with dictionaries in ``bin`` and the model in ``checkpoints``.
    """
    config, model, dictionaries = _trained(arch)
    (folder / "bin").mkdir(parents=True)
    (folder / "checkpoints").mkdir()
    for language, dictionary in dictionaries.items():
        dictionary.save(str(folder / "bin" / f"dict.{language}.txt"))
    save_checkpoint(folder / "checkpoints" / "checkpoint_best.pt", config, model)
    return folder


@functools.cache  # the tests of a process train each architecture once
def _trained(arch: str) -> tuple[DictConfig, BaseFairseqModel, dict[str, Dictionary]]:
    torch.manual_seed(1)
    source, target, transitions = _dictionary(PAIRS), _dictionary(PAIRS.values()), Dictionary()
    for symbol in ("S", "R", "-"):
        transitions.add_symbol(symbol)
    config = parse_training("--arch", arch, *ARCHITECTURES[arch], "-s", "en", "-t", "fr", "--optimizer", "adam")
    task = TreeTranslationTask(config.task, source, target, transitions)  # it has what a plain one has
    model = task.build_model(config.model)
    _learn(model, source, target, trees=arch.startswith("tree2seq"))
    return config, model, {"en": source, "fr": target, "tree": transitions}


def _dictionary(sentences: Any) -> Dictionary:
    dictionary = Dictionary()
    for sentence in sentences:
        for word in sentence.split():
            dictionary.add_symbol(word)
    return dictionary


def _learn(model: BaseFairseqModel, source: Dictionary, target: Dictionary, trees: bool) -> None:
    ids = [
        [dictionary.encode_line(line, add_if_not_exist=False).long().tolist() for line in side]
        for dictionary, side in ((source, PAIRS), (target, PAIRS.values()))
    ]
    sample = make_sample(*ids)
    if trees:  # each sentence is learnt without its parse, too
        sample = make_sample(*(side * 2 for side in ids))
        parses = [read_penn(parse).tree for parse in PARSES] + [None] * len(PARSES)
        columns = sample["net_input"]["src_tokens"].size(1)
        sample["net_input"]["trees"] = tuple(build_forest(parses, [0] * len(parses), columns))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        logits, _ = model(**sample["net_input"])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), sample["target"].flatten(), ignore_index=1)
        loss.backward()
        optimizer.step()
    assert loss < 0.05, "the sentences are not learnt"
