"""Converted GroundHog models give the probabilities of the original, in fairseq's own commands, and go on training."""

import contextlib
import importlib
import io
import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import fairseq.distributed.utils
import numpy as np
import pytest
import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from hypothesis import given, settings
from hypothesis import strategies as st

import rnnsearch_fairseq
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.groundhog.convert import convert, main, make_dictionary
from rnnsearch_fairseq.groundhog.files import check_word
from rnnsearch_fairseq.models.rnnsearch import RNNsearchModel
from tests.builders import make_sample
from tests.groundhog.builders import SOURCE, TANH, TARGET, UNITS, WIDTH, Original, make_original
from tests.reference import groundhog
from tests.reference.recorded import RECORDED, needs_recorded, recorded

# Hydra and fairseq warn of each other's age.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

PAIRS = [
    ([3, 4, 1, 5, 12], [2, 3, 4, 10]),
    ([12], [1, 9, 1, 8, 7, 7, 10]),
    ([2, 11, 12], [10]),
    ([6, 7, 8, 12], [5, 6, 0, 10]),
]


def load(out: Path) -> tuple[Any, RNNsearchModel]:
    """The converted model as fairseq loads it: its hub interface, and the network."""
    hub = RNNsearchModel.from_pretrained(str(out), "checkpoint.pt", tokenizer=None)
    return hub, hub.models[0]


def renumber(ids: list[int], words: dict[str, int], end: int, dictionary: Dictionary) -> list[int]:
    """fairseq's ids for the original's, by the words that they stand for."""
    numbers = {number: dictionary.index(word) for word, number in words.items()}
    return [(numbers | {0: dictionary.bos(), 1: dictionary.unk(), end: dictionary.eos()})[number] for number in ids]


def score(
    model: RNNsearchModel, pairs: list[tuple[list[int], list[int]]], left: bool = False
) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """log p of each word, and alignments, of fairseq's ids, all pairs in one batch."""
    sample = make_sample([x for x, _ in pairs], [y for _, y in pairs], left)
    with torch.no_grad():
        logits, extra = model(**sample["net_input"])
        chosen = logits.log_softmax(-1).gather(-1, sample["target"].unsqueeze(-1)).squeeze(-1)
    results = []
    longest = max(len(x) for x, _ in pairs)
    for row, (x, y) in enumerate(pairs):
        first = longest - len(x) if left else 0
        alignment = extra["attn"][0]
        aligned = None if alignment is None else alignment[row, : len(y), first : first + len(x)].numpy()
        results.append((chosen[row, : len(y)].numpy(), aligned))
    return results


def batches(pairs: list[Any]) -> list[tuple[list[Any], bool]]:
    """All together, padded right and left, and each alone."""
    return [(pairs, False), (pairs, True), *(([pair], False) for pair in pairs)]


# The original's own models and numbers


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """The converted model of a kind (search, encdec) from files of a format (pkl, json)."""
    made: dict[tuple[str, str], Path] = {}

    def get(kind: str, form: str) -> Path:
        if (kind, form) not in made:
            out = made[kind, form] = tmp_path_factory.mktemp(f"{kind}_{form}")
            vocabularies = (RECORDED / f"vocab.en.{form}", RECORDED / f"vocab.fr.{form}")
            convert(RECORDED / f"{kind}_model.npz", RECORDED / f"{kind}_state.{form}", vocabularies, ("en", "fr"), out)
        return made[kind, form]

    return get


@needs_recorded
@pytest.mark.parametrize(("kind", "scores"), [("search", "search_scores_50"), ("encdec", "encdec_scores_first25")])
def test_the_originals_scores_and_alignments(real: Callable[[str, str], Path], kind: str, scores: str) -> None:
    hub, model = load(real(kind, "pkl"))
    dictionaries = (hub.task.source_dictionary, hub.task.target_dictionary)
    expected = recorded(f"{scores}.json")
    pairs = []
    for pair in recorded("pairs_50.json"):
        encoded = [d.encode_line(pair[side], add_if_not_exist=False) for d, side in zip(dictionaries, ("src", "trg"))]
        pairs.append(tuple(line.tolist() for line in encoded))
        # Words from 4 instead of 2, and end-of-sentence and unknown words before them.
        assert pairs[-1] == tuple([{5000: 2, 1: 3}.get(i, i + 2) for i in pair[side]] for side in ("x", "y"))
    for batch, left in batches(pairs):
        first = pairs.index(batch[0])
        for (words, alignment), record in zip(score(model, batch, left), expected[first:]):
            assert words.sum() == pytest.approx(record["logprob"], abs=1e-4)
            np.testing.assert_allclose(words, record["word_logprobs"], atol=1e-4)
            if kind == "search":
                np.testing.assert_allclose(alignment, record["alignment"], atol=1e-6)
            else:
                assert alignment is None


