"""Converted GroundHog models give the probabilities of the original, in fairseq's own commands, and go on training."""

import io
import json
import pickle
import re
import shlex
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import rnnsearch_fairseq
from recipes.groundhog.convert import convert, main
from recipes.groundhog.files import read_arrays, read_settings
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.loading import Member, load_members
from rnnsearch_fairseq.text.vocabulary import Vocabulary
from tests.builders import make_sample
from tests.commands import run
from tests.recipes.groundhog.builders import SOURCE, TANH, TARGET, UNITS, WIDTH, Original, make_original
from tests.reference import groundhog
from tests.reference.recorded import RECORDED, needs_recorded, recorded

PAIRS = [
    ([3, 4, 1, 5, 12], [2, 3, 4, 10]),
    ([12], [1, 9, 1, 8, 7, 7, 10]),
    ([2, 11, 12], [10]),
    ([6, 7, 8, 12], [5, 6, 0, 10]),
]


def load(out: Path) -> Member:
    (member,) = load_members(out / "checkpoint.pt")
    return member


def renumber(ids: list[int], words: dict[str, int], end: int, vocabulary: Vocabulary) -> list[int]:
    """fairseq's ids for the original's, by the words that they stand for."""
    numbers = {number: vocabulary.symbols.index(word) for word, number in words.items() if word in vocabulary}
    return [(numbers | {0: 0, 1: 3, end: 2})[number] for number in ids]


def score(
    network: nn.Module, pairs: list[tuple[list[int], list[int]]], left: bool = False
) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """log p of each word, and alignments, of fairseq's ids, all pairs in one batch."""
    sample = make_sample([x for x, _ in pairs], [y for _, y in pairs], left)
    with torch.no_grad():
        scores, weights = network(sample["net_input"]["src_tokens"], sample["net_input"]["prev_output_tokens"])
        log_probs = scores.log_softmax(-1).gather(-1, sample["target"].unsqueeze(-1)).squeeze(-1)
    results = []
    longest = max(len(x) for x, _ in pairs)
    for row, (x, y) in enumerate(pairs):
        first = longest - len(x) if left else 0
        aligned = None if weights is None else weights[row, : len(y), first : first + len(x)].numpy()
        results.append((log_probs[row, : len(y)].numpy(), aligned))
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
    member = load(real(kind, "pkl"))
    expected = recorded(f"{scores}.json")
    pairs = []
    for pair in recorded("pairs_50.json"):
        lines = [
            vocabulary.encode(pair[side].split()) for vocabulary, side in zip(member.text.vocabularies, ("src", "trg"))
        ]
        pairs.append(tuple(line.tolist() for line in lines))
        # Words from 4 instead of 2, and end-of-sentence and unknown words before them.
        assert pairs[-1] == tuple([{5000: 2, 1: 3}.get(i, i + 2) for i in pair[side]] for side in ("x", "y"))
    for batch, left in batches(pairs):
        first = pairs.index(batch[0])
        for (words, alignment), record in zip(score(member.network, batch, left), expected[first:]):
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
    text = [each["model"].pop("_extra_state") for each in (one, other)]
    assert text[0] == text[1]
    assert all(torch.equal(one["model"][name], other["model"][name]) for name in one["model"] | other["model"])
    for language in ("en", "fr"):
        texts = [(real(kind, form) / f"dict.{language}.txt").read_bytes() for form in ("pkl", "json")]
        assert texts[0] == texts[1]
        assert len(texts[0].splitlines()) == 4998


@needs_recorded
def test_translations_of_the_original(real: Callable[[str, str], Path]) -> None:
    translator = rnnsearch_fairseq.load(real("search", "json") / "checkpoint.pt")
    expected = recorded("search_translations_20.json")
    texts = translator.translate(expected["source"][:4], beam=expected["beam"], search="groundhog", unnormalized=True)
    assert [text.replace("<unk>", "UNK") for text in texts] == expected["raw"][:4]


# A tiny model, against the transcription of the original in float64


