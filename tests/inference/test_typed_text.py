"""Text as people write it: typed anywhere, it is translated as the pipeline of preparation and translation does it."""

import importlib
import logging
import random
import shutil
import sys
from pathlib import Path
from shlex import split
from typing import Any

import pytest
from fairseq.data import Dictionary
from omegaconf import DictConfig, OmegaConf
from starlette.testclient import TestClient

import rnnsearch_fairseq
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.hub import load
from rnnsearch_fairseq.inference.record import Preparation, write_record
from rnnsearch_fairseq.inference.text import TextEncoder, configure, typed_lines
from rnnsearch_fairseq.serve.server import make_app
from rnnsearch_fairseq.text.preparation import RECORD
from rnnsearch_fairseq.text.prepare import Settings, prepare
from rnnsearch_fairseq.text.subwords import learn_codes, learn_pieces
from tests.commands import PLUGIN, TINY, Output
from tests.trained import train as learn

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

PAIRS = {
    "Why does the black horse follow her?": "Pourquoi le cheval noir la suit-il ?",
    "The message of the lawyer is new.": "Le message de l'avocat est nouveau.",
    "I don't know Mr. Smith; do you?": "Je ne connais pas M. Smith ; et vous ?",
    "Paris is the capital of France.": "Paris est la capitale de la France.",
    "It's raining, isn't it?": "Il pleut, n'est-ce pas ?",
    'He said: "Come in!"': "Il a dit : « Entrez ! »",
    "My brother's dog sleeps in the garden.": "Le chien de mon frère dort dans le jardin.",
    "We have 3.5 litres of milk (fresh).": "Nous avons 3,5 litres de lait (frais).",
    "Tom & Mary live in New York.": "Tom et Mary habitent à New York.",
    "STOP! The train is coming.": "ARRÊTEZ ! Le train arrive.",
    "She reads a well-known book.": "Elle lit un livre bien connu.",
    "Where is the station?": "Où est la gare ?",
    "They're waiting for us at 10:30.": "Ils nous attendent à 10 h 30.",
    "Yes, I can see the old church.": "Oui, je vois la vieille église.",
    "Nobody answered the phone...": "Personne n'a répondu au téléphone...",
    "The children's toys are 50% cheaper.": "Les jouets des enfants coûtent 50 % de moins.",
    "Please close the door, Anna.": "Ferme la porte, Anna.",
    "On Monday we'll visit the museum.": "Lundi, nous visiterons le musée.",
    "What a beautiful day!": "Quelle belle journée !",
    "The end.": "La fin.",
}
SENTENCES = list(PAIRS)
# How the corpus is prepared; and how fairseq-generate, to which the record does not speak, writes text again.
KINDS = {
    "words": ({"lowercase": True}, "--tokenizer moses"),
    "bpe": ({"bpe": 150}, "--tokenizer moses --bpe subword_nmt --bpe-codes text/bpe.codes"),
    "sentencepiece": ({"sentencepiece": 150}, "--bpe sentencepiece --sentencepiece-model text/sentencepiece.model"),
}
LEARN = split(
    "--arch bahdanau_gru_small --criterion summed_nll --optimizer adam --lr 0.01 --batch-size 20 --max-epoch 120"
)
LEARN += split("--no-epoch-checkpoints --disable-validation --num-workers 0 --cpu")


def write_corpus(folder: Path) -> Path:
    """Raw text; the sentences in another order are the test set."""
    (folder / "raw").mkdir(parents=True)
    order = random.Random(1).sample(SENTENCES, len(SENTENCES))
    for part, sources in (("train", SENTENCES), ("valid", SENTENCES), ("test", order)):
        for language, lines in (("en", sources), ("fr", [PAIRS[line] for line in sources])):
            text = "".join(f"{line}\n" for line in lines)
            (folder / "raw" / f"{part}.{language}").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.train