@needs_recorded
@pytest.mark.parametrize("kind", ["search", "encdec"])
def test_pickles_of_python_2_and_json_give_the_same(real: Callable[[str, str], Path], kind: str) -> None:
    one, other = (torch.load(real(kind, form) / "checkpoint.pt", weights_only=True) for form in ("pkl", "json"))
    assert one["cfg"] == other["cfg"]
    assert one["model"].keys() == other["model"].keys()
    assert all(torch.equal(one["model"][name], other["model"][name]) for name in one["model"])
    for language in ("en", "fr"):
        texts = [(real(kind, form) / f"dict.{language}.txt").read_bytes() for form in ("pkl", "json")]
        assert texts[0] == texts[1]
        assert len(texts[0].splitlines()) == 4998


@needs_recorded
def test_translations_of_the_original(real: Callable[[str, str], Path]) -> None:
    hub, _ = load(real("search", "json"))
    expected = recorded("search_translations_20.json")
    found = hub.translate(expected["source"][:4], beam=expected["beam"], search="groundhog", unnormalized=True)
    assert [text.replace("<unk>", "UNK") for text in found] == expected["raw"][:4]


# A tiny model, against the transcription of the original in float64


@pytest.mark.parametrize("encdec", [False, True])
def test_tiny_models_score_as_the_transcription_does(tmp_path: Path, encdec: bool) -> None:
    original = make_original(encdec)
    hub, model = load(original.convert(tmp_path))
    model.double()
    for batch, left in batches(PAIRS):
        ids = [
            (
                renumber(x, original.source, SOURCE - 1, hub.task.source_dictionary),
                renumber(y, original.target, TARGET - 1, hub.task.target_dictionary),
            )
            for x, y in batch
        ]
        for (words, alignment), (x, y) in zip(score(model, ids, left), batch):
            expected, aligned = groundhog.score(groundhog.in_float64(original.arrays), x, y)
            np.testing.assert_allclose(words, expected, atol=1e-9)
            if aligned is None:
                assert alignment is None
            else:
                np.testing.assert_allclose(alignment, aligned, atol=1e-9)


def test_special_ids_are_read_from_the_state(tmp_path: Path) -> None:
    original = make_original()
    original.state |= {"null_sym_source": 3, "unk_sym_source": 12, "null_sym_target": 10, "unk_sym_target": 4}
    numbers = [number for number in range(1, 12) if number != 3]
    original.source = {"OOV": 12} | {f"s{number}": number for number in numbers}
    original.target = {f"t{number}": number for number in range(1, 10) if number != 4}
    hub, model = load(original.convert(tmp_path))
    assert hub.task.source_dictionary.symbols[4:] == [f"s{number}" for number in numbers]
    x, y = [1, 12, 5, 3], [1, 4, 9, 10]
    expected, _ = groundhog.score(groundhog.in_float64(original.arrays), x, y)
    ids = (
        hub.task.source_dictionary.encode_line("s1 new s5", add_if_not_exist=False).tolist(),
        hub.task.target_dictionary.encode_line("t1 new t9", add_if_not_exist=False).tolist(),
    )
    np.testing.assert_allclose(score(model.double(), [ids])[0][0], expected, atol=1e-9)


def test_padding_is_new_and_has_no_probability(tmp_path: Path) -> None:
    _, model = load(make_original().convert(tmp_path))
    for name, parameter in model.state_dict().items():
        if name.endswith(("embedding.table.weight", "to_vocabulary.weight")):
            assert parameter[1].eq(0).all()
            assert parameter[[0, 2, 3, 4]].ne(0).any(dim=1).all()
    bias = model.decoder.network.readout.to_vocabulary.bias
    assert bias[1] == -100
    # Beside an improbable word, e^-100 is lost in rounding.
    assert torch.tensor([-10.0, -100.0]).logsumexp(0) == -10


@pytest.mark.parametrize("kind", ["<f8", ">f4", "<f2"])
def test_other_floating_point_types_are_converted(tmp_path: Path, kind: str) -> None:
    original = make_original()
    if kind == "<f2":
        original.arrays = {name: array.astype(kind).astype(np.float32) for name, array in original.arrays.items()}
    same = original.convert(tmp_path / "float32")
    original.arrays = {name: array.astype(kind) for name, array in original.arrays.items()}
    out = original.convert(tmp_path / "other")
    one, other = (torch.load(folder / "checkpoint.pt", weights_only=True)["model"] for folder in (same, out))
    assert all(other[name].dtype == torch.float32 and torch.equal(one[name], other[name]) for name in one)


