"""The fairseq model of the second paper, against the original program's numbers and against itself."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.tree_encoder import reverse_words
from rnnsearch_fairseq.plugin.models import Tree2SeqModel
from tests.builders import EOS, PAD, make_dictionary, pad
from tests.plugin.builders import EXACT, SOURCES, TARGETS, TREES, Original, Tree, make_batch, make_model
from tests.reference.recorded import TREE2SEQ, needs_tree2seq
from tests.reference.tree2seq_original import load_original


def word_log_probs(model: Tree2SeqModel, sample: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """ln p of each target word ``(batch, tgt_len)``, zero at padding."""
    logits, extra = model(**sample["net_input"])
    chosen = torch.log_softmax(logits, dim=-1).gather(2, sample["target"].unsqueeze(2)).squeeze(2)
    return chosen.masked_fill(sample["target"].eq(PAD), 0.0), extra


# -- the original's numbers --


@needs_tree2seq
@pytest.mark.parametrize("left", [False, True], ids=["right-padded", "left-padded"])
@pytest.mark.parametrize("records", ["dev", "train40", "dev_failed_parse"])
def test_recorded_log_probabilities_and_attention(records: str, left: bool) -> None:
    original = Original("softmax")
    given = original.described[records]
    sample = original.batch(given, left)
    found, extra = word_log_probs(original.model, sample)
    width = sample["net_input"]["src_tokens"].size(1)
    for row, record in enumerate(given):
        np.testing.assert_allclose(found[row, : len(record["tgt"])].detach(), record["logprobs"], **EXACT)
        assert found[row].sum().item() == pytest.approx(record["total"], abs=1e-10)
        if "attention" in record:
            (alpha,) = extra["constituents"]
            words = [*range(width - len(record["src"]), width)] if left else [*range(len(record["src"]))]
            expected = np.array(record["attention"])
            columns = words + [width + k for k in range(expected.shape[1] - len(words))]
            shown = alpha[row, : len(record["tgt"])].detach()
            np.testing.assert_allclose(shown[:, columns], expected, **EXACT)
            assert torch.equal(extra["attn"][0][row], alpha[row][:, :width])


@needs_tree2seq
def test_recorded_gradients_of_the_softmax() -> None:
    original = Original("softmax")
    log_probs, _ = word_log_probs(original.model, original.batch(original.described["train40"][:4]))
    expected_loss = original.described["grad_check"]["loss"]
    np.testing.assert_allclose(-log_probs.detach().sum(dim=1), expected_loss, **EXACT)
    (-log_probs.sum()).backward()
    gradients = load_original(TREE2SEQ / "softmax_grad.npz", TREE2SEQ / "softmax.json").state_dict()
    for name, parameter in original.model.named_parameters():
        gradient = gradients[name]
        if name == "decoder.network.to_vocabulary.bias":
            gradient[[0, PAD]] = 0  # the original has no such words
        torch.testing.assert_close(parameter.grad, gradient, **EXACT, msg=name)


@pytest.mark.slow
@pytest.mark.train
@needs_tree2seq
def test_the_recorded_training_is_followed_for_three_epochs() -> None:
    """The README's update: the gradient summed over four sentences, its norm over four clipped at 3."""
    original = Original("softmax", parameters="init")
    records = json.loads((TREE2SEQ / "train_ids.json").read_text(encoding="utf-8"))
    parameters = list(original.model.parameters())
    size, rate, clip = 4, 0.5, 3.0
    for epoch in original.described["epochs"][:3]:
        total = 0.0
        order = epoch["order"]
        for begin in range(0, len(order), size):
            sample = original.batch([records[number] for number in order[begin : begin + size]])
            cost = -word_log_probs(original.model, sample)[0].sum()
            total += cost.item()
            gradients = torch.autograd.grad(cost, parameters)
            norm = torch.stack([gradient.norm() for gradient in gradients]).norm().item() / size
            step = rate * min(1.0, clip / norm) / size
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients):
                    parameter -= step * gradient
        assert total / len(order) == pytest.approx(epoch["train_loss_per_sentence"], abs=1e-8)


# -- batches and steps --

KINDS = {
    "phrases": {},
    "words": {"constituents": "words"},
    "reversed": {"constituents": "words", "reverse_source": True},
    "phrases-only": {"constituents": "phrases-only", "embedding_size": 6},
}


@pytest.fixture(params=sorted(KINDS))
def model(request: pytest.FixtureRequest) -> Tree2SeqModel:
    return make_model(**KINDS[request.param])


@pytest.mark.parametrize("left", [False, True], ids=["right-padded", "left-padded"])
def test_score_depends_on_no_neighbour_and_on_no_padding(model: Tree2SeqModel, left: bool) -> None:
    found, extra = word_log_probs(model, make_batch(SOURCES, TARGETS, TREES, left))
    for row, (source, target, tree) in enumerate(zip(SOURCES, TARGETS, TREES)):
        alone, expected = word_log_probs(model, make_batch([source], [target], [tree]))
        torch.testing.assert_close(found[row, : len(target)], alone[0], **EXACT)
        columns = pad(SOURCES, left)[row].ne(PAD)
        shown = extra["attn"][0][row, : len(target)]
        torch.testing.assert_close(shown[:, columns], expected["attn"][0][0], **EXACT)
        assert shown[:, ~columns].eq(0).all()
        sums = extra["constituents"][0][row, : len(target)].sum(dim=1)
        torch.testing.assert_close(sums, torch.ones_like(sums), **EXACT)


def test_reversed_sources_keep_their_end_and_their_padding() -> None:
    words = torch.tensor([[5, 6, 7, EOS], [8, EOS, PAD, PAD], [EOS, PAD, PAD, PAD]])
    expected = [[7, 6, 5, EOS], [8, EOS, PAD, PAD], [EOS, PAD, PAD, PAD]]
    assert reverse_words(words, words.eq(PAD)).tolist() == expected
    left = words.roll(1, dims=1)[1:2].roll(1, dims=1)
    assert left.tolist() == [[PAD, PAD, 8, EOS]]
    assert torch.equal(reverse_words(left, left.eq(PAD)), left)


# -- configuration --


def test_a_task_without_trees_is_refused() -> None:
    task = SimpleNamespace(source_dictionary=make_dictionary(5), target_dictionary=make_dictionary(5))
    with pytest.raises(InputError, match="give --task rnnsearch --tree-lang SUFFIX, or --arch anmt"):
        Tree2SeqModel.build_model(OmegaConf.create({}), task)


@pytest.mark.parametrize("kind", ["phrases", "phrases-only"])
@pytest.mark.parametrize(
    "trees",
    [[None] * 5, [[0]] * 5, [[[0, 1], [2, 3]], None, [0], [0, 1], None]],
    ids=["no tree at all", "one-leaf trees", "some of each"],
)
@pytest.mark.parametrize("left", [False, True], ids=["right-padded", "left-padded"])
def test_whatever_trees_a_batch_has_it_trains(kind: str, trees: list[Tree], left: bool) -> None:
    model = make_model(**KINDS[kind])
    sources = [[5, 9, 7, 4, EOS], [8, EOS], [6, EOS], [11, 5, EOS], [EOS]]
    log_probs, _ = word_log_probs(model, make_batch(sources, TARGETS, trees, left))
    log_probs.sum().backward()
    assert log_probs.isfinite().all()
    composes = any(tree is not None and len(tree) == 2 for tree in trees)
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert gradient is None or gradient.isfinite().all(), name
        moves = gradient is not None and gradient.abs().sum() > 0
        assert moves == (composes or "tree_lstm" not in name), name
