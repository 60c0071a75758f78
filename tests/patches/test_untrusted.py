"""What comes from strangers does no harm in fairseq's own commands, and costs no run: traps shown, and cured."""

import argparse
import os
import re
import subprocess
import sys
import types
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fairseq.data.indexed_dataset
import fairseq.models.fconv
import fairseq.utils
import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary, data_utils
from fairseq.data.indexed_dataset import IndexedDatasetBuilder, MMapIndexedDatasetBuilder
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.tasks import setup_task
from omegaconf import OmegaConf

import rnnsearch_fairseq
from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.inference.loading import load_models
from rnnsearch_fairseq.patches import ORIGINALS, untrusted
from rnnsearch_fairseq.patches.typed_lines import MOST_BYTES, Buffer, read_buffers
from tests.builders import Touch, make_dictionary, parse_training, save_checkpoint
from tests.commands import BIN, PAPER, SEARCH, interactive, preprocess, train
from tests.commands import run as run_command
from tests.fuzz.noise import noise
from tests.fuzz.typed import type_lines
from tests.inference.builders import write_models

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.patched]

CODE = "__import__('os').mkdir('made')"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_models(folder)
    return folder


@pytest.fixture
def changed(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Change what is in a checkpoint; the new one and its dictionaries are in the working directory."""
    monkeypatch.chdir(tmp_path)
    for language in ("en", "fr"):
        (tmp_path / f"dict.{language}.txt").write_bytes((models / f"dict.{language}.txt").read_bytes())

    def change(name: str, change: Callable[[dict[str, Any]], Any]) -> Path:
        state = torch.load(models / f"{name}.pt")
        change(state)
        torch.save(state, "changed.pt")
        return tmp_path / "changed.pt"

    return change


def load(path: Path) -> Any:
    return load_models([str(path)], str(path.parent), cpu=True)


# Code in the options of a checkpoint


@pytest.mark.parametrize("name", ["transformer", "lstm"])
def test_an_option_is_no_code(changed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def add_code(state: dict[str, Any]) -> None:
        options = state["cfg"]["model"]
        options = vars(options) if isinstance(options, argparse.Namespace) else options
        options |= {"adaptive_softmax_cutoff": CODE, "criterion": "adaptive_loss"}

    path = changed(name, add_code)
    with pytest.raises(InputError, match=r"changed\.pt: does not load \(ValueError: malformed node"):
        load(path)
    assert not Path("made").exists()
    monkeypatch.delattr(fairseq.utils, "eval")
    with pytest.raises(InputError):
        load(path)
    assert Path("made").is_dir(), "fairseq itself runs it"


def test_every_eval_of_fairseq_is_ours() -> None:
    calls = {name for name, module in sys.modules.items() if name.startswith("fairseq.") and _calls_eval(module)}
    assert {"fairseq.utils", "fairseq.models.fconv", "fairseq.optim.adam"} <= calls
    assert all(sys.modules[name].eval is untrusted._evaluate for name in calls)


def _calls_eval(module: Any) -> bool:
    path = getattr(module, "__file__", None) or ""
    return path.endswith(".py") and re.search(r"(?<![\w.])eval\(", Path(path).read_text()) is not None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[(512, 3)] * 2 + [(768, 3)]", [(512, 3), (512, 3), (768, 3)]),
        (" (0.9, 1-0.001)", (0.9, 0.999)),
        ("1e-4, -5", (1e-4, -5)),
        ("True", True),
        ("{'a': None}", {"a": None}),
        ("'x' * 3", "xxx"),
        ("2 * (1,)", (1, 1)),
    ],
)
def test_lists_are_read_as_python_reads_them(text: str, value: Any) -> None:
    assert untrusted._evaluate(text) == value == eval(text.strip())


@pytest.mark.parametrize(
    "text",
    [
        CODE,
        "[0] * 10**9",
        "[0] * 99999999",
        "[[0] * 9999] * 9999 * 9999",
        "9**9**9",
        "a",
        "f'{1}'",
        "[x for x in ()]",
        "",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        untrusted._evaluate(text)
    with pytest.raises(TypeError):
        untrusted._evaluate(None)


def test_no_variable_makes_a_checkpoint_run_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the check to miss something, torch itself would refuse it."""
    torch.save({"model": {}, "a": [Touch(tmp_path / "made")]}, tmp_path / "bad.pt")
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    monkeypatch.setattr(untrusted, "check_checkpoint", lambda path: {"model": {}, "args": argparse.Namespace()})
    with pytest.raises(InputError, match=r"bad\.pt: not a checkpoint \(UnpicklingError: Weights only load failed"):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "bad.pt"))
    assert not (tmp_path / "made").exists()
    torch.load(tmp_path / "bad.pt")
    assert (tmp_path / "made").is_dir(), "torch, called as fairseq calls it, runs it"