# The configuration, and the command


@pytest.mark.parametrize("encdec", [False, True])
def test_the_checkpoint_describes_the_model_and_the_papers_training(tmp_path: Path, encdec: bool) -> None:
    original = make_original(encdec)
    pool, alignment = 3, 7
    original.state |= {"maxout_part": 3.0, "unary_activ": "Maxout(3)"}
    original.arrays["W1_dec_deep_softmax"] = np.ones((UNITS // pool, WIDTH))
    if not encdec:
        for name, shape in {"A": (2 * UNITS, alignment), "B": (UNITS, alignment), "D": (alignment, 1)}.items():
            original.arrays[f"{name}_dec_transition_0"] = np.ones(shape)
    out = original.convert(tmp_path)
    cfg = torch.load(out / "checkpoint.pt", weights_only=True)["cfg"]
    sizes = {"embedding_size": WIDTH, "hidden_size": UNITS, "maxout_size": 2, "maxout_pool": 3, "output_rank": WIDTH}
    options = {"update_word": "current", "readout_state": "previous", "context": "last" if encdec else "attention"}
    name = "groundhog_encdec" if encdec else "groundhog_search"
    assert cfg["model"].items() >= ({"_name": name} | sizes | options).items()
    assert encdec or cfg["model"]["alignment_size"] == alignment
    assert cfg["task"].items() >= {"_name": "translation", "source_lang": "en", "target_lang": "fr"}.items()
    assert (cfg["criterion"]["_name"], cfg["optimizer"]["_name"]) == ("summed_nll", "adadelta")
    assert cfg["optimization"].items() >= {"lr": [1.0], "clip_norm": 1.0}.items()
    assert cfg["optimizer"].items() >= {"lr": [1.0], "adadelta_rho": 0.95, "adadelta_eps": 1e-6}.items()
    assert cfg["dataset"]["batch_size"] == 80
    load(out)


def run_main(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> None:
    monkeypatch.setattr(sys, "argv", ["groundhog", *map(str, words)])
    main()


@pytest.mark.parametrize(
    ("names", "words", "languages"),
    [
        (("vocab.de.json", "vocab.zh-cn.json"), [], ("de", "zh-cn")),
        (("vocab.de.json", "vocab.fr.json"), ["-s", "deu", "--target-lang", "fra"], ("deu", "fra")),
        (("vocab.de.json", "vocab.fr.json"), ["-t", "fra"], ("de", "fra")),
        (("source.json", "vocab.fr.json"), [], ("src", "trg")),
        (("vocab.de.json", "old.vocab.fr.json"), [], ("src", "trg")),
    ],
)
def test_languages(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    names: tuple[str, str],
    words: list[str],
    languages: tuple[str, str],
) -> None:
    original = make_original()
    original.names[2:] = names
    run_main(monkeypatch, *original.save(tmp_path), tmp_path / "a b" / "out", *words)
    assert f"languages: {languages[0]} to {languages[1]};" in capsys.readouterr().out
    written = sorted(path.name for path in (tmp_path / "a b" / "out").iterdir())
    assert written == sorted(["checkpoint.pt", *(f"dict.{language}.txt" for language in languages)])


def test_vocabularies_of_one_language_are_src_and_trg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = make_original()
    paths = original.save(tmp_path)
    other = tmp_path / "other" / "vocab.en.json"
    other.parent.mkdir()
    paths[3] = paths[3].rename(other)
    run_main(monkeypatch, *paths, tmp_path / "out")
    assert (tmp_path / "out" / "dict.src.txt").exists()
    assert (tmp_path / "out" / "dict.trg.txt").exists()


@pytest.mark.parametrize("words", [["-s", "fr"], ["-t", "a/b"], ["-s", "a b"]])
def test_bad_languages_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    with pytest.raises(InputError, match="language"):
        run_main(monkeypatch, *make_original().save(tmp_path), tmp_path / "out", *words)
    assert not (tmp_path / "out").exists()


def test_an_earlier_conversion_is_replaced_as_a_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = make_original()
    out = original.convert(tmp_path)
    names = {"checkpoint.pt", "dict.en.txt", "dict.fr.txt"}
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert before.keys() == names
    original.arrays["b_dec_deep_softmax"] += 1
    original.source = {word.replace("s2", "new"): number for word, number in original.source.items()}

    def fail(checkpoint: dict[str, Any], file: BinaryIO) -> None:
        file.write(b"half a checkpoi")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", fail)
        with pytest.raises(InputError, match=r"out: cannot be written \(No space left on device\)"):
            original.convert(tmp_path)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    original.convert(tmp_path)
    after = {path.name: path.read_bytes() for path in out.iterdir()}
    assert after.keys() == names
    assert [name for name in names if after[name] == before[name]] == ["dict.fr.txt"]


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match=r"out.*: cannot be written"):
        make_original().convert(tmp_path)


# Dictionaries


def reload(dictionary: Dictionary, path: Path) -> Dictionary:
    dictionary.save(str(path))
    return Dictionary.load(str(path))


words = st.text(st.characters(exclude_categories=("Z", "C")), min_size=1)
symbols = st.sampled_from(["<s>", "<pad>", "</s>", "<unk>", "#fairseq:overwrite", "1", "\x00", "\ufeff", "\u200b"])


@settings(max_examples=50, deadline=None)
@given(st.lists(words | symbols, unique=True))
def test_dictionaries_keep_their_numbers(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    for word in words:
        check_word(Path("vocab.pkl"), word)
    made = make_dictionary(words)
    loaded = reload(made, tmp_path_factory.getbasetemp() / "dict.txt")
    for dictionary in (made, loaded):
        assert dictionary.symbols == ["<s>", "<pad>", "</s>", "<unk>", *words]
        encoded = dictionary.encode_line(" ".join(words), add_if_not_exist=False).tolist()
        assert encoded == [*range(4, 4 + len(words)), 2]
        assert (dictionary.bos(), dictionary.pad(), dictionary.eos(), dictionary.unk()) == (0, 1, 2, 3)
        assert dictionary.string(torch.tensor(encoded)) == " ".join(words)


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=3), st.sampled_from(list(" \t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0\u2003\u2028\u2029\u3000")))
def test_words_with_white_space_are_refused(word: str, space: str) -> None:
    for bad in (space, word + space, space + word, word + space + word):
        with pytest.raises(InputError, match=r"vocab\.pkl: the word .* (holds a space|is not UTF-8)"):
            check_word(Path("vocab.pkl"), bad)


def test_words_spelt_like_symbols_stay_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original = make_original()
    names = {2: "<unk>", 3: "<pad>", 4: "</s>", 5: "<s>", 6: "UNK"}
    original.source = {f"s{number}": number for number in range(2, 12) if number not in names}
    original.source |= {word: number for number, word in names.items()}
    hub, model = load(original.convert(tmp_path))
    assert "a word spelt like a symbol of fairseq: copy it" in capsys.readouterr().out
    encoded = hub.task.source_dictionary.encode_line("<unk> <pad> </s> <s> UNK new", add_if_not_exist=False).tolist()
    assert encoded == [4, 5, 6, 7, 8, 3, 2]
    expected, _ = groundhog.score(groundhog.in_float64(original.arrays), [2, 3, 4, 5, 6, 1, 12], [2, 3, 10])
    np.testing.assert_allclose(score(model.double(), [(encoded, [4, 5, 2])])[0][0], expected, atol=1e-9)


# The commands that are printed


def printed(output: str, command: str) -> list[str]:
    (line,) = re.findall(rf"^  ({command} .*)$", output, re.MULTILINE)
    return shlex.split(line)


def test_the_printed_command_translates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = make_original().convert(tmp_path / "a model")
    text = tmp_path / "text"
    text.write_text("s2 s3 new\ns11\n", encoding="utf-8")
    words = printed(capsys.readouterr().out, "fairseq-interactive")
    monkeypatch.setattr(sys, "argv", [*words, "--cpu", "--input", str(text)])
    interactive = importlib.import_module("fairseq_cli.interactive")
    rnnsearch_fairseq.register()  # patches the command, too
    interactive.cli_main()
    translations = re.findall(r"^H-\d\t\S+\t(.*)$", capsys.readouterr().out, re.MULTILINE)
    hub, _ = load(out)
    assert translations == hub.translate(["s2 s3 new", "s11"], beam=10, search="groundhog", unnormalized=True)
    assert len(translations) == 2
    assert all(translations)


@pytest.fixture(scope="module")
def trainable(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, float]:
    """A converted model with text to train it on: the folder of both, what was printed, and the cost, bits a word."""
    folder = tmp_path_factory.mktemp("trainable")
    original = make_original()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as output:
        patch.chdir(folder)
        original.convert(Path())
    (folder / "text").mkdir()
    text: dict[str, list[str]] = {"en": [], "fr": []}
    for pair in PAIRS:
        for language, ids, vocabulary in zip(text, pair, (original.source, original.target)):
            spelt = {number: word for word, number in vocabulary.items()}
            text[language].append(" ".join(spelt[number] for number in ids[:-1] if number))
    for language, lines in text.items():
        for part in ("train", "valid"):
            (folder / "text" / f"{part}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    params = groundhog.in_float64(original.arrays)
    scored = [groundhog.score(params, x, [i for i in y if i])[0] for x, y in PAIRS]
    return folder, output.getvalue(), -float(np.concatenate(scored).mean()) / np.log(2)


@pytest.fixture(scope="module")
def binary(trainable: tuple[Path, str, float]) -> Path:
    """What the printed fairseq-preprocess makes of the text."""
    folder, output, _ = trainable
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        preprocess = importlib.import_module("fairseq_cli.preprocess")
        preprocess.main(options.get_preprocessing_parser().parse_args(printed(output, "fairseq-preprocess")[1:]))
    return folder / "bin"


RESETS = ["--reset-optimizer", "--reset-dataloader", "--reset-meters", "--reset-lr-scheduler"]
ADAM = shlex.split("--optimizer adam --lr 0.001 --criterion smoothed_nll --label-smoothing 0.1")


def train(folder: Path, caplog: pytest.LogCaptureFixture, words: list[str]) -> dict[str, float]:
    """Run fairseq-train for one update of all pairs in this process; what it logs of that."""
    once = "--cpu --num-workers 0 --batch-size 8 --log-format json --log-interval 1 --max-update 1"
    words = [*words, *shlex.split(once)]
    with pytest.MonkeyPatch.context() as patch, caplog.at_level("INFO"):
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["fairseq-train", *words])
        args = options.parse_args_and_arch(options.get_training_parser(), words)
        module = importlib.import_module("fairseq_cli.train")
        fairseq.distributed.utils.call_main(convert_namespace_to_omegaconf(args), module.main)
    (log,) = [json.loads(r.message) for r in caplog.records if r.message.startswith("{") and "train_loss" in r.message]
    return {name: float(value) for name, value in log.items()}


@pytest.mark.train
@pytest.mark.parametrize(
    ("start", "continues"),
    [
        (["--finetune-from-model"], True),
        (["--restore-file"], True),
        ([*RESETS, "--restore-file"], True),
        ([*ADAM, "--restore-file"], True),
        (["--task", "pooled_translation", "--max-words", "50", "--restore-file"], True),
        ([], False),
    ],
    ids=["finetune", "restore", "resets", "other recipe", "pooled", "fresh"],
)
def test_training_goes_on_from_the_converted_model(
    trainable: tuple[Path, str, float],
    binary: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    start: list[str],
    continues: bool,
) -> None:
    folder, output, bits = trainable
    words = printed(output, "fairseq-train")[1:]
    assert words[-2:] == ["--finetune-from-model", "out/checkpoint.pt"]
    words = [*words[:-2], *start, *(words[-1:] if continues else []), "--save-dir", str(tmp_path)]
    log = train(folder, caplog, words)
    first = log["train_nll_loss" if "--label-smoothing" in start else "train_loss"]
    assert log["train_num_updates"] == 1
    assert (first == pytest.approx(bits, abs=2e-3)) == continues
    trained = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    converted = torch.load(folder / "out" / "checkpoint.pt", weights_only=True)
    # What fairseq's trainer writes, but for the state of an optimizer.
    assert trained.keys() - converted.keys() == {"last_optimizer_state"}
    assert trained["cfg"].keys() == converted["cfg"].keys()
    assert trained["model"].keys() == converted["model"].keys()
    for name, parameter in trained["model"].items():
        assert parameter.isfinite().all()
        assert not torch.equal(parameter, converted["model"][name]), name
        if name.endswith("embedding.table.weight"):
            assert parameter[1].eq(0).all()


# Bad input


def assert_refused(original: Original, folder: Path, message: str) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        original.convert(folder)
    assert re.fullmatch(r"[^\n;]+; [^\n;]+[^.]", str(refusal.value)), "one sentence: what; cure"
    assert not (folder / "out").exists()


MISSING = object()


@pytest.mark.parametrize(
    ("encdec", "changes", "message"),
    [
        (False, {"dim": MISSING}, "dim is missing"),
        (False, {"null_sym_target": MISSING}, "null_sym_target is missing"),
        (False, {"rec_gating": MISSING}, "rec_gating is missing"),
        (False, {"enc_rec_layer": "LSTMLayer"}, "enc_rec_layer is 'LSTMLayer', and only 'RecurrentLayer' can be conv"),
        (
            False,
            {"rec_layer": "DoubleRecurrentLayer"},
            "rec_layer is 'DoubleRecurrentLayer', and only 'RecurrentLayer'",
        ),
        (True, {"enc_rec_layer": "RecursiveConvolutionalLayer"}, "enc_rec_layer is 'RecursiveConvolutionalLayer'"),
        (False, {"dec_rec_layer": "RecurrentLayer"}, "dec_rec_layer is .*, and only 'RecurrentLayerWithSearch'"),
        (True, {"dec_rec_layer": "RecurrentLayerWithSearch"}, "dec_rec_layer is .*, and only 'RecurrentLayer'"),
        *((False, {f"{p}rec_gating": False}, f"{p}rec_gating is False, and only True") for p in ("", "enc_", "dec_")),
        *((True, {f"{p}rec_reseting": False}, f"{p}rec_reseting is False") for p in ("enc_", "dec_")),
        (False, {"enc_rec_gater": TANH}, "enc_rec_gater is 'lambda x: TT.tanh"),
        (False, {"dec_rec_reseter": TANH}, "dec_rec_reseter is 'lambda x: TT.tanh"),
        (False, {"activ": "lambda x: x"}, "activ is 'lambda x: x', and only 'lambda x: TT.tanh"),
        (False, {"dec_activ": "lambda x: x"}, "dec_activ is 'lambda x: x', and only 'lambda x: TT.tanh"),
        (False, {"rank_n_activ": TANH}, "rank_n_activ is"),
        (False, {"unary_activ": TANH}, r"unary_activ is .*, and only 'Maxout\(2\)'"),
        (False, {"maxout_part": 3}, r"unary_activ is 'Maxout\(2\)', and only 'Maxout\(3\)'"),
        (False, {"maxout_part": 4, "unary_activ": "Maxout(4)"}, "dim 6 does not divide into pools of maxout_part 4"),
        *((False, {key: 2}, f"{key} is 2, and only 1 ") for key in ("encoder_stack", "decoder_stack")),
        *((False, {key: 4.0}, rf"{key} is 4\.0, and only 1 ") for key in ("dim_mult", "hid_mult")),
        *((False, {key: 0.5}, rf"{key} is 0\.5, and only 1 ") for key in ("dropout", "dropout_rec")),
        *(
            (encdec, {key: False}, f"{key} is False, and only True")
            for key in ("bias_code", "decoding_inputs", "bigram", "check_first_word", "deep_out")
            for encdec in (False, True)
        ),
        *((False, {key: False}, f"{key} is False") for key in ("forward", "backward")),
        *((False, {key: True}, f"{key} is True, and only False") for key in ("last_forward", "last_backward")),
        *((True, {key: True}, f"{key} is True") for key in ("forward", "backward", "last_backward")),
        (True, {"last_forward": False}, "last_forward is False, and only True"),
        (False, {"search": "yes"}, "search is 'yes', and only True or False"),
        (False, {"search": False}, "is (True|False), and only"),
        (False, {"c_dim": 6}, "c_dim is 6, and only 12 can be converted"),
        (False, {"dim": 6.5}, r"dim is 6\.5, but it must be a whole number"),
        (False, {"dim": 0}, "dim is 0, but"),
        (False, {"dim": True}, "dim is True, but"),
        (False, {"dim": "1000"}, "dim is '1000', but"),
        (False, {"rank_n_approx": 0}, "rank_n_approx is 0, but"),
        (False, {"n_sym_source": None}, "n_sym_source is None, but"),
        (False, {"n_sym_source": float("nan")}, "n_sym_source is nan, but"),
        (False, {"n_sym_source": float("inf")}, "n_sym_source is inf, but"),
        (
            False,
            {"null_sym_source": 13},
            "null_sym_source 13 and unk_sym_source 1 must be two ids below n_sym_source 13",
        ),
        (False, {"unk_sym_target": 10}, "null_sym_target 10 and unk_sym_target 10 must be two ids"),
        (False, {"unk_sym_target": 0}, "unk_sym_target is 0, but"),
        (False, {"null_sym_target": -1}, "null_sym_target is -1, but"),
    ],
)
def test_states_of_other_models_are_refused(
    tmp_path: Path, encdec: bool, changes: dict[str, Any], message: str
) -> None:
    original = make_original(encdec)
    original.state |= changes
    original.state = {key: value for key, value in original.state.items() if value is not MISSING}
    assert_refused(original, tmp_path, rf"state\.json: .*{message}")


def test_a_setting_of_one_layer_comes_before_that_of_all(tmp_path: Path) -> None:
    original = make_original(encdec=True)
    original.state |= {
        "rec_layer": "LSTMLayer",
        "rec_gating": False,
    }  # those of the backward encoder, which is not used
    original.convert(tmp_path)
    for key in ("enc_rec_layer", "dec_rec_layer"):
        other = make_original(encdec=True)
        other.state["rec_layer"] = "LSTMLayer"
        del other.state[key]
        assert_refused(other, tmp_path / key, "rec_layer is 'LSTMLayer'")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"s5": MISSING}, "it has 9 words and the model 10"),
        ({"more": 13}, "'more' has id 13, which is not the id of a word"),
        ({"s5": -1}, "'s5' has id -1, which is not the id of a word"),
        ({"s5": 12}, "'s5' has id 12, which is not the id of a word"),
        ({"s5": 0}, "'s5' has id 0, which is not the id of a word"),
        ({"s5": 6}, "'s(5|6)' and 's(5|6)' both have id 6"),
        ({"s5": "5"}, "'s5': '5' does not give a word its number"),
        ({"s5": 5.0}, r"'s5': 5\.0 does not give"),
        ({"s5": True}, "'s5': True does not give"),
        ({"s5": None}, "'s5': None does not give"),
        ({"s5": [5]}, r"'s5': \[5\] does not give"),
        ({"s5": MISSING, "": 5}, "the word '' is empty or holds a space"),
        ({"s5": MISSING, "a b": 5}, "the word 'a b' is empty or holds a space"),
        ({"s5": MISSING, "a\nb": 5}, r"the word 'a\\nb' is"),
        ({"s5": MISSING, "10\xa0000": 5}, r"the word '10\\xa0000' is"),
        ({"s5": MISSING, "\ud800": 5}, r"the word '\\ud800' is not UTF-8"),
    ],
)
def test_vocabularies_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    original = make_original()
    original.source |= changes
    original.source = {word: number for word, number in original.source.items() if number is not MISSING}
    assert_refused(original, tmp_path, rf"vocab\.en\.json: {message}")


