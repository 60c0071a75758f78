"""The fairseq models: the second paper's against the original's numbers, batches, shared matrices, and checkpoints."""

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.dataclass.configs import EMAConfig
from fairseq.models.ema.ema import EMA
from omegaconf import OmegaConf
from torch import Tensor, nn

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.embedding import WordEmbedding
from rnnsearch_fairseq.modules.tree_encoder import reverse_words
from rnnsearch_fairseq.plugin.criterions import SummedNLL
from rnnsearch_fairseq.plugin.models import RNNsearchModel, Tree2SeqModel
from rnnsearch_fairseq.text.preparation import Preparation, write_preparations
from rnnsearch_fairseq.text.settings import unpack_record
from tests.builders import EOS, PAD, UNK, make_dictionary, make_sample, parse_training, randomize
from tests.plugin.builders import EXACT, SOURCES, TARGETS, TREES, Original, Tree, make_batch
from tests.plugin.builders import make_model as make_tree2seq
from tests.reference.recorded import needs_tree2seq

Model = RNNsearchModel | Tree2SeqModel
SAMPLE = make_sample([[7, 5, 9, 2], [4, 2], [11, 12, 2]], [[5, 2], [9, 8, 7, 6, 2], [4, 4, 2]])


def test_an_architectures_options_can_be_given() -> None:
    """Also one that repeats the paper's value."""
    cfg = parse_training("--arch", "bahdanau_gru_small", "--hidden-size", "64", "--embedding-size", "620").model
    assert (cfg.hidden_size, cfg.embedding_size, cfg.alignment_size, cfg.maxout_size) == (64, 620, 256, 256)


# -- the second paper's original --