@pytest.mark.parametrize("encdec", [False, True])
def test_tiny_models_score_as_the_transcription_does(tmp_path: Path, encdec: bool) -> None:
    original = make_original(encdec)
    member = load(original.convert(tmp_path))
    source, target = member.text.vocabularies
    for batch, left in batches(PAIRS):
        ids = [
            (renumber(x, original.source, SOURCE - 1, source), renumber(y, original.target, TARGET - 1, target))
            for x, y in batch
        ]
        for (words, alignment), (x, y) in zip(score(member.network.double(), ids, left), batch):
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
    member = load(original.convert(tmp_path))
    source, target = member.text.vocabularies
    assert source.symbols[4:] == [f"s{number}" for number in numbers]
    expected, _ = groundhog.score(groundhog.in_float64(original.arrays), [1, 12, 5, 3], [1, 4, 9, 10])
    ids = source.encode(["s1", "new", "s5"]).tolist(), target.encode(["t1", "new", "t9"]).tolist()
    np.testing.assert_allclose(score(member.network.double(), [ids])[0][0], expected, atol=1e-9)


def test_words_spelt_like_symbols_stay_words(tmp_path: Path) -> None:
    original = make_original()
    names = {2: "<unk>", 3: "<pad>", 4: "</s>", 5: "<s>", 6: "UNK"}
    original.source = {f"s{number}": number for number in range(2, 12) if number not in names}
    original.source |= {word: number for number, word in names.items()}
    out = original.convert(tmp_path)
    ids = load(out).text.vocabularies[0].encode(["<unk>", "<pad>", "</s>", "<s>", "UNK", "new"]).tolist()
    assert ids == [4, 5, 6, 7, 8, 3, 2]
    assert Vocabulary.read(out / "dict.en.txt").encode(["<unk>", "UNK"]).tolist() == [4, 8, 2]


def test_padding_is_new_and_has_no_probability(tmp_path: Path) -> None:
    network = load(make_original().convert(tmp_path)).network
    for name, parameter in network.named_parameters():
        if name.endswith(("embedding.table.weight", "to_vocabulary.weight")):
            assert parameter[1].eq(0).all()
            assert parameter[[0, 2, 3, 4]].ne(0).any(dim=1).all()
    # Beside an improbable word, e^-100 is lost in rounding.
    assert network.decoder.to_vocabulary.bias[1] == -100
    assert torch.tensor([-10.0, -100.0]).logsumexp(0) == -10


@pytest.mark.parametrize("kind", ["<f8", ">f4", "<f2"])
def test_other_floating_point_types_are_converted(tmp_path: Path, kind: str) -> None:
    original = make_original()
    if kind == "<f2":
        original.arrays = {name: array.astype(kind).astype(np.float32) for name, array in original.arrays.items()}
    same = load(original.convert(tmp_path / "float32")).network
    original.arrays = {name: array.astype(kind) for name, array in original.arrays.items()}
    other = load(original.convert(tmp_path / "other")).network
    assert all(torch.equal(a, b) for a, b in zip(same.parameters(), other.parameters(), strict=True))


# The configuration, and the command


