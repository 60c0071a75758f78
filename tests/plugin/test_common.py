"""What the models of both papers share: shared matrices, word dropout, and what checkpoints hold."""

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor, nn

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.embedding import WordEmbedding
from rnnsearch_fairseq.plugin.criterions import SummedNLL
from rnnsearch_fairseq.plugin.models import RNNsearchModel, Tree2SeqModel
from rnnsearch_fairseq.text.preparation import Preparation, write_preparations
from tests.builders import EOS, PAD, UNK, make_dictionary, make_sample, randomize

SAMPLE = make_sample([[7, 5, 9, 2], [4, 2], [11, 12, 2]], [[5, 2], [9, 8, 7, 6, 2], [4, 4, 2]])
SIZES = {"embedding_size": 6, "hidden_size": 6}


def make_rnnsearch(source_words: int = 17, **options: Any) -> RNNsearchModel:
    settings = {**SIZES, "alignment_size": 4, "maxout_size": 6, **options}
    task = Namespace(source_dictionary=make_dictionary(source_words), target_dictionary=make_dictionary(17))
    return RNNsearchModel.build_model(OmegaConf.create(settings), task)


def make_anmt(source_words: int = 17, **options: Any) -> Tree2SeqModel:
    task = Namespace(source_dictionary=make_dictionary(source_words), target_dictionary=make_dictionary(17))
    return Tree2SeqModel.build_model(OmegaConf.create({**SIZES, "constituents": "words", **options}), task)


Make = Callable[..., RNNsearchModel | Tree2SeqModel]
MAKERS = [
    make_rnnsearch,
    partial(make_rnnsearch, scan="reference"),
    partial(make_rnnsearch, maxout_size=4, output_rank=6),
    make_anmt,
]
OUTPUT = {"share_decoder_input_output_embed": True}
ALL = {"share_all_embeddings": True}


def matrices(model: RNNsearchModel | Tree2SeqModel) -> list[nn.Parameter]:
    """Source embeddings, target embeddings and output matrix."""
    if isinstance(model, Tree2SeqModel):
        tables = [model.encoder.network.embedding, model.decoder.network.embedding]
    else:
        tables = [side.embedding.table for side in (model.encoder.network, model.decoder.network)]
    return [*(table.weight for table in tables), model.decoder.network.to_vocabulary.weight]


def cost(model: nn.Module, by_scores: bool) -> Tensor:
    if by_scores:
        scores, _ = model(**SAMPLE["net_input"])
        return nn.functional.cross_entropy(
            scores.flatten(0, 1), SAMPLE["target"].flatten(), ignore_index=PAD, reduction="sum"
        )
    return SummedNLL(Namespace(target_dictionary=make_dictionary(17)))(model, SAMPLE)[0]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("by_scores", [False, True])
@pytest.mark.parametrize(("options", "shared"), [(OUTPUT, [1, 2]), (ALL, [0, 1, 2]), (OUTPUT | ALL, [0, 1, 2])])
def test_a_shared_matrix_has_the_gradients_of_all_its_uses(
    make: Make, by_scores: bool, options: dict[str, bool], shared: list[int]
) -> None:
    sharing, separate = make(**options).double(), make().double()
    randomize(sharing)
    assert len({matrices(sharing)[number] for number in shared}) == 1
    assert len(set(matrices(separate))) == 3
    assert len([*separate.parameters()]) - len([*sharing.parameters()]) == len(shared) - 1
    separate.load_state_dict(sharing.state_dict())
    costs = [cost(model, by_scores) for model in (sharing, separate)]
    torch.testing.assert_close(*costs, rtol=0, atol=1e-10)
    for each in costs:
        each.backward()
    found = matrices(sharing)[1].grad
    expected = sum(matrices(separate)[number].grad for number in shared)
    # fairseq's own models, too, give a gradient to the output row of padding.
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("make", MAKERS)
def test_a_shared_matrix_begins_as_embeddings(make: Make) -> None:
    table = matrices(make(**ALL))[2]
    assert table[PAD].eq(0).all()
    assert table.std() > 0.005, "the second paper's output matrix begins with zeros"