# Other options


def test_models_whose_options_may_be_files_are_not_built(changed: Callable[..., Path]) -> None:
    path = changed("search", lambda state: None)
    state, refused = torch.load(path), set()
    for arch in ARCH_MODEL_REGISTRY:
        name = ARCH_MODEL_NAME_REGISTRY[arch]
        if name not in untrusted.MODELS:
            state["cfg"]["model"] = argparse.Namespace(arch=arch, w2v_path="canary", pretrained_checkpoint="canary")
            torch.save(state, path)
            with pytest.raises(InputError, match=rf"changed\.pt: its architecture is {name}, whose options may"):
                load(path)
            refused.add(name)
    assert {"roberta_enc_dec", "wav2vec_seq2seq", "s2t_transformer", "fconv_self_att", "dummy_model"} <= refused


@pytest.mark.parametrize("name", ["encoder_embed_path", "decoder_embed_path"])
def test_embeddings_are_those_of_the_file(changed: Callable[..., Path], name: str) -> None:
    load(changed("transformer", lambda state: vars(state["cfg"]["model"]).update({name: "/canary"})))


def test_other_code_for_attention_is_refused(changed: Callable[..., Path]) -> None:
    options = {"encoder_xformers_att_config": "{'name': 'x'}"}
    with pytest.raises(InputError, match=r"changed\.pt: encoder_xformers_att_config is given"):
        load(changed("transformer", lambda state: vars(state["cfg"]["model"]).update(options)))


@pytest.mark.parametrize("criterion", ["sentence_ranking", "ctc", None])
def test_a_checkpoint_s_criterion_writes_no_file(
    changed: Callable[..., Path],
    models: Path,
    criterion: str | None,
) -> None:
    """fairseq-validate builds it: that of sentence_ranking opens a file for writing."""
    options = {"_name": criterion, "save_predictions": "made", "num_classes": 2, "ranking_head_name": "a"}
    path = changed("search", lambda state: state["cfg"].update(criterion=options))
    _, cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(models)})
    with pytest.raises(InputError, match=rf"changed\.pt: its criterion is {criterion}, whose options may lead"):
        task.build_criterion(cfg.criterion)
    assert not Path("made").exists()
    assert task.build_criterion(OmegaConf.create({"_name": "cross_entropy", "sentence_avg": False}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda options: options.update(_name="translation_from_pretrained_bart"), "its task is translation_from_pre"),
        (lambda options: options.update(_name="speech_to_text"), "its task is speech_to_text, whose options"),
        (lambda options: options.update(target_lang="../../etc/x"), "its languages cannot be parts of file names"),
    ],
)
def test_a_task_is_set_up_only_if_its_options_are_known(
    changed: Callable[..., Path],
    models: Path,
    change: Callable[..., Any],
    message: str,
) -> None:
    path = changed("search", lambda state: change(state["cfg"]["task"]))
    with pytest.raises(InputError, match=rf"changed\.pt: {message}"):
        checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(models)})


def test_settings_of_validation_are_the_user_s(
    changed: Callable[..., Path],
    models: Path,
    warned: pytest.LogCaptureFixture,
) -> None:
    hostile = {"eval_bleu": True, "eval_bleu_args": '{"search": "tree2seq", "length_statistics": "/canary"}'}
    path = changed("search", set_task(**hostile, required_seq_len_multiple=10**9, num_batch_buckets=10**9))
    _, cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(models)})
    task.build_criterion(cfg.criterion)
    assert warned.messages == [f"{path} was trained with --eval-bleu; give it again for BLEU"]
    assert (task.cfg.eval_bleu, task.cfg.required_seq_len_multiple, task.cfg.num_batch_buckets) == (False, 1, 0)
    given = {"data": str(models), "eval_bleu": True, "eval_bleu_args": '{"beam": 3}'}
    _, _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], given)
    assert task.sequence_generator.beam_size == 3