@pytest.mark.parametrize("encdec", [False, True])
def test_the_checkpoint_describes_the_model(tmp_path: Path, encdec: bool) -> None:
    original = make_original(encdec)
    pool, alignment = 3, 7
    original.state |= {"maxout_part": 3.0, "unary_activ": "Maxout(3)"}
    original.arrays["W1_dec_deep_softmax"] = np.ones((UNITS // pool, WIDTH))
    if not encdec:
        for name, shape in {"A": (2 * UNITS, alignment), "B": (UNITS, alignment), "D": (alignment, 1)}.items():
            original.arrays[f"{name}_dec_transition_0"] = np.ones(shape)
    config = load(original.convert(tmp_path)).config.values()
    sizes = {"embedding_size": WIDTH, "hidden_size": UNITS, "maxout_size": 2, "maxout_pool": 3, "output_rank": WIDTH}
    order = {"update_word": "current", "readout_state": "previous", "context": "last" if encdec else "attention"}
    assert config.items() >= (sizes | order).items()
    assert encdec or config["alignment_size"] == alignment


def run_main(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> None:
    monkeypatch.setattr(sys, "argv", ["groundhog", *map(str, words)])
    main()


@pytest.mark.parametrize(
    ("names", "words", "languages"),
    [
        (("vocab.de.json", "vocab.zh-cn.json"), [], ("de", "zh-cn")),
        (("vocab.de.json", "vocab.fr.json"), ["-t", "fra"], ("de", "fra")),
        (("source.json", "vocab.fr.json"), [], ("src", "trg")),
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


@pytest.mark.parametrize("words", [["-s", "fr"], ["-t", "a/b"]])
def test_bad_languages_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    with pytest.raises(InputError, match="language"):
        run_main(monkeypatch, *make_original().save(tmp_path), tmp_path / "out", *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.train
@pytest.mark.slow
def test_fairseq_scores_and_trains_by_the_printed_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first update's cost, and that of --score-reference, are those of the transcription."""
    original = make_original()
    original.convert(tmp_path)
    printed = re.findall(r"^  (.*)$", capsys.readouterr().out, re.MULTILINE)
    commands = {words[0]: words[1:] for words in map(shlex.split, printed)}
    (tmp_path / "text").mkdir()
    for language, side, vocabulary in (("en", 0, original.source), ("fr", 1, original.target)):
        spelt = {number: word for word, number in vocabulary.items()}
        lines = [" ".join(spelt[number] for number in pair[side][:-1] if number) for pair in PAIRS]
        for part in ("train", "valid"):
            (tmp_path / "text" / f"{part}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    scored = [groundhog.score(groundhog.in_float64(original.arrays), x, [i for i in y if i])[0] for x, y in PAIRS]
    bits = -float(np.concatenate(scored).mean()) / np.log(2)

    run("fairseq-preprocess", *commands["fairseq-preprocess"], cwd=tmp_path)
    once = shlex.split("--cpu --num-workers 0 --batch-size 8 --log-format json --log-interval 1 --max-update 1")
    log = run("fairseq-train", *commands["fairseq-train"], *once, "--save-dir", "more", cwd=tmp_path)
    (loss,) = re.findall(r'"train_loss": "([\d.]+)"', log.stdout + log.stderr)
    assert float(loss) == pytest.approx(bits, abs=2e-3)
    plugin = commands["fairseq-train"][1:3]
    path = ["--path", "out/checkpoint.pt", "--gen-subset", "valid", "--score-reference"]
    generated = run("fairseq-generate", "bin", *plugin, *path, cwd=tmp_path).stdout
    words = [float(number) for line in re.findall(r"^P-\d+\t(.*)$", generated, re.MULTILINE) for number in line.split()]
    assert -sum(words) / len(words) == pytest.approx(bits, abs=1e-3)


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
        (False, {"enc_rec_layer": "LSTMLayer"}, "enc_rec_layer is 'LSTMLayer', and only 'RecurrentLayer' can be conv"),
        (False, {"dec_rec_layer": "RecurrentLayer"}, "dec_rec_layer is .*, and only 'RecurrentLayerWithSearch'"),
        (True, {"dec_rec_layer": "RecurrentLayerWithSearch"}, "dec_rec_layer is .*, and only 'RecurrentLayer'"),
        (False, {"rec_gating": False}, "rec_gating is False, and only True"),
        (False, {"enc_rec_gater": TANH}, "enc_rec_gater is 'lambda x: TT.tanh"),
        (False, {"activ": "lambda x: x"}, "activ is 'lambda x: x', and only 'lambda x: TT.tanh"),
        (False, {"maxout_part": 3}, r"unary_activ is 'Maxout\(2\)', and only 'Maxout\(3\)'"),
        (False, {"maxout_part": 4, "unary_activ": "Maxout(4)"}, "dim 6 does not divide into pools of maxout_part 4"),
        (False, {"dropout": 0.5}, r"dropout is 0\.5, and only 1 "),
        (False, {"deep_out": False}, "deep_out is False, and only True"),
        (False, {"backward": False}, "backward is False"),
        (True, {"last_forward": False}, "last_forward is False, and only True"),
        (False, {"search": "yes"}, "search is 'yes', and only True or False"),
        (False, {"c_dim": 6}, "c_dim is 6, and only 12 can be converted"),
        (False, {"dim": 6.5}, r"dim is 6\.5, but it must be a whole number"),
        (False, {"dim": True}, "dim is True, but"),
        (False, {"n_sym_source": float("nan")}, "n_sym_source is nan, but"),
        (False, {"null_sym_source": 13}, "null_sym_source 13 and unk_sym_source 1 must be two ids below"),
        (False, {"unk_sym_target": 10}, "null_sym_target 10 and unk_sym_target 10 must be two ids"),
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
    original.state |= {"rec_layer": "LSTMLayer", "rec_gating": False}  # of the backward encoder, which is not used
    original.convert(tmp_path)
    del original.state["enc_rec_layer"]
    assert_refused(original, tmp_path / "other", "rec_layer is 'LSTMLayer'")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"s5": MISSING}, "it has 9 words and the model 10"),
        ({"more": 13}, "'more' has id 13, which is not the id of a word"),
        ({"s5": 0}, "'s5' has id 0, which is not the id of a word"),
        ({"s5": 6}, "'s(5|6)' and 's(5|6)' both have id 6"),
        ({"s5": 5.0}, r"'s5': 5\.0 does not give"),
        ({"s5": True}, "'s5': True does not give"),
        ({"s5": MISSING, "": 5}, "the word '' is empty, holds a space"),
        ({"s5": MISSING, "10\xa0000": 5}, r"the word '10\\xa0000' is"),
        ({"s5": MISSING, "\ud800": 5}, r"the word '\\ud800' is .*not UTF-8"),
    ],
)
def test_vocabularies_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    original = make_original()
    original.source |= changes
    original.source = {word: number for word, number in original.source.items() if number is not MISSING}
    assert_refused(original, tmp_path, rf"vocab\.en\.json: {message}")


def test_words_of_python_2_are_utf_8(tmp_path: Path) -> None:
    original = make_original()
    del original.source["s5"]
    paths = original.save(tmp_path)
    items = b"".join(b"U" + bytes([len(w)]) + w.encode() + b"K" + bytes([i]) for w, i in original.source.items())
    pickled = tmp_path / "vocab.en.pkl"
    pickled.write_bytes(b"\x80\x02}(" + items + b"U\x04caf\xe9K\x05u.")
    with pytest.raises(InputError, match=r"vocab\.en\.pkl: the word 'caf\\udce9' is .*not UTF-8"):
        convert(paths[0], paths[1], (pickled, paths[3]), ("en", "fr"), tmp_path / "out")
    pickled.write_bytes(b"\x80\x02}(" + items + b"U\x05caf\xc3\xa9K\x05u.")
    convert(paths[0], paths[1], (pickled, paths[3]), ("en", "fr"), tmp_path / "out")
    assert (tmp_path / "out" / "dict.en.txt").read_text(encoding="utf-8").splitlines()[3] == "café 1"


class Shout:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("this pickle runs code",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps({"dim": Shout()}, 2), r"it names __builtin__\.print, which may be code"),
        (pickle.dumps([1]), "it holds a list, not a dictionary"),
        (b"\x80\x02}r\xff\xff\xff\x7f.", None),  # an index for which C's unpickler takes 34 GB
        (pickle.dumps({"dim": 6})[:-2], "not a dictionary of plain data"),
        (b"", "not a dictionary of plain data"),
    ],
    ids=["code", "list", "index", "cut off", "empty"],
)
def test_pickles_of_other_things_are_refused(
    tmp_path: Path, content: bytes, message: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    model, _, *vocabularies = make_original().save(tmp_path)
    state = tmp_path / "state.pkl"
    state.write_bytes(content)
    with pytest.raises(InputError, match=rf"state\.pkl: .*{message or 'search is missing'}"):
        convert(model, state, tuple(vocabularies), ("en", "fr"), tmp_path / "out")
    assert capsys.readouterr().out == ""


def set_array(name: str, change: Callable[[np.ndarray], Any]) -> Callable[[dict[str, np.ndarray]], None]:
    def apply(arrays: dict[str, np.ndarray]) -> None:
        arrays[name] = change(arrays[name])

    return apply


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.pop("G_back_enc_transition_0"), "the array G_back_enc_transition_0 is missing"),
        (lambda a: a.update(extra=np.ones(1)), "the array extra does not belong to the model"),
        (set_array("W_0_dec_repr_readout", lambda a: a[1:]), r"W_0_dec_repr_readout is \(11, 6\), but .* \(12, 6\)"),
        (set_array("W2_dec_deep_softmax", lambda a: a.T), r"W2_dec_deep_softmax is \(11, 5\), but .* \(5, 11\)"),
        (set_array("B_dec_transition_0", lambda a: a[0, 0]), r"[ABD]_dec_transition_0 is .*, but"),
        (set_array("A_dec_transition_0", lambda a: a[:, 1:]), r"A_dec_transition_0 is \(12, 5\), but .* \(12, 6\)"),
        (set_array("W_enc_transition_0", lambda a: a.astype(int)), "W_enc_transition_0.npy holds int64, not floating"),
        (set_array("W_enc_transition_0", lambda a: a.astype(object)), "W_enc_transition_0.npy holds object"),
        (set_array("b_0_dec_approx_embdr", lambda a: a * np.nan), "b_0_dec_approx_embdr.npy holds NaN or infinity"),
        (set_array("D_dec_transition_0", lambda a: a + 1e300), "D_dec_transition_0.npy holds NaN or infinity"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    tmp_path: Path, change: Callable[[dict[str, np.ndarray]], Any], message: str
) -> None:
    original = make_original()
    change(original.arrays)
    assert_refused(original, tmp_path, rf"model\.npz: .*{message}")


def header(shape: tuple[int, ...]) -> bytes:
    """The beginning of an array's file, without its numbers."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "compression", "message"),
    [
        (header((10**9, 10**9)), zipfile.ZIP_STORED, "is not as large as it declares"),
        (header((5000, 5000)) + bytes(10**8), zipfile.ZIP_DEFLATED, "unpacked, it is far larger than the file"),
        (header((2, 2)) + bytes(16), zipfile.ZIP_BZIP2, "it is compressed in an unusual way"),
        (b"text", zipfile.ZIP_STORED, "not an .npz of parameters"),
    ],
    ids=["size", "bomb", "bzip2", "text"],
)
def test_crafted_archives_are_refused(tmp_path: Path, content: bytes, compression: int, message: str) -> None:
    model, state, *vocabularies = make_original().save(tmp_path)
    with zipfile.ZipFile(model, "w", compression) as archive:
        archive.writestr("W_0_enc_approx_embdr.npy", content)
    with pytest.raises(InputError, match=rf"model\.npz: .*{message}.*; give the file as saved"):
        convert(model, state, tuple(vocabularies), ("en", "fr"), tmp_path / "out")


def test_of_a_stream_that_is_longer_than_it_declares_no_more_than_that_is_unpacked(tmp_path: Path) -> None:
    model, state, *_ = make_original().save(tmp_path)
    with zipfile.ZipFile(model) as archive:
        arrays = {record.filename: archive.read(record) for record in archive.infolist()}
    with zipfile.ZipFile(model, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in arrays.items():
            archive.writestr(name, content + bytes(10**8 if name.startswith("W_0_enc_approx") else 0))
            archive.getinfo(name).file_size, archive.getinfo(name).CRC = len(content), zlib.crc32(content)
    settings = read_settings(state)
    tracemalloc.start()
    read_arrays(model, settings)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


@pytest.mark.parametrize("number", range(4))
def test_missing_files_are_named(tmp_path: Path, number: int) -> None:
    paths = make_original().save(tmp_path)
    paths[number].unlink()
    model, state, source, target = paths
    with pytest.raises(InputError, match=rf"{paths[number].name}: cannot be read \(No such file or directory\); check"):
        convert(model, state, (source, target), ("en", "fr"), tmp_path / "out")


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match=r"out.*: cannot be written"):
        make_original().convert(tmp_path)
    assert json.loads((tmp_path / "state.json").read_text())["dim"] == UNITS, "the inputs are as before"