def test_the_vocabulary_that_does_not_fit_is_named(tmp_path: Path) -> None:
    original = make_original()
    original.source, original.target = original.target, original.source
    assert_refused(original, tmp_path, r"vocab\.(en|fr)\.json: ")
    original = make_original()
    del original.target["été5"]
    assert_refused(original, tmp_path, r"vocab\.fr\.json: it has 7 words and the model 8")


def test_words_of_python_2_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    original = make_original()
    del original.source["s5"]
    paths = original.save(tmp_path)
    items = b"".join(b"U" + bytes([len(w)]) + w.encode() + b"K" + bytes([i]) for w, i in original.source.items())
    pickled = tmp_path / "vocab.en.pkl"
    pickled.write_bytes(b"\x80\x02}(" + items + b"U\x04caf\xe9K\x05u.")
    with pytest.raises(InputError, match=r"vocab\.en\.pkl: the word 'caf\\udce9' is not UTF-8"):
        convert(paths[0], paths[1], (pickled, paths[3]), ("en", "fr"), tmp_path / "out")
    pickled.write_bytes(b"\x80\x02}(" + items + b"U\x05caf\xc3\xa9K\x05u.")
    convert(paths[0], paths[1], (pickled, paths[3]), ("en", "fr"), tmp_path / "out")
    assert (tmp_path / "out" / "dict.en.txt").read_text(encoding="utf-8").splitlines()[3] == "café 1"