def word_log_probs(model: Tree2SeqModel, sample: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """ln p of each target word ``(batch, tgt_len)``, zero at padding."""
    logits, extra = model(**sample["net_input"])
    chosen = torch.log_softmax(logits, dim=-1).gather(2, sample["target"].unsqueeze(2)).squeeze(2)
    return chosen.masked_fill(sample["target"].eq(PAD), 0.0), extra


@needs_tree2seq
@pytest.mark.parametrize("left", [False, True], ids=["right-padded", "left-padded"])
@pytest.mark.parametrize("records", ["dev", "train40", "dev_failed_parse"])
def test_recorded_log_probabilities_and_attention(records: str, left: bool) -> None:
    original = Original("softmax")
    sentences = original.described[records]
    sample = original.batch(sentences, left)
    log_probs, extra = word_log_probs(original.model, sample)
    width = sample["net_input"]["src_tokens"].size(1)
    for row, record in enumerate(sentences):
        np.testing.assert_allclose(log_probs[row, : len(record["tgt"])].detach(), record["logprobs"], **EXACT)
        assert log_probs[row].sum().item() == pytest.approx(record["total"], abs=1e-10)
        if "attention" in record:
            (alpha,) = extra["constituents"]
            words = [*range(width - len(record["src"]), width)] if left else [*range(len(record["src"]))]
            expected = np.array(record["attention"])
            columns = words + [width + k for k in range(expected.shape[1] - len(words))]
            shown = alpha[row, : len(record["tgt"])].detach()
            np.testing.assert_allclose(shown[:, columns], expected, **EXACT)
            assert torch.equal(extra["attn"][0][row], alpha[row][:, :width]) and extra["attn"][0].is_contiguous()


@needs_tree2seq
def test_recorded_gradients_of_the_softmax() -> None:
    original = Original("softmax")
    log_probs, _ = word_log_probs(original.model, original.batch(original.described["train40"][:4]))
    expected_loss = original.described["grad_check"]["loss"]
    np.testing.assert_allclose(-log_probs.detach().sum(dim=1), expected_loss, **EXACT)
    (-log_probs.sum()).backward()
    original.check_gradients("softmax")


# -- batches of sentences and trees --

KINDS = {
    "phrases": {},
    "reversed": {"constituents": "words", "reverse_source": True},
    "phrases-only": {"constituents": "phrases-only", "embedding_size": 6},
}


@pytest.mark.parametrize("kind", KINDS)
def test_score_depends_on_no_neighbour_and_on_no_padding(kind: str) -> None:
    model = make_tree2seq(**KINDS[kind])
    together, _ = word_log_probs(model, make_batch(SOURCES, TARGETS, TREES, left=True))
    for row, (source, target, tree) in enumerate(zip(SOURCES, TARGETS, TREES)):
        alone, _ = word_log_probs(model, make_batch([source], [target], [tree]))
        torch.testing.assert_close(together[row, : len(target)], alone[0], **EXACT)


def test_reversed_sources_keep_their_end_and_their_padding() -> None:
    words = torch.tensor([[5, 6, 7, EOS], [8, EOS, PAD, PAD], [EOS, PAD, PAD, PAD], [PAD, PAD, 8, EOS]])
    reversed_words = [[7, 6, 5, EOS], *words[1:].tolist()]
    assert reverse_words(words, words.eq(PAD)).tolist() == reversed_words


@pytest.mark.parametrize("kind", ["phrases", "phrases-only"])
@pytest.mark.parametrize(
    "trees",
    [[None] * 5, [[0]] * 5, [[[0, 1], [2, 3]], None, [0], [0, 1], None]],
    ids=["no tree at all", "one-leaf trees", "some of each"],
)
def test_whatever_trees_a_batch_has_it_trains(kind: str, trees: list[Tree]) -> None:
    model = make_tree2seq(**KINDS[kind])
    sources = [[5, 9, 7, 4, EOS], [8, EOS], [6, EOS], [11, 5, EOS], [EOS]]
    batch = make_batch(sources, TARGETS, trees, left=True)
    log_probs, _ = word_log_probs(model, batch)
    log_probs.sum().backward()
    assert log_probs.isfinite().all()
    if trees == [None] * 5:  # as in fairseq-interactive
        del batch["net_input"]["trees"]
        assert torch.equal(word_log_probs(model, batch)[0], log_probs)
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


# -- shared matrices, and what is dropped --


def make(kind: type[Model] = RNNsearchModel, source_words: int = 17, **options: Any) -> Model:
    settings = {"embedding_size": 6, "hidden_size": 6}
    settings |= {"alignment_size": 4, "maxout_size": 6} if kind is RNNsearchModel else {"constituents": "words"}
    task = Namespace(source_dictionary=make_dictionary(source_words), target_dictionary=make_dictionary(17))
    return kind.build_model(OmegaConf.create({**settings, **options}), task)


Make = Callable[..., Model]
BOTH = [make, partial(make, Tree2SeqModel)]
MAKERS = [*BOTH, partial(make, maxout_size=4, output_rank=6)]
OUTPUT = {"share_decoder_input_output_embed": True}
ALL = {"share_all_embeddings": True}


def matrices(model: Model) -> list[nn.Parameter]:
    """Source embeddings, target embeddings and output matrix."""
    tables = [side.network.embedding for side in (model.encoder, model.decoder)]
    weights = [getattr(table, "table", table).weight for table in tables]
    return [*weights, model.decoder.network.to_vocabulary.weight]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("options", "shared"), [(OUTPUT, [1, 2]), (ALL, [0, 1, 2])])
def test_a_shared_matrix_has_the_gradients_of_its_uses(make: Make, options: dict[str, bool], shared: list[int]) -> None:
    sharing, separate = make(**options).double(), make().double()
    randomize(sharing)
    assert len([*separate.parameters()]) - len([*sharing.parameters()]) == len(shared) - 1
    separate.load_state_dict(sharing.state_dict())
    criterion = SummedNLL(Namespace(target_dictionary=make_dictionary(17)))
    for model in (sharing, separate):
        criterion(model, SAMPLE)[0].backward()
    expected = sum(matrices(separate)[number].grad for number in shared)
    # fairseq's own models, too, give a gradient to the output row of padding.
    torch.testing.assert_close(matrices(sharing)[1].grad, expected, **EXACT)


@pytest.mark.parametrize("make", MAKERS)
def test_a_shared_matrix_begins_as_embeddings_and_only_of_one_dictionary(make: Make) -> None:
    table = matrices(make(**ALL))[2]
    assert table[PAD].eq(0).all()
    assert table.std() > 0.005, "the second paper's output matrix begins with zeros"
    with pytest.raises(InputError, match=r"--share-all-embeddings needs one dictionary .*--joined-dictionary"):
        make(source_words=18, **ALL)
    make(source_words=18, **OUTPUT)