@pytest.mark.parametrize("make", MAKERS)
def test_source_and_target_of_different_words_share_no_matrix(make: Make) -> None:
    with pytest.raises(InputError, match=r"--share-all-embeddings needs one dictionary .*--joined-dictionary"):
        make(source_words=18, **ALL)
    make(source_words=18, **OUTPUT)


@pytest.mark.parametrize("make", [make_rnnsearch, make_anmt])
def test_parameters_that_are_not_shared_are_not_loaded_into_a_shared_matrix(make: Make) -> None:
    separate = make().state_dict()
    with pytest.raises(InputError, match=r"embedding.* and .*to_vocabulary.* differ, and this model shares them"):
        make(**OUTPUT).load_state_dict(separate)
    make(**ALL).load_state_dict(make(**ALL).state_dict())


# -- word dropout --


def test_words_are_dropped_and_nothing_else() -> None:
    torch.manual_seed(1)
    embedding = WordEmbedding(17, 1, word_dropout=0.3)
    embedding.weight.data = torch.arange(17.0).unsqueeze(1)  # the embedding of a word is its id
    words = torch.tensor([[4, 5, 6, 7, 8, EOS, PAD]]).repeat(2000, 1)
    read = embedding(words).squeeze(2)
    changed = read.ne(words)
    assert read[changed].eq(UNK).all()
    assert not changed[:, 5:].any()
    # Of 2,000 words in each column; the standard deviation is 20.
    assert changed[:, :5].sum(dim=0).sub(600).abs().max() < 90
    assert words.ne(UNK).all(), "the batch itself is left alone"


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_model_reads_dropped_words_in_training_only(make: Make, side: str) -> None:
    model = make(word_dropout=0.999999)
    randomize(model)
    net_input = SAMPLE["net_input"]
    unknown = {name: tensor.clone() for name, tensor in net_input.items()}
    for name in ("src_tokens", "prev_output_tokens"):
        unknown[name][unknown[name].gt(UNK)] = UNK
    with torch.no_grad():
        plain, of_unknown, dropped = model.eval()(**net_input), model(**unknown), model.train()(**net_input)
        part = "src_tokens" if side == "source" else "prev_output_tokens"
        half = model.eval()(**{**unknown, part: net_input[part]})
    torch.testing.assert_close(dropped[0], of_unknown[0])
    assert not torch.allclose(dropped[0], plain[0])
    assert not torch.allclose(dropped[0], half[0]), f"the {side} is dropped"


# -- checkpoints --


def test_a_checkpoint_holds_its_words_and_how_its_text_was_prepared(tmp_path: Path) -> None:
    preparations = {"en": Preparation("moses", lowercase=True), "fr": Preparation(bpe="#version: 0.2\na b</w>\n")}
    write_preparations(tmp_path, preparations)
    words = make_dictionary(17)
    settings = Namespace(data=str(tmp_path / "bin"), source_lang="en", target_lang="fr")
    task = Namespace(source_dictionary=words, target_dictionary=words, cfg=settings)
    model = RNNsearchModel.build_model(OmegaConf.create(SIZES), task)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    saved = torch.load(tmp_path / "model.pt", weights_only=True)
    assert saved["_extra_state"] == {
        "languages": ["en", "fr"],
        "vocabularies": [words.symbols, words.symbols],
        "preparations": [each.to_record() for each in preparations.values()],
    }
    other = make_rnnsearch(alignment_size=1000, maxout_size=500)
    assert other.text.preparations is None
    other.load_state_dict(saved)
    assert other.text.preparations == (*preparations.values(),)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ({"source_words": 18}, r"another dictionary of source \(.*22.*21.*give the data it was trained on"),
        ({"context": "last"}, "another architecture .* in this model only.*give the --arch and model options"),
        ({"output_rank": 6}, "another architecture .* in it only.*give the --arch and model options"),
        ({"hidden_size": 8}, r"other sizes: .*\(.*8.*\) there .* here.*give the --arch and model options"),
    ],
)
def test_parameters_that_do_not_fit_are_explained(saved: dict[str, Any], message: str) -> None:
    model = make_rnnsearch()
    before = {name: tensor.clone() for name, tensor in model.named_parameters()}
    with pytest.raises(InputError, match=message):
        model.load_state_dict(make_rnnsearch(**saved).state_dict())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.named_parameters())