@pytest.mark.parametrize("kind", KINDS)
def test_typed_text_is_translated_as_by_the_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    def call(command: str, *words: str | Path) -> str:
        """Run fairseq's command in this process; returns standard output."""
        monkeypatch.setattr(sys, "argv", [f"fairseq-{command}", *map(str, words), *PLUGIN])
        module = importlib.import_module(f"fairseq_cli.{command}")
        rnnsearch_fairseq.register()  # patches the command, too
        capsys.readouterr()
        module.cli_main()
        return capsys.readouterr().out

    options, detokenise = KINDS[kind]
    folder = write_corpus(tmp_path)
    names = {part: part for part in ("train", "valid", "test")}
    prepare(folder / "raw", names, ("en", "fr"), folder / "text", Settings(**options))
    monkeypatch.chdir(folder)
    languages = split("-s en -t fr")
    texts = [f"--{part}pref=text/{part}" for part in ("train", "valid", "test")]
    call("preprocess", *languages, *texts, "--destdir", "bin")
    call("train", "bin", "--save-dir", "checkpoints", *LEARN, *TINY)
    checkpoint = folder / "checkpoints" / "checkpoint_last.pt"
    model_words = ["bin", "--path", checkpoint, "--cpu", *languages]
    pipeline = Output(call("generate", *model_words, *split(detokenise)))
    order = (folder / "raw" / "test.en").read_text(encoding="utf-8").splitlines()
    expected = {line: pipeline.all["D"][number][0][-1] for number, line in enumerate(order)}
    assert len(set(expected.values())) > 15, "the model tells hardly any sentences apart"

    (folder / "text").rename(folder / "away")  # what is needed has travelled with the model
    (folder / "bin" / RECORD).unlink()
    lines = SENTENCES[::-1]  # in other batches than fairseq-generate's
    (folder / "typed").write_text("\n".join(lines) + "\n", encoding="utf-8")
    typed = Output(call("interactive", *model_words, *split("--buffer-size 20 --batch-size 7 --input typed")))
    assert [typed.all["D"][number][0][-1] for number in range(20)] == [expected[line] for line in lines]
    model = load(checkpoint.parent, checkpoint.name)
    assert model.translate(SENTENCES) == [expected[line] for line in SENTENCES]
    with TestClient(make_app(model), base_url="http://localhost:8000") as client:
        answer = client.post("/api/translate", json={"sentences": SENTENCES}).json()
    found = [sentence["translations"][0]["text"] for sentence in answer["sentences"]]
    assert found == [expected[line] for line in SENTENCES]


# The same without the commands


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return learn(tmp_path_factory.mktemp("learnt") / "run")


@pytest.fixture
def checkpoints(learnt: Path, tmp_path: Path) -> Path:
    """A copy of the folder of the checkpoint, beside the dictionaries."""
    shutil.copytree(learnt, tmp_path / "run")
    return tmp_path / "run" / "checkpoints"


def sections(**named: Any) -> DictConfig:
    """fairseq's sections of `fairseq-interactive`, of which these are given."""
    return OmegaConf.create({"tokenizer": None, "bpe": None, "post_process": None, **named})


def test_the_record_says_how_each_language_is_prepared(checkpoints: Path, caplog: pytest.LogCaptureFixture) -> None:
    plain = Preparation()
    write_record(checkpoints, {"en": Preparation("moses", moses_no_escape=True, lowercase=True), "fr": plain})
    model = load(checkpoints)
    lines = typed_lines(model.task, sections(), checkpoints)
    for encoder in (model.source_encoder, lines):
        assert encoder.encode("IT'S a Xyzzy.") == "it 's a xyzzy ."
    assert model.translate("The dog SLEEPS.") == "le chien dort ."  # blanks between French words, as the record says
    assert lines.decode("c&apos; est .") == "c&apos; est ."
    assert RECORD not in caplog.text


def test_the_record_beside_the_checkpoint_comes_before_the_one_beside_the_dictionaries(checkpoints: Path) -> None:
    moses = Preparation("moses")
    write_record(checkpoints.parent / "bin", {"en": moses, "fr": moses})
    assert load(checkpoints).translate("It's a cat.") == "c'est un chat."
    write_record(checkpoints, {"en": Preparation(), "fr": moses})
    assert load(checkpoints).source_encoder.encode("It's a cat.") == "It's a cat."
    assert typed_lines(load(checkpoints).task, sections(), checkpoints).encode("It's a cat.") == "It's a cat."