def set_array(name: str, change: Callable[[np.ndarray], Any]) -> Callable[[dict[str, np.ndarray]], None]:
    def apply(arrays: dict[str, np.ndarray]) -> None:
        arrays[name] = change(arrays[name])

    return apply


def with_value(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array = array.astype(np.float64)
        array.flat[-1] = value
        return array

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.pop("G_back_enc_transition_0"), "the array G_back_enc_transition_0 is missing"),
        (lambda a: a.pop("D_dec_transition_0"), "the array D_dec_transition_0 is missing"),
        (lambda a: a.update(extra=np.ones(1)), "the array extra does not belong to the model"),
        (
            set_array("W_0_dec_repr_readout", lambda a: a[1:]),
            r"W_0_dec_repr_readout is \(11, 6\), but by the state it should be \(12, 6\)",
        ),
        (set_array("W_0_enc_approx_embdr", lambda a: a[:-1]), r"W_0_enc_approx_embdr is \(12, 5\), but .* \(13, 5\)"),
        (set_array("W2_dec_deep_softmax", lambda a: a.T), r"W2_dec_deep_softmax is \(11, 5\), but .* \(5, 11\)"),
        (set_array("b_dec_deep_softmax", lambda a: a[None]), r"b_dec_deep_softmax is \(1, 11\), but .* \(11,\)"),
        (set_array("B_dec_transition_0", lambda a: a[0, 0]), r"[ABD]_dec_transition_0 is .*, but"),
        (set_array("A_dec_transition_0", lambda a: a[:, 1:]), r"A_dec_transition_0 is \(12, 5\), but .* \(12, 6\)"),
        (set_array("W1_dec_deep_softmax", lambda a: a[:2]), r"W1_dec_deep_softmax is \(2, 5\), but .* \(3, 5\)"),
        (
            set_array("W_enc_transition_0", lambda a: a.astype(int)),
            "W_enc_transition_0 holds int64, not floating-point",
        ),
        (set_array("W_enc_transition_0", lambda a: a + 1j), "W_enc_transition_0 holds complex"),
        (
            set_array("W_enc_transition_0", lambda a: a.astype(object)),
            r"W_enc_transition_0 cannot be read \(Object arr",
        ),
        (set_array("b_0_dec_approx_embdr", with_value(np.nan)), "b_0_dec_approx_embdr holds NaN or infinity"),
        (set_array("D_dec_transition_0", with_value(-np.inf)), "D_dec_transition_0 holds NaN or infinity"),
        (set_array("D_dec_transition_0", with_value(1e300)), "D_dec_transition_0 holds NaN or infinity"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    tmp_path: Path, change: Callable[[dict[str, np.ndarray]], Any], message: str
) -> None:
    original = make_original()
    change(original.arrays)
    assert_refused(original, tmp_path, rf"model\.npz: (the array )?{message}")


