"""``rnnsearch prepare --from``: text of one's own for a training that goes on from a trained model."""

import base64
import gzip
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rnnsearch_fairseq.corpus import prepare as module
from rnnsearch_fairseq.corpus.plan import make_script, plan_adaptation
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.export import export
from rnnsearch_fairseq.inference.loading import Usage, load_members
from rnnsearch_fairseq.modules.config import RNNsearchConfig
from rnnsearch_fairseq.modules.rnnsearch import ARCHITECTURES
from rnnsearch_fairseq.text.preparation import read_preparations
from rnnsearch_fairseq.text.settings import unpack_record
from tests import trained
from tests.corpus.builders import LANGUAGES, parse, prepare, run_script, write_tsv

SENTENCES = [("The dog sleeps", "Le chien dort"), ("The black cat eats", "Le chat noir mange")]
CORPUS = [(f"{source} {number}.", f"{target} {number}.") for number in range(40) for source, target in SENTENCES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported model."""
    out = tmp_path_factory.mktemp("model")
    export(str(trained.train(out / "run", share_decoder_input_output_embed=True)), out / "model")
    return out / "model"


def test_text_is_prepared_as_the_models(tmp_path: Path, folder: Path) -> None:
    prepare(*write_tsv(tmp_path, CORPUS), tmp_path / "text", "--from", folder)
    source, target = ((tmp_path / "text" / f"train.{language}").read_text().splitlines()[0] for language in LANGUAGES)
    assert source.startswith("the ") and source.endswith(" .") and target.startswith("le ") and target.endswith(" .")
    (model,), (start,) = load_members(folder), load_members(tmp_path / "text" / "start.pt")
    assert model.text == start.text and model.config == start.config
    for name, parameter in model.network.state_dict().items():
        assert torch.equal(start.network.state_dict()[name], parameter)
    for language, vocabulary in zip(LANGUAGES, model.text.vocabularies):
        assert vocabulary.read(tmp_path / "text" / f"dict.{language}.txt") == vocabulary


def test_characters_that_the_model_does_not_know_are_masked(tmp_path: Path) -> None:
    folder = trained.train(tmp_path / "run", share_decoder_input_output_embed=True)
    state = torch.load(folder / "checkpoints/checkpoint_best.pt", weights_only=True)
    more = {"markup": True, "words": base64.b64encode(gzip.compress(b"known")).decode()}
    before = unpack_record(state["model"]["_extra_state"])["preparations"]
    trained.change_text(state, preparations=[preparation | more for preparation in before])
    torch.save(state, folder / "checkpoints/checkpoint_best.pt")
    prepare(*write_tsv(tmp_path, [(f"{s} ж", f"{t} ж") for s, t in CORPUS]), tmp_path / "text", "--from", folder)
    for line in (tmp_path / "text/train.fr").read_text().splitlines():
        assert "⟦" in line and "ж" not in line
    for preparation, own in zip(read_preparations(tmp_path / "text").values(), ("sleeps", "mange")):
        assert preparation.known_words() >= {"known", own}


@pytest.mark.parametrize(("pairs", "updates", "rate"), [(95, 60, 0.00019), (950, 200, 0.00062), (3000, 600, 0.0011)])
def test_fewer_pairs_change_a_model_less(pairs: int, updates: int, rate: float) -> None:
    plan = plan_adaptation(pairs)
    assert (plan.updates, plan.rate) == (updates, rate)


def test_the_script_builds_the_given_model(tmp_path: Path, folder: Path) -> None:
    config = RNNsearchConfig.from_values(ARCHITECTURES["rnnencdec"])
    member = replace(load_members(folder)[0], config=config, usage=Usage({"beam": 7, "lenpen": 2.0}))
    (tmp_path / "train.sh").write_text(make_script(LANGUAGES, plan_adaptation(3000), False, member))
    commands = run_script(tmp_path)
    searches = [" ".join(words) for words in commands if words[1] in ("export", "translate")]
    assert len(searches) == 3 and all("--beam 7 --lenpen 2.0" in search for search in searches)
    args = parse(commands, "fairseq-train")
    assert args.finetune_from_model == "start.pt" and args.max_update == 600 and args.lr == [0.0011]
    for name, value in vars(member.config).items():
        assert "dropout" in name or getattr(args, name, False) == value


def test_other_models_and_what_the_model_decides_are_refused(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree_model = replace(load_members(folder)[0], kind="tree2seq")
    load = {"trees": [tree_model]}.get
    monkeypatch.setattr(module, "load_members", lambda path: load(path) or load_members(path))
    for words, source, message in (
        ([folder, "--bpe", "0"], "en", "leave out"),
        ([folder, "--lowercase"], "en", "leave out"),
        ([folder, "--terms", tmp_path / "terms"], "en", "without symbols"),
        ([folder], "de", "languages are en and fr; give them"),
        (["trees"], "en", "give one RNNsearch"),
        ([f"{folder}:{folder}"], "en", "give one RNNsearch"),
    ):
        with pytest.raises(InputError, match=message):
            prepare(tmp_path, tmp_path / "text", "--from", *words, languages=(source, "fr"))