def set_task(**options: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda state: state["cfg"]["task"].update(options)


def set_model(**options: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda state: state["cfg"]["model"].update(options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_model(hidden_size=10**6), "its options ask for more memory than"),
        (set_model(embedding_size=10**9), "its options ask for more memory than"),
        (set_model(hidden_size="${oc.env:HOME}"), r"'cfg\.model\.hidden_size' holds '\$\{oc\.env:HOME\}'"),
        (set_task(data="${oc.env:HOME}"), r"'cfg\.task\.data' holds"),
        (set_task(source_lang="../../etc/x"), "its languages cannot be parts of file names"),
        (set_task(_name="masked_lm"), "task is masked_lm, whose input"),
        (set_task(_name=["translation"]), r"task is \['translation'\]"),
        (lambda state: state.update(cfg="task: {}"), "it has no configuration"),
        (
            lambda state: state.update(args=argparse.Namespace(task="translation", bpe="../../x")),
            r"bpe is '\.\./\.\./x'",
        ),
        (lambda state: state.pop("extra_state"), "not a checkpoint"),
        (lambda state: state.update(optimizer_history=[]), "not a checkpoint"),
    ],
)
def test_other_options_do_no_harm(changed: Callable[..., Path], change: Callable[..., Any], message: str) -> None:
    with pytest.raises(InputError, match=rf"changed\.pt: .*{message}.*; give"):
        load(changed("search", change))


def test_a_transformer_has_no_more_layers_than_it_has_parameters(changed: Callable[..., Path]) -> None:
    def add_layers(state: dict[str, Any]) -> None:
        vars(state["cfg"]["model"])["encoder_layers"] = 10**9

    with pytest.raises(InputError, match="its options ask for more memory than"):
        load(changed("transformer", add_layers))


def test_what_only_training_needs_is_left_out(changed: Callable[..., Path]) -> None:
    change = set_task(eval_bleu=True, eval_bleu_detok="moses", eval_bleu_args="{", data="/nowhere")
    _, task = load(changed("search", change))
    assert not task.cfg.eval_bleu

    def name_files(state: dict[str, Any]) -> None:
        vars(state["cfg"]["model"]).update(encoder_embed_path="/dev/zero", decoder_embed_path="/dev/zero")

    load(changed("lstm", name_files))


def set_positions(**positions: int) -> Callable[[dict[str, Any]], Any]:
    return lambda state: vars(state["cfg"]["model"]).update(positions)


@pytest.mark.parametrize("side", ["source", "target"])
def test_positions_that_are_not_in_the_file_are_counted(changed: Callable[..., Path], side: str) -> None:
    """Sinusoidal positions are plain tensors: 20 million of them, 8 wide, take 640 MB, and twice that while made."""
    with pytest.raises(InputError, match=r"changed\.pt: its options ask for more memory than a model of the"):
        load(changed("transformer", set_positions(**{f"max_{side}_positions": 20_000_000})))
    load(changed("transformer", set_positions(**{f"max_{side}_positions": 100_000})))