@pytest.mark.parametrize("encdec", [False, True])
def test_every_array_is_needed_and_checked(tmp_path: Path, encdec: bool) -> None:
    original = make_original(encdec)
    whole = original.arrays
    for name, array in whole.items():
        original.arrays = {other: whole[other] for other in whole if other != name}
        assert_refused(original, tmp_path, f"the array {name} is missing")
        # n' is what B says, so that A is then the one that does not fit.
        blamed = "A_dec_transition_0" if name == "B_dec_transition_0" else name
        original.arrays = whole | {name: np.concatenate([array, array], axis=-1)}
        assert_refused(original, tmp_path, rf"{blamed} is \(.*\), but by the state it should be \(")


def test_the_arrays_of_the_other_model_are_refused(tmp_path: Path) -> None:
    search, encdec = make_original(), make_original(encdec=True)
    search.arrays, encdec.arrays = encdec.arrays, search.arrays
    assert_refused(search, tmp_path / "search", "the array A_dec_transition_0 is missing")
    assert_refused(encdec, tmp_path / "encdec", "the array A_dec_transition_0 does not belong to the model")


@pytest.mark.parametrize("content", ["text", "pickle", "npy", "empty", "truncated", "member"])
def test_what_is_no_npz_is_refused(tmp_path: Path, content: str) -> None:
    original = make_original()
    model, state, *vocabularies = original.save(tmp_path)
    whole = model.read_bytes()
    if content == "text":
        model.write_text("not an npz")
    elif content == "pickle":
        model.write_bytes(b"\x80\x02}.")
    elif content == "npy":
        with model.open("wb") as file:
            np.save(file, np.ones(3))
    elif content == "empty":
        model.write_bytes(b"")
    elif content == "truncated":
        model.write_bytes(whole[: len(whole) // 2])
    else:  # one array is damaged
        middle = whole.index(b"NUMPY", whole.index(b"W_dec_transition_0"))
        model.write_bytes(whole[: middle + 150] + b"\xff\xff" + whole[middle + 152 :])
    message = "the array W_dec_transition_0 cannot be read" if content == "member" else "not an .npz of arrays"
    with pytest.raises(InputError, match=rf"model\.npz: {message}.*; give the file as"):
        convert(model, state, tuple(vocabularies), ("en", "fr"), tmp_path / "out")


@pytest.mark.parametrize("number", range(4))
def test_missing_files_are_named(tmp_path: Path, number: int) -> None:
    paths = make_original().save(tmp_path)
    paths[number].unlink()
    model, state, source, target = paths
    with pytest.raises(InputError, match=rf"{paths[number].name}: cannot be read \(No such file or directory\); check"):
        convert(model, state, (source, target), ("en", "fr"), tmp_path / "out")