def test_words_are_dropped_and_nothing_else() -> None:
    torch.manual_seed(1)
    embedding = WordEmbedding(17, 1, word_dropout=0.3)
    embedding.weight.data = torch.arange(17.0).unsqueeze(1)  # the embedding of a word is its id
    words = torch.tensor([[4, 5, 6, 7, 8, EOS, PAD]]).repeat(2000, 1)
    read = embedding(words).squeeze(2)
    changed = read.ne(words)
    assert read[changed].eq(UNK).all() and not changed[:, 5:].any()
    # Of 2,000 words in each column; the standard deviation is 20.
    assert changed[:, :5].sum(dim=0).sub(600).abs().max() < 90
    assert words.ne(UNK).all(), "the batch itself is left alone"


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("side", ["src_tokens", "prev_output_tokens"])
@torch.no_grad()
def test_a_model_reads_dropped_words_in_training_only(make: Make, side: str) -> None:
    model = make(word_dropout=0.999999)
    randomize(model)
    net_input = SAMPLE["net_input"]
    unknown = {name: tensor.masked_fill(tensor.gt(UNK), UNK) for name, tensor in net_input.items()}
    dropped = model.train()(**net_input)[0]
    torch.testing.assert_close(dropped, model.eval()(**unknown)[0])
    half = model(**{**unknown, side: net_input[side]})[0]
    assert not torch.allclose(dropped, half), "words of this side are dropped"


@pytest.mark.parametrize("rate", ["dropout", "readout_dropout"])
@torch.no_grad()
def test_dropout_acts_in_training_only(rate: str) -> None:
    randomize(model := make(**{rate: 0.4}))
    (plain := make()).load_state_dict(model.state_dict())
    expected, evaluated = (net.eval()(**SAMPLE["net_input"])[0] for net in (plain, model))
    first, second = (model.train()(**SAMPLE["net_input"])[0] for _ in range(2))
    assert torch.equal(evaluated, expected)
    assert not torch.allclose(first, expected) and not torch.allclose(first, second)


# -- checkpoints --


def test_a_checkpoint_holds_its_words_and_how_its_text_was_prepared(tmp_path: Path) -> None:
    preparations = {"en": Preparation("moses", lowercase=True), "fr": Preparation(bpe="#version: 0.2\na b</w>\n")}
    write_preparations(tmp_path, preparations)
    words = make_dictionary(17)
    settings = Namespace(data=str(tmp_path / "bin"), source_lang="en", target_lang="fr")
    task = Namespace(source_dictionary=words, target_dictionary=words, cfg=settings)
    model = RNNsearchModel.build_model(OmegaConf.create({"embedding_size": 6, "hidden_size": 6}), task)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    saved = torch.load(tmp_path / "model.pt", weights_only=True)
    assert unpack_record(saved["_extra_state"]) == {
        "languages": ["en", "fr"],
        "vocabularies": [words.symbols, words.symbols],
        "preparations": [preparation.to_record() for preparation in preparations.values()],
    }
    other = make(alignment_size=1000, maxout_size=500)
    assert other.text.preparations is None
    other.load_state_dict(saved)
    assert other.text.preparations == (*preparations.values(),)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("in_float32", [False, True])
def test_fairseq_averages_all_that_a_model_holds(in_float32: bool) -> None:
    model = make()
    average = EMA(model, EMAConfig(ema_decay=0.9, ema_fp32=in_float32))
    with torch.no_grad():
        model.encoder.network.embedding.bias.add_(1)
    average.step(model)
    assert average.model.text == model.text
    assert average.model.encoder.network.embedding.bias.mean() == pytest.approx(0.1, abs=1e-6)


@pytest.mark.parametrize(
    ("saved", "options", "message"),
    [
        ({"source_words": 18}, {}, r"another dictionary of source \(.*22.*21.*give its data"),
        ({"context": "last"}, {}, "is in this code, and not in its file.*give its --arch and model options"),
        ({"hidden_size": 8}, {}, r"\(.*8.*\) there .* here.*give its --arch and model options"),
        ({}, OUTPUT, r"embedding.* and .*to_vocabulary.* differ, and this model shares them"),
    ],
)
def test_parameters_that_do_not_fit_are_explained(saved: dict[str, Any], options: dict[str, Any], message: str) -> None:
    model = make(**options)
    before = {name: tensor.clone() for name, tensor in model.named_parameters()}
    with pytest.raises(InputError, match=message):
        model.load_state_dict(make(**saved).state_dict())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.named_parameters())


def test_a_task_without_trees_is_refused() -> None:
    with pytest.raises(InputError, match="give --task rnnsearch --tree-lang SUFFIX, or --arch anmt"):
        make(Tree2SeqModel, constituents="phrases")