def test_a_model_that_cannot_be_tried_is_not_built(
    changed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []

    def build(args: Any, task: Any) -> Any:
        torch.ones(1).item()  # without memory, there is no value
        built.append(args)

    monkeypatch.setattr(TransformerModel, "build_model", build)
    with pytest.raises(InputError, match=r"changed\.pt: does not load \(RuntimeError: .*meta"):
        load(changed("transformer", lambda state: None))
    assert not built


def test_all_memory_at_a_time_is_counted() -> None:
    trial = untrusted._Trial(untrusted.Loading("a.pt", {"a": (1000, 1000)}))
    numbers = untrusted.BYTES_AT_LEAST // 4
    with torch.device("meta"), trial:
        for _ in range(10):
            torch.zeros(numbers // 2)  # is gone again
        assert trial.bytes == 0
        kept = [torch.nn.Parameter(torch.empty(100)), torch.nn.Linear(3, 4)]
        kept.append(kept[0].view(10, 10))
        assert trial.bytes == 400 + (12 + 4) * 4 + 3 * untrusted.BYTES_A_TENSOR
        torch.empty(numbers)
        with pytest.raises(InputError, match=r"a\.pt: .* 1,000,000 parameters"):
            torch.empty(numbers + 2 * 10**6)
        with pytest.raises(InputError):
            kept += [torch.empty(0) for _ in range(10**6)]  # each is an object, too
    assert len(kept) == 3


@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("tree2seq_small", "--embedding-size 8 --hidden-size 8 --constituents words"),
        ("transformer", "--encoder-learned-pos --layernorm-embedding --quant-noise-pq 0.1 --dropout 0.1"),
        ("transformer", "--adaptive-softmax-cutoff 5,10 --criterion adaptive_loss --encoder-layerdrop 0.5"),
        ("transformer_align", "--alignment-layer 0"),
        ("lstm", "--encoder-bidirectional --adaptive-softmax-cutoff 5,10 --criterion adaptive_loss"),
        ("fconv", "--encoder-layers [(8,3)]*2 --decoder-layers [(8,3)]*2"),
        ("lightconv", "--encoder-conv-type lightweight --weight-dropout 0.1"),
        ("transformer_lm", ""),
        ("transformer_lm", "--adaptive-input --adaptive-input-cutoff 5,10 --adaptive-input-factor 2"),
        ("transformer_lm", "--character-embeddings --character-filters [(1,8)]"),
        ("lstm_lm", ""),
        ("fconv_lm", "--decoder-layers [(8,3)]*2"),
        ("lightconv_lm", ""),
    ],
)
def test_every_known_model_is_tried_and_built(tmp_path: Path, arch: str, options: str) -> None:
    dictionary = make_dictionary(20)
    for name in ("dict.en.txt", "dict.fr.txt", "dict.txt"):
        dictionary.save(str(tmp_path / name))
    of_task = ["language_modeling"] if arch.endswith("_lm") else ["translation", "-s", "en", "-t", "fr"]
    words = ["--arch", arch, *options.split(), "--optimizer", "adam", "--task", *of_task]
    if arch.startswith(("light", "transformer")):
        for side in ("decoder",) if arch.endswith("_lm") else ("encoder", "decoder"):
            words += [f"--{side}-embed-dim", "8", f"--{side}-ffn-embed-dim", "8", f"--{side}-attention-heads", "2"]
        if arch.endswith("_lm"):
            words += ["--decoder-input-dim", "8", "--decoder-output-dim", "8"]
    config = parse_training(*words)
    config.task.data = str(tmp_path)
    model = setup_task(config.task).build_model(config.model)
    for parameter in model.parameters():  # fairseq leaves biases of lightconv uninitialised, and they may be NaN
        torch.nn.init.normal_(parameter)
    save_checkpoint(tmp_path / "a.pt", config, model)
    (loaded,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "a.pt")])
    for name, parameter in loaded.state_dict().items():
        assert torch.equal(parameter, model.state_dict()[name])


def test_a_trial_takes_no_memory_and_leaves_no_trace(models: Path) -> None:
    for name in ("search", "encdec", "transformer", "lstm"):
        torch.manual_seed(1)
        (model,), _ = load(models / f"{name}.pt")
        assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}
        state = torch.load(models / f"{name}.pt")["model"]
        assert all(torch.equal(parameter, state[key]) for key, parameter in model.state_dict().items() if key in state)


def test_a_checkpoint_that_does_not_fit_is_named_by_fairseqs_own_loader(
    changed: Callable[..., Path],
    models: Path,
) -> None:
    path = changed("transformer", lambda state: state["model"].popitem())
    with pytest.raises(InputError, match=r"changed\.pt: does not load \(RuntimeError: .*; give the data"):
        checkpoint_utils.load_model_ensemble([str(path)], {"data": str(models)})