def test_options_of_the_command_say_otherwise(checkpoints: Path) -> None:
    write_record(checkpoints, dict.fromkeys(("en", "fr"), Preparation("moses", lowercase=True)))
    task = load(checkpoints).task
    moses = {"_name": "moses", "source_lang": "de", "target_lang": "de"}
    lines = typed_lines(task, sections(tokenizer={**moses, "moses_no_escape": True}), checkpoints)
    assert lines.encode("It's A Xyzzy.") == "it 's a Xyzzy ."
    assert lines.decode("c' est un chat .") == "c'est un chat."
    space = typed_lines(task, sections(tokenizer={"_name": "space"}), checkpoints)
    assert space.encode("It &apos;s  Xyzzy.") == "it &apos;s Xyzzy."


@pytest.mark.parametrize("file", ["bpe.codes", "sentencepiece.model"])
def test_subwords_that_the_command_has_joined_stay_joined(checkpoints: Path, file: str) -> None:
    text = checkpoints / "text"
    text.write_text("the dog sleeps .\nle chien dort .\n" * 9, encoding="utf-8")
    if file == "bpe.codes":
        (checkpoints / file).write_text(learn_codes([text], 5), encoding="utf-8")
        record, words = Preparation(bpe_codes=file), "do@@ g sl@@ eeps"
    else:
        (checkpoints / file).write_bytes(learn_pieces([text], 20))
        record, words = Preparation(sentencepiece_model=file), "▁do g ▁sl eeps"
    write_record(checkpoints, dict.fromkeys(("en", "fr"), record))
    task = load(checkpoints).task
    assert typed_lines(task, sections(), checkpoints).decode(words) == "dog sleeps"
    joined = typed_lines(task, sections(post_process=record.options(checkpoints)["bpe"]), checkpoints)
    assert joined.decode("dog sleeps") == "dog sleeps"


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings alone: which level a program logs at depends on what it imported first."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_without_a_record_it_is_said_what_is_assumed(checkpoints: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = load(checkpoints)
    (said,) = warnings_in(caplog)
    assert "the training text seems to be tokens of the Moses tokenizer, in lower case; write it with" in said
    caplog.clear()
    assert typed_lines(model.task, sections(), checkpoints).encode("It 's a XYZZY") == "it 's a XYZZY"
    (said,) = warnings_in(caplog)
    assert "lines are read as prepared text; write it with rnnsearch prepare" in said


def test_a_word_of_subwords_is_lowercased_if_only_its_lower_case_has_known_parts(tmp_path: Path) -> None:
    (tmp_path / "codes").write_text("#version: 0.2\nd o\ndo g</w>\n", encoding="utf-8")
    dictionary = Dictionary()
    for part in ("do@@", "dog", "P@@", "a@@", "t", "."):
        dictionary.add_symbol(part)
    cfg = configure({"bpe": "subword_nmt", "bpe_codes": str(tmp_path / "codes")})
    encoder = TextEncoder(cfg, "en", dictionary=dictionary)
    assert encoder.encode("DOG Dog Pat Zat pat .") == "dog dog P@@ a@@ t Z@@ a@@ t p@@ a@@ t ."


@pytest.mark.parametrize("content", ["{", '{"en": {}}', '{"en": {"bpe_codes": "../bin/dict.en.txt"}, "fr": {}}'])
def test_a_bad_record_of_a_model_is_refused_everywhere(checkpoints: Path, content: str) -> None:
    task = load(checkpoints).task
    (checkpoints / RECORD).write_text(content, encoding="utf-8")
    for read in (lambda: load(checkpoints), lambda: typed_lines(task, sections(), checkpoints)):
        with pytest.raises(InputError, match=rf"^{checkpoints}/{RECORD}: .*; .*"):
            read()