@pytest.mark.parametrize(("name", "cure"), [("x", "the newest beside it is"), ("no/x", "give one that fairseq-train")])
def test_of_a_checkpoint_that_is_not_there_the_message_names_another(models: Path, name: str, cure: str) -> None:
    with pytest.raises(InputError, match=rf"{name}\.pt: no such checkpoint; {cure}"):
        checkpoint_utils.load_model_ensemble([str(models / f"{name}.pt")], {"data": str(models)})


# Messages


def test_a_message_is_short_and_can_be_printed() -> None:
    error = InputError(f"a.txt: {chr(27)}[2J\n{'x' * 10**6}\u202e\ud800; cut it")
    assert str(error).isprintable()
    assert len(str(error)) <= 700
    assert str(error).startswith(r"a.txt: \x1b[2J\nxxx")
    assert str(error).endswith(r"\u202e\ud800; cut it")
    assert str(InputError(str(error))) == str(error)
    assert str(InputError("é 窓 😀")) == "é 窓 😀"
    assert in_short(ValueError("a\n b")) == "a b"


# Binarized data and dictionaries


def build(folder: Path, builder: type, sentences: list[list[int]] = [[4, 5, 2], [6, 2], [2]]) -> Path:  # noqa: B006
    made = builder(str(folder / "data.bin"), dtype=np.int32)
    for sentence in sentences:
        made.add_item(torch.tensor(sentence))
    made.finalize(str(folder / "data.idx"))
    return folder / "data"


def change(path: Path, place: int, number: int, width: int = 8) -> None:
    content = bytearray(path.read_bytes())
    content[place : place + width] = number.to_bytes(width, "little", signed=number < 0)
    path.write_bytes(content)


@pytest.mark.parametrize("builder", [MMapIndexedDatasetBuilder, IndexedDatasetBuilder])
def test_binarized_data_is_read_and_what_is_damaged_is_refused(tmp_path: Path, builder: type) -> None:
    data = build(tmp_path, builder)
    index, numbers = data.with_suffix(".idx"), data.with_suffix(".bin")
    good = index.read_bytes(), numbers.read_bytes()
    assert len(data_utils.load_indexed_dataset(str(data), make_dictionary(3))) == 3
    mmap = builder is MMapIndexedDatasetBuilder
    of_index, of_numbers = r"data\.idx: (not an index|does not say where)", r"data\.bin: holds the number"
    first_size, first_place, count = (26, 38, 18) if mmap else (48 + 64, 48 + 32, 32)
    changes: list[tuple[Callable[[], Any], str]] = [
        (lambda: change(index, count, 2**60), of_index),
        (lambda: change(index, count, 2), of_index),
        (lambda: change(index, first_size, 2**31 - 1, 4), of_index),
        (lambda: change(index, first_size, -1, 4), of_index),
        (lambda: change(index, first_size, 0, 4), of_index),
        (lambda: change(index, first_place, 2**40), of_index),
        (lambda: change(index, first_place, -4), of_index),
        (lambda: change(index, 0, 0), of_index),
        (lambda: change(index, 17 if mmap else 16, 6, 1), of_index),
        (lambda: index.write_bytes(good[0][:-1]), of_index),
        (lambda: index.write_bytes(b""), of_index),
        (lambda: numbers.write_bytes(good[1][:-4]), of_index),
        (lambda: numbers.write_bytes(b""), r"data\.bin: holds no sentence"),
        (lambda: change(numbers, 4, 9999, 4), of_numbers),
        (lambda: change(numbers, 4, -1, 4), of_numbers),
        (
            lambda: change(numbers, 4, 7 + (not mmap), 4),
            r"data\.bin: holds the number 7, and its dictionary has 7 words",
        ),
    ]
    for damage, message in changes:
        index.write_bytes(good[0])
        numbers.write_bytes(good[1])
        damage()
        with pytest.raises(InputError, match=message):
            data_utils.load_indexed_dataset(str(data), make_dictionary(3), "mmap" if mmap else "cached")


def test_without_the_check_a_number_that_is_no_words_is_found_in_training(tmp_path: Path) -> None:
    data = build(tmp_path, MMapIndexedDatasetBuilder, [[4, 99, 2]])
    loaded = ORIGINALS[fairseq.data.indexed_dataset, "make_dataset"](str(data), "mmap")
    with pytest.raises(IndexError):
        torch.nn.Embedding(7, 2)(loaded[0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a 1\nb\n", "line 2: not a word and a number"),
        (b"a 1\n\n", "line 2: not a word and a number"),
        (b"a 1\nb x\n", "line 2: not a word and a number"),
        (b"a 1\n5 #fairseq:overwrite\n", "line 2: not a word and a number"),
        (b"a 1\nb 2\na 3\n", "line 3: a repeated word"),
        (b"<unk> 1\n", "line 1: a repeated word"),
        (b"a 1\nb\xff 2\n", "line 2: byte 0xff at column 2 is not UTF-8"),
        (b"a 1\nb\r2\n", "line 2: stray carriage return"),
        (b"\0\1\2", "line 1: not a word and a number"),
    ],
)
def test_a_bad_line_of_a_dictionary_is_numbered(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "dict.en.txt").write_bytes(content)
    with pytest.raises(InputError, match=rf"dict\.en\.txt, {message}"):
        Dictionary.load(str(tmp_path / "dict.en.txt"))
    with pytest.raises(Exception):  # noqa: B017 (what fairseq itself raises is of several kinds)
        ORIGINALS[Dictionary, "add_from_file"](Dictionary(), str(tmp_path / "dict.en.txt"))


def test_good_dictionaries_are_read(tmp_path: Path) -> None:
    (tmp_path / "d").write_bytes("a 1\r\nb c 2\n<unk> 3 #fairseq:overwrite\n窓 4\n 5".encode())
    assert Dictionary.load(str(tmp_path / "d")).symbols[4:] == ["a", "b c", "<unk>", "窓", ""]


# Typed text


def lines_of(path: Path, content: bytes, size: int = 2) -> list[Buffer]:
    path.write_bytes(content)
    return list(read_buffers(str(path), size))


def test_every_line_has_its_place(tmp_path: Path, warned: pytest.LogCaptureFixture) -> None:
    content = b"a\n\n b\rc \r\n\xff\nd\0\xe2\x80\xa8e\nlast"
    buffers = lines_of(tmp_path / "typed", content)
    assert [(buffer.first, list(buffer)) for buffer in buffers] == [
        (0, ["a", ""]),
        (2, ["b\rc", None]),
        (4, ["d\0\u2028e", "last"]),
    ]
    assert warned.messages == ["line 4 (S-3) is not translated: byte 0xff at column 1 is not UTF-8"]
    module = pytest.importorskip("fairseq_cli.interactive")
    with pytest.raises(UnicodeDecodeError):
        list(ORIGINALS.get((module, "buffered_read"), module.buffered_read)(str(tmp_path / "typed"), 2))


@pytest.mark.parametrize("end", [b"\n", b"", b"\nx\n"])
def test_no_more_is_held_of_a_line_than_a_sentence_has(
    tmp_path: Path, warned: pytest.LogCaptureFixture, end: bytes
) -> None:
    for length, kept in ((MOST_BYTES, True), (MOST_BYTES + 1, False), (5 * MOST_BYTES, False)):
        warned.clear()
        (buffer,) = lines_of(tmp_path / "typed", b"a" * length + end, 5)
        assert len(buffer) == 1 + end.endswith(b"x\n")
        assert (buffer[0] == "a" * length) == kept
        assert warned.messages == ([] if kept else ["line 1 (S-0) is not translated: more than 100,000 bytes"])
        assert buffer[1:] == ["x"] * (len(buffer) - 1)


def test_input_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--input .*none: cannot be read \(No such file or directory\)"):
        list(read_buffers(str(tmp_path / "none"), 1))


Batch = namedtuple("Batch", "ids src_tokens")


def test_what_cannot_be_translated_is_passed_over(warned: pytest.LogCaptureFixture) -> None:
    def encode(line: str) -> str:
        if line == "bad":
            raise ZeroDivisionError("of a tokenizer")
        return line

    class Task:
        def get_interactive_tokens_and_lengths(self, lines: list[str], encode: Callable[[str], str]) -> Any:
            lengths = [len(encode(line).split()) + 1 for line in lines]
            return lengths, lengths

    def make_batches(lines: list[str], cfg: Any, task: Any, *_: Any) -> Iterator[Batch]:
        given.append(list(lines))
        for number in reversed(range(len(lines))):
            yield Batch(torch.tensor([number]), torch.tensor([[0]]))

    given: list[list[str]] = []
    lines = Buffer(10)
    lines += ["a", None, "bad", "a b c d", "", "b"]
    cfg = types.SimpleNamespace(
        dataset=types.SimpleNamespace(max_tokens=None), generation=types.SimpleNamespace(constraints=None)
    )
    batches = list(untrusted.pass_over_bad_lines(make_batches)(lines, cfg, Task(), (4, 4), encode))
    assert given == [["a", "", "b"]]
    assert [batch.ids.tolist() for batch in batches] == [[5], [4], [0]]
    assert warned.messages == [
        "line 13 (S-12) is not translated: ZeroDivisionError: of a tokenizer",
        "line 14 (S-13) is not translated: 4 words, of which 3 can be read",
    ]
    nothing = Buffer(0)
    nothing += [None, None]
    assert list(untrusted.pass_over_bad_lines(make_batches)(nothing, cfg, Task(), 4, encode)) == []


# The commands


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Binarized data, and a model that has seen it once."""
    folder = tmp_path_factory.mktemp("hostile")
    for part in ("train", "valid"):
        for language in ("en", "fr"):
            (folder / f"{part}.{language}").write_text("the cat sees a black horse .\na cat ( 3.14 )\n" * 8)
    preprocess(folder, "bin", "--trainpref", "train", "--validpref", "valid")
    train(folder / "bin", folder / "model", *SEARCH, *PAPER, "--batch-size", "8", "--max-epoch", "1")
    return folder


@pytest.mark.parametrize("words", [[], ["--replace-unk", "--tokenizer", "moses"]])
def test_interactive_answers_or_refuses_every_line_of_noise(corpus: Path, words: list[str]) -> None:
    lines = [*noise(510), b"the cat sees a black horse ."]
    command = [str(corpus / "bin"), "--path", str(corpus / "model/checkpoint1.pt"), "-s", "en", "-t", "fr", "--cpu"]
    command += ["--buffer-size", "100", "--batch-size", "50", "--beam", "1", "--max-len-b", "5"]
    typed = type_lines(lines, [*command, *words])
    assert typed.is_complete(len(lines)), b"".join(typed.errors[-5:])
    assert typed.answered == sorted(typed.answered)
    assert len(typed.answered) > 300
    undecodable = [number for number, line in enumerate(lines) if not _is_utf_8(line)]
    assert set(undecodable) <= set(typed.refused)


def _is_utf_8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


TRAIN = [*SEARCH, *PAPER, "--batch-size", "8", "--num-workers", "0"]
HYDRA = "--config-path pkg://rnnsearch_fairseq.config --config-name rnnsearch30 task.data={bin} common.cpu=true"
HYDRA += " dataset.batch_size=8 checkpoint.save_dir=new "
HYDRA += " ".join(f"model.{size}_size=32" for size in ("embedding", "hidden", "alignment", "maxout"))
VALID = "{bin} --user-dir {plugin} --gen-subset valid --batch-size 8"
DOORS = {
    "generate": f"fairseq-generate {VALID} --path {{bad}}",
    "generate, language model": f"fairseq-generate {VALID} --path {{good}} --lm-path {{bad}}",
    "interactive": "fairseq-interactive {bin} --user-dir {plugin} --path {bad} -s en -t fr",
    "validate": "fairseq-validate {bin} --user-dir {plugin} --path {bad} --task translation --batch-size 8",
    "eval-lm": "fairseq-eval-lm {lm} --user-dir {plugin} --path {bad} --task language_modeling",
    "train, last": "fairseq-train {bin} --user-dir {plugin} --save-dir {save_dir} {train}",
    "train, restore": "fairseq-train {bin} --user-dir {plugin} --save-dir new --restore-file {bad} {train}",
    "train, finetune": "fairseq-train {bin} --user-dir {plugin} --save-dir new --finetune-from-model {bad} {train}",
    "hydra-train, restore": f"fairseq-hydra-train {HYDRA} checkpoint.restore_file={{bad}}",
    "hydra-train, finetune": f"fairseq-hydra-train {HYDRA} checkpoint.finetune_from_model={{bad}}",
    "serve": "rnnsearch serve --path {bad} --data {bin} --port 0",
    "score": "rnnsearch score --path {bad} --data {bin} valid.en valid.fr",
    "average_checkpoints": "rnnsearch average mean.pt {good} {bad}",
}


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_a_hostile_checkpoint_is_refused_at_every_door(corpus: Path, tmp_path: Path, door: str) -> None:
    """It would make a folder, had PyTorch's own guard been turned off as well."""
    bad, save_dir = tmp_path / "bad.pt", tmp_path / "save"
    torch.save({"model": {}, "a": [Touch(tmp_path / "made")]}, bad)
    save_dir.mkdir()
    (save_dir / "checkpoint_last.pt").write_bytes(bad.read_bytes())
    (tmp_path / "lm").mkdir()
    (tmp_path / "lm/dict.txt").write_bytes((corpus / "bin/dict.en.txt").read_bytes())
    package = Path(rnnsearch_fairseq.__file__).parent
    places = {"bin": corpus / "bin", "good": corpus / "model/checkpoint1.pt", "bad": bad, "lm": tmp_path / "lm"}
    command, *words = DOORS[door].format(**places, plugin=package, save_dir=save_dir, train=" ".join(TRAIN)).split()
    done = subprocess.run(
        [str(BIN / command), *words],
        cwd=corpus,
        env={**os.environ, "PYTHONPATH": str(package.parent), "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert not (tmp_path / "made").exists()
    assert done.returncode == 1, done.stderr[-3000:]
    name = r"checkpoint_last\.pt" if door == "train, last" else r"bad\.pt"
    message = rf"\S*{name}: not a checkpoint \(it names {os.name}\.mkdir, which may be code, .*; give one .*"
    if command == "fairseq-hydra-train":  # Hydra prints every error its own way
        assert re.search(rf"^error: {message}$", done.stderr, re.MULTILINE), done.stderr[-3000:]
    else:
        assert re.fullmatch(rf"error: {message}", done.stderr.splitlines()[-1]), done.stderr[-3000:]
        assert "Traceback" not in done.stderr


def test_a_checkpoint_that_looks_things_up_is_refused_by_a_command(corpus: Path) -> None:
    state = torch.load(corpus / "model/checkpoint1.pt")
    state["cfg"]["task"]["data"] = "${oc.env:HOME}"
    torch.save(state, corpus / "bad.pt")
    data = [corpus / "bin", "--user-dir", str(Path(rnnsearch_fairseq.__file__).parent)]
    words = ["--save-dir", corpus / "new", "--restore-file", corpus / "bad.pt"]
    done = run_command("fairseq-train", *data, *TRAIN, *words, cwd=corpus, status=1)
    last = done.stderr.splitlines()[-1]
    assert re.fullmatch(r"error: \S*bad\.pt: 'cfg\.task\.data' holds '\$\{oc\.env:HOME\}', .*; give one .*", last)
    assert "Traceback" not in done.stderr


def test_one_changed_bit_of_a_parameter_is_found_by_every_command(corpus: Path) -> None:
    """PyTorch itself does not look."""
    content = bytearray((corpus / "model/checkpoint1.pt").read_bytes())
    content[len(content) // 2] ^= 64
    (corpus / "changed.pt").write_bytes(content)
    torch.load(corpus / "changed.pt")
    data = [corpus / "bin", "--user-dir", str(Path(rnnsearch_fairseq.__file__).parent)]
    done = run_command(
        "fairseq-generate", *data, "--path", corpus / "changed.pt", "--gen-subset", "valid", cwd=corpus, status=1
    )
    last = done.stderr.splitlines()[-1]
    assert re.fullmatch(
        r"error: \S*changed\.pt: it is damaged: its SHA-256 is not .*; put it back from a copy, .*", last
    )


def test_typed_lines_are_answered_as_before(corpus: Path) -> None:
    output = interactive(corpus / "bin", corpus / "model/checkpoint1.pt", ["a cat", "", "the"], "-s", "en", "-t", "fr")
    assert output.order == [0, 1, 2]
    assert output.words("S") == {0: ["a", "cat"], 1: [], 2: ["the"]}
