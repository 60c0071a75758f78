"""Each fault of fairseq that `rnnsearch_fairseq.patches.fixes` works around is shown, and gone with the patch."""

import argparse
import contextlib
import functools
import importlib
import os
import re
import subprocess
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import fairseq.data.data_utils
import fairseq.distributed.utils
import fairseq.options
import fairseq.tasks
import fairseq.tasks.translation
import fairseq.trainer
import fairseq.utils
import numpy as np
import pytest
import torch
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed.utils import _TensorPlaceholder
from omegaconf import DictConfig, OmegaConf

from rnnsearch_fairseq import patches
from rnnsearch_fairseq.errors import InputError, print_without_traceback
from rnnsearch_fairseq.inference.record import PLAIN_MOSES, Preparation, read_record, write_record
from rnnsearch_fairseq.patches import ORIGINALS, fixes
from tests.files.builders import preprocessing_args, write_corpus

pytestmark = pytest.mark.patched

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "rnnsearch_fairseq"
WIDTHS = ("--encoder-embed-dim", "--decoder-embed-dim", "--decoder-out-embed-dim", "--encoder-hidden-size")
TINY = [*(word for name in (*WIDTHS, "--decoder-hidden-size") for word in (name, "8"))]
TINY += ["--arch", "lstm", "--encoder-layers", "1", "--decoder-layers", "1", "--optimizer", "adam", "--lr", "0.01"]
TINY += ["--batch-size", "8", "--num-workers", "0", "--cpu", "--log-format", "json", "--no-epoch-checkpoints"]
TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
wants_no_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="the trap is of machines without CUDA")


@pytest.fixture(autouse=True)
def cured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    patches.apply()


def training_config(data: Path, *extra: str) -> DictConfig:
    parser = fairseq.options.get_training_parser()
    save = ["--save-dir", str(data / "checkpoints")]
    args = fairseq.options.parse_args_and_arch(parser, [str(data), *TINY, "--max-update", "2", *save, *extra])
    return convert_namespace_to_omegaconf(args)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Binarized data of 13 training, 5 validation and 5 test sentences."""
    monkeypatch.setattr(sys, "argv", ["fairseq"])
    write_corpus(tmp_path, {"train": 13, "valid": 5, "test": 5})
    import fairseq_cli.preprocess

    patches.apply()
    fairseq_cli.preprocess.main(preprocessing_args(tmp_path))
    return tmp_path / "bin"


def train(config: DictConfig) -> None:
    import fairseq_cli.train

    fairseq.distributed.utils.call_main(config, fairseq_cli.train.main)


# Every sentence


BATCHINGS: list[dict[str, Any]] = [
    {},
    {"max_tokens": 20},
    {"max_sentences": 3},
    {"max_sentences": 100},
    {"max_tokens": 20, "max_sentences": 6},
    {"fixed_shapes": np.array([[4, 3], [2, 5]])},
]


def batches_of(batch_by_size: Callable[..., Any], count: int, vector: bool, **limits: Any) -> list[list[int]]:
    tokens = np.array([i * 7 % 5 + 1 for i in range(count)], dtype=np.int64)
    batches = batch_by_size(
        np.arange(count),
        lambda index: tokens[index],
        num_tokens_vec=tokens if vector else None,
        required_batch_size_multiple=8,
        **limits,
    )
    assert all(len(batch) <= limits.get("max_sentences", count) for batch in batches)
    assert all(max(tokens[batch]) * len(batch) <= limits.get("max_tokens", 5 * count) for batch in batches)
    return [list(batch) for batch in batches]


def test_fairseq_drops_the_tail() -> None:
    drop = ORIGINALS[fairseq.data.data_utils, "batch_by_size"]
    assert [sum(map(len, batches_of(drop, n, True, max_sentences=100))) for n in (5, 8, 13)] == [0, 8, 8]


@pytest.mark.parametrize("limits", BATCHINGS, ids=str)
@pytest.mark.parametrize("vector", [True, False])
@pytest.mark.parametrize("count", [1, 5, 8, 13, 500])
def test_every_sentence_is_kept_once_and_in_order(count: int, vector: bool, limits: dict[str, Any]) -> None:
    batches = batches_of(fairseq.data.data_utils.batch_by_size, count, vector, **limits)
    assert list(chain.from_iterable(batches)) == list(range(count))
    assert all(batches)


def test_no_sentences_make_no_batches() -> None:
    with pytest.raises(IndexError):
        batches_of(ORIGINALS[fairseq.data.data_utils, "batch_by_size"], 0, True, max_tokens=5)
    assert fairseq.data.data_utils.batch_by_size(iter([]), len, max_tokens=5, required_batch_size_multiple=8) == []


@pytest.mark.parametrize("options", [["--max-tokens", "40"], ["--batch-size", "4"], []])
def test_the_iterators_of_a_task_hold_every_sentence(data: Path, options: list[str]) -> None:
    config = training_config(data, *options)
    task = fairseq.tasks.setup_task(config.task)
    for split, count in {"train": 13, "valid": 5, "test": 5}.items():
        task.load_dataset(split)
        batches = task.get_batch_iterator(
            task.dataset(split),
            max_tokens=config.dataset.max_tokens,
            max_sentences=config.dataset.batch_size,
            required_batch_size_multiple=config.dataset.required_batch_size_multiple,
        ).next_epoch_itr()
        assert sorted(chain.from_iterable(batch["id"].tolist() for batch in batches)) == list(range(count))


# Checkpoints


def reload(path: Path, thing: Any) -> Any:
    torch.save(thing, path)
    return torch.load(path, map_location="cpu")


def things() -> dict[str, Any]:
    config = OmegaConf.create({"lr": [0.1], "n": 1, "name": "x", "flag": True, "none": None, "deep": {"a": 2.5}})
    return {
        "namespace": argparse.Namespace(arch="rnnsearch", lr=[0.25]),
        "arrays": [np.arange(3), np.ones(2, np.float32), np.zeros(1, np.int32), np.array([True]), np.array([0.5])],
        "scalars": [np.float64(0.5), np.int64(3), np.float32(2)],
        "broadcast": {"cfg": config, "model": _TensorPlaceholder(3)},
    }


@pytest.mark.parametrize("name", things())
def test_checkpoints_load_with_weights_only(name: str, tmp_path: Path) -> None:
    allowed = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    try:
        with pytest.raises(Exception, match=r"[Ww]eights"):
            reload(tmp_path / "x.pt", things()[name])
    finally:
        torch.serialization.add_safe_globals(allowed)
    loaded = reload(tmp_path / "x.pt", things()[name])
    assert str(loaded) == str(things()[name])


def test_both_names_of_numpy_are_allowed() -> None:
    allowed = [entry for entry in torch.serialization.get_safe_globals() if isinstance(entry, tuple)]
    for name, made in (("_reconstruct", np.empty(0)), ("scalar", np.float64(0))):
        for module in ("numpy.core", "numpy._core"):
            assert (made.__reduce__()[0], f"{module}.multiarray.{name}") in allowed


def test_other_classes_are_still_refused(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="Path"):
        reload(tmp_path / "x.pt", Path("x"))


# Precision


def parsed(monkeypatch: pytest.MonkeyPatch, parse: Callable[..., Any], *extra: str) -> argparse.Namespace:
    words = ["bin", *TINY, *extra]
    monkeypatch.setattr(sys, "argv", ["fairseq-train", *words])
    return parse(fairseq.options.get_training_parser())


def test_bf16_is_no_tpu(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = fairseq.options.parse_args_and_arch
    assert parsed(monkeypatch, ORIGINALS[fairseq.options, "parse_args_and_arch"], "--bf16").tpu
    for option in ("--bf16", "--memory-efficient-bf16"):
        args = parsed(monkeypatch, parse, option)
        assert args.bf16
        assert not args.tpu


def test_tpu_asked_for_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsed(monkeypatch, fairseq.options.parse_args_and_arch, "--bf16", "--tpu").tpu
    words = ["bin", *TINY, "--bf16", "--tpu"]
    assert fairseq.options.parse_args_and_arch(fairseq.options.get_training_parser(), words).tpu


@pytest.mark.train
def test_bf16_trains_on_a_cpu(data: Path) -> None:
    train(training_config(data, "--bf16"))
    state = torch.load(data / "checkpoints" / "checkpoint_last.pt", map_location="cpu")
    assert state["optimizer_history"][-1]["optimizer_name"] == "FP16Optimizer"
    assert state["optimizer_history"][-1]["num_updates"] == 2
    assert (state["cfg"]["common"]["bf16"], state["cfg"]["common"]["tpu"]) == (True, False)


@pytest.mark.parametrize("words", [["DATA"], []], ids=["with data", "without"])
def test_help_lists_the_options_of_what_is_named(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = [*words, "--arch", "lstm", "--optimizer", "adam", "--help"]
    with pytest.raises(SystemExit) as stopped:
        fairseq.options.parse_args_and_arch(fairseq.options.get_training_parser(), words)
    assert stopped.value.code == 0
    assert {"--encoder-hidden-size", "--adam-betas", "--left-pad-source"} <= set(capsys.readouterr().out.split())
    with pytest.raises(SystemExit):
        ORIGINALS[fairseq.options, "parse_args_and_arch"](fairseq.options.get_training_parser(), words)
    assert "--encoder-hidden-size" not in capsys.readouterr().out


@wants_no_cuda
def test_fp16_without_cuda_is_refused(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"--fp16 .* CUDA .* --bf16"):
        train(training_config(data, "--fp16"))
    monkeypatch.setattr(fairseq.trainer.Trainer, "__init__", ORIGINALS[fairseq.trainer.Trainer, "__init__"])
    with pytest.raises((AssertionError, RuntimeError), match=r"CUDA|NVIDIA"):
        train(training_config(data, "--fp16"))


@wants_no_cuda
@pytest.mark.parametrize(
    ("options", "capabilities", "warnings"),
    [
        (["--bf16"], {"avx512_bf16": False, "amx_bf16": False}, 1),
        (["--bf16"], {"avx512_bf16": True, "amx_bf16": False}, 0),
        (["--bf16"], {"avx512_bf16": False, "amx_bf16": True}, 0),
        (["--bf16"], {"neon": True}, 0),
        ([], {"avx512_bf16": False, "amx_bf16": False}, 0),
    ],
    ids=["old x86", "avx512", "amx", "arm", "float32"],
)
def test_bf16_warns_where_it_is_slow(
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    options: list[str],
    capabilities: dict[str, bool],
    warnings: int,
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    train(training_config(data, "--no-save", *options))
    assert caplog.text.count("no instructions that multiply bfloat16") == warnings


@pytest.mark.parametrize("option", ["--memory-efficient-fp16", "--fp16-no-flatten-grads"])
def test_fp16_that_runs_on_a_cpu_is_not_refused(data: Path, option: str) -> None:
    train(training_config(data, "--fp16", option))
    assert (data / "checkpoints" / "checkpoint_last.pt").exists()


# Several processes


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[DictConfig]:
    """The configurations with which training was started, in place of training."""
    seen: list[DictConfig] = []
    monkeypatch.setattr(fairseq.distributed.utils, "distributed_main", lambda i, main, cfg, kwargs: main(cfg))
    return seen


@wants_no_cuda
@pytest.mark.parametrize("extra", [[], ["--distributed-init-method", "tcp://localhost:29500"]])
def test_processes_that_would_not_start_are_refused(data: Path, ran: list[DictConfig], extra: list[str]) -> None:
    config = training_config(data, "--distributed-world-size", "2", *extra)
    with pytest.raises(InputError, match=r"--distributed-world-size 2: .* torchrun --nproc-per-node 2"):
        fairseq.distributed.utils.call_main(config, ran.append)
    if extra:
        ORIGINALS[fairseq.distributed.utils, "call_main"](config, ran.append)
    else:
        with pytest.raises(AssertionError):
            ORIGINALS[fairseq.distributed.utils, "call_main"](config, ran.append)
    assert ran == []


@wants_no_cuda
@pytest.mark.parametrize("extra", [[], ["--distributed-world-size", "2"]])
def test_torchrun_is_read_on_a_cpu(
    data: Path, ran: list[DictConfig], monkeypatch: pytest.MonkeyPatch, extra: list[str]
) -> None:
    for name, value in zip(TORCHRUN, ("localhost", "29500", "2", "1"), strict=True):
        monkeypatch.setenv(name, value)
    if extra:
        with pytest.raises(ZeroDivisionError):
            ORIGINALS[fairseq.distributed.utils, "call_main"](training_config(data, *extra), ran.append)
    else:
        ORIGINALS[fairseq.distributed.utils, "call_main"](training_config(data), ran.append)
        assert ran.pop().distributed_training.distributed_world_size == 1
    fairseq.distributed.utils.call_main(training_config(data, *extra), ran.append)
    distributed = ran.pop().distributed_training
    assert (distributed.distributed_world_size, distributed.distributed_rank) == (2, 1)
    assert (distributed.distributed_backend, distributed.ddp_backend) == ("gloo", "legacy_ddp")


@wants_no_cuda
def test_processes_on_a_tpu_are_left_to_fairseq(
    data: Path, ran: list[DictConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModuleNotFoundError, match="torch_xla"):
        fairseq.distributed.utils.call_main(training_config(data, "--tpu", "--distributed-world-size", "2"), ran.append)
    for name, value in zip(TORCHRUN, ("localhost", "29500", "2", "1"), strict=True):
        monkeypatch.setenv(name, value)
    fairseq.distributed.utils.call_main(training_config(data, "--tpu"), ran.append)
    assert ran.pop().distributed_training == training_config(data, "--tpu").distributed_training


def test_one_process_is_left_alone(data: Path, ran: list[DictConfig]) -> None:
    fairseq.distributed.utils.call_main(training_config(data), ran.append)
    assert ran.pop().distributed_training == training_config(data).distributed_training


@pytest.mark.parametrize(("given", "named"), [([], str(PLUGIN)), (["--user-dir", "elsewhere"], "elsewhere")])
def test_the_plugin_is_named_to_spawned_processes(
    data: Path, ran: list[DictConfig], given: list[str], named: str
) -> None:
    config = training_config(data)
    if given:
        config.common.user_dir = given[1]
    fairseq.distributed.utils.call_main(config, ran.append)
    assert ran.pop().common.user_dir == named


def test_replacing_unknown_words_wants_raw_data(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = types.ModuleType("fairseq_cli.generate")
    command.main = lambda cfg: "translated"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fairseq_cli.generate", command)
    patches.apply()
    parse = functools.partial(
        fairseq.options.parse_args_and_arch, fairseq.options.get_generation_parser(), input_args=[str(data)]
    )
    args = parse()
    for args.replace_unk, args.dataset_impl, refused in (
        (None, "mmap", False),
        ("@@ ", "raw", False),
        ("@@ ", "mmap", True),
    ):
        for given in (args, convert_namespace_to_omegaconf(args)):
            with pytest.raises(InputError, match="--dataset-impl raw") if refused else contextlib.nullcontext():
                assert command.main(given) == "translated"


@pytest.mark.parametrize(
    "alignment",
    [[(2, 0), (0, 1)], [["0.1", "0.0", "0.7", "0.2"], ["0.5", "0.1", "0.0", "0.4"], ["0.0", "0.0", "0.0", "1.0"]]],
    ids=["hard", "soft"],
)
def test_unknown_words_are_copied_or_looked_up(alignment: list[Any]) -> None:
    copied = fairseq.utils.replace_unk("<unk> <unk>", "Anna sees Vulru", alignment, {}, "<unk>")
    assert copied == "Vulru Anna"
    looked_up = fairseq.utils.replace_unk("<unk> word", "Anna sees Vulru", alignment, {"Vulru": "Voulrou"}, "<unk>")
    assert looked_up == "Voulrou word"
    assert fairseq.utils.replace_unk("<unk>", "Anna", [], {}, "<unk>") == "<unk>"
    with pytest.raises((TypeError, ValueError)):
        ORIGINALS[fairseq.utils, "replace_unk"]("<unk> <unk>", "Anna sees Vulru", alignment, {}, "<unk>")


def test_no_file_is_read_where_none_is_named() -> None:
    assert fairseq.utils.load_align_dict("@@ ") == {}
    with pytest.raises(FileNotFoundError):
        ORIGINALS[fairseq.utils, "load_align_dict"]("@@ ")


# Missing or damaged data


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("*", r"dict\.de\.txt: no such file or directory; .* fairseq-preprocess"),
        ("dict.en.txt", r"dict\.en\.txt: no such file or directory; .* fairseq-preprocess"),
        ("train*", r"bin: no train data for de-en; .* fairseq-preprocess"),
        ("valid*", r"bin: no valid data for de-en; .* --valid-subset"),
    ],
)
def test_missing_data_is_named(data: Path, missing: str, message: str) -> None:
    for path in data.glob(missing):
        path.unlink()
    with pytest.raises(InputError, match=message):
        train(training_config(data, "-s", "de", "-t", "en"))


def test_a_missing_data_directory_is_named(data: Path) -> None:
    config = training_config(data.parent / "none")
    with pytest.raises(InputError, match="none: no such file or directory"):
        fairseq.tasks.setup_task(config.task)
    with pytest.raises(FileNotFoundError):
        ORIGINALS[fairseq.tasks, "setup_task"](config.task)


def test_sides_of_different_size_are_named(data: Path) -> None:
    for suffix in ("bin", "idx"):
        (data / f"train.de-en.en.{suffix}").write_bytes((data / f"test.de-en.en.{suffix}").read_bytes())
    with pytest.raises(InputError, match="de and en sides of the train data differ"):
        train(training_config(data))


# Preprocessing


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "argv", ["fairseq-preprocess"])
    write_corpus(tmp_path, {"train": 13, "valid": 5, "valid1": 3, "test": 5})
    return tmp_path


@pytest.fixture
def preprocess() -> Iterator[Any]:
    """The module as the command has it: loaded before the plugin is."""
    module = importlib.reload(importlib.import_module("fairseq_cli.preprocess"))
    ORIGINALS.pop((module, "main"), None)
    yield module
    importlib.reload(module)
    ORIGINALS.pop((module, "main"), None)


def test_misaligned_files_are_refused_before_preprocessing(corpus: Path, preprocess: Any) -> None:
    (corpus / "valid1.en").write_text("a\nb\n")
    args = preprocessing_args(corpus, "--validpref", f"{corpus}/valid,{corpus}/valid1")
    patches.apply()
    with pytest.raises(InputError, match=r"valid1\.de has 3, \S+valid1\.en has 2"):
        preprocess.main(args)
    assert list((corpus / "bin").iterdir()) == []
    ORIGINALS[preprocess, "main"](args)
    assert (corpus / "bin" / "valid1.de-en.en.bin").exists()


def test_preprocessing_copies_the_record_beside_its_text(corpus: Path, preprocess: Any) -> None:
    (corpus / "bpe.codes").write_text("codes")
    record = {"de": PLAIN_MOSES, "en": Preparation(bpe_codes="bpe.codes")}
    write_record(corpus, record)
    patches.apply()
    preprocess.main(preprocessing_args(corpus))
    assert read_record(corpus / "bin") == record
    assert (corpus / "bin" / "bpe.codes").read_text() == "codes"
    # Text to translate is prepared as the dictionaries' was; a record of its own does not say how.
    write_record(corpus, {})
    words = ["--trainpref", "", "--validpref", "", "--srcdict", f"{corpus}/bin/dict.de.txt"]
    words += ["--tgtdict", f"{corpus}/bin/dict.en.txt", "--dataset-impl", "raw"]
    preprocess.main(preprocessing_args(corpus, *words))
    assert read_record(corpus / "bin") == record
    preprocess.main(preprocessing_args(corpus, *words, "--destdir", str(corpus / "test")))
    assert read_record(corpus / "test") == {}


def test_training_copies_the_record_of_its_data(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    train(training_config(data, "--max-update", "1", "--save-dir", str(folder)))
    assert read_record(folder) is None
    write_record(data, {"de": PLAIN_MOSES})
    train(training_config(data, "--max-update", "1", "--save-dir", str(folder)))
    assert read_record(folder) == {"de": PLAIN_MOSES}


def test_the_main_module_is_cured_too(monkeypatch: pytest.MonkeyPatch, corpus: Path) -> None:
    started = types.ModuleType("__main__")
    vars(started).update(main=lambda args: args, __spec__=argparse.Namespace(name="fairseq_cli.preprocess"))
    monkeypatch.setitem(sys.modules, "__main__", started)
    patches.apply()
    (corpus / "test.de").unlink()
    with pytest.raises(InputError, match=r"test\.de"):
        started.main(preprocessing_args(corpus))


# Errors


def test_input_errors_are_printed_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    delegated: list[BaseException] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, value, trace: delegated.append(value))
    print_without_traceback()
    chained = RuntimeError("Cannot load model parameters")
    chained.__cause__ = InputError("x.pt: of another model; give another")
    for error in (InputError("train.de, line 3: bad; mend it"), KeyError("other"), chained, KeyboardInterrupt()):
        sys.excepthook(type(error), error, None)
    printed = "error: train.de, line 3: bad; mend it\nerror: x.pt: of another model; give another\n"
    assert capsys.readouterr().err == f"{printed}\nstopped by Ctrl-C\n"
    assert [type(error) for error in delegated] == [KeyError]


def run_python(*words: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program that finds this checkout's package."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    words = (sys.executable, *map(str, words))
    return subprocess.run(words, cwd=cwd, env=environment, check=False, capture_output=True, text=True, timeout=300)


RUNS_A_COMMAND = f"""
import sys
import fairseq_cli.preprocess
def other():
    sys.argv[1:] = [*"--only-source -s de -t en --dict-only --trainpref x".split(), "--user-dir", "{PLUGIN}"]
    fairseq_cli.preprocess.cli_main()
try:
    other()
except ValueError as error:
    assert "x.de" in str(error)
"""
FAILS = """
import sys
from rnnsearch_fairseq.errors import InputError
assert sys.excepthook is sys.__excepthook__
raise InputError('x: bad; mend it')
"""


@pytest.mark.slow
@pytest.mark.parametrize("imports", ["import fairseq_cli.train; import rnnsearch_fairseq", ""])
def test_other_programs_print_errors_as_they_do(tmp_path: Path, imports: str) -> None:
    """A package of another name that imports this one, and a program that has run a command of fairseq's."""
    (tmp_path / "rnnsearch_fairseq_tools").mkdir()
    (tmp_path / "rnnsearch_fairseq_tools/__init__.py").write_text(imports)
    (tmp_path / "rnnsearch_fairseq_tools/tool.py").write_text(("" if imports else RUNS_A_COMMAND) + FAILS)
    done = run_python("-m", "rnnsearch_fairseq_tools.tool", cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert done.stderr.endswith("rnnsearch_fairseq.errors.InputError: x: bad; mend it\n")


PREPROCESS = ["--user-dir", PLUGIN, "-s", "de", "-t", "en", "--trainpref", "x"]
COMMANDS = {
    "of this package, without patches": ["-m", "rnnsearch_fairseq", "average", "out.pt", "x.de"],
    "of fairseq, by name": [Path(sys.executable).parent / "fairseq-preprocess", *PREPROCESS],
    "of fairseq, as a module": ["-m", "fairseq_cli.preprocess", *PREPROCESS],
}


@pytest.mark.slow
@pytest.mark.parametrize("which", COMMANDS)
def test_a_command_ends_in_one_sentence_and_status_1(tmp_path: Path, which: str) -> None:
    variables = {"RNNSEARCH_PATCHES": "none"} if "without patches" in which else {}
    done = run_python(*COMMANDS[which], cwd=tmp_path, **variables)
    assert done.returncode == 1
    assert re.search(r"^error: x\.de: [^\n]+; [^\n]+\n\Z", done.stderr, re.MULTILINE), done.stderr
    assert "Traceback" not in done.stderr


# The log


@pytest.mark.parametrize(
    ("category", "module", "message", "shown"),
    [
        (FutureWarning, "fairseq.tasks.fairseq_task", "`torch.cuda.amp.autocast(args...)` is deprecated", False),
        (DeprecationWarning, "torch", "deprecated", False),
        (UserWarning, "hydra.compose", "The strict flag in the compose API is deprecated", False),
        (UserWarning, "sys", "\n'config' is validated against ConfigStore schema with the same name", False),
        (UserWarning, "torch.utils.data.dataloader", "'pin_memory' argument is set as true but no", False),
        (UserWarning, "torch.cuda", "The NVIDIA driver on your system is too old", True),
        (FutureWarning, "rnnsearch_fairseq.models", "another default", True),
        (FutureWarning, "torch_plugin_of_a_user", "deprecated", True),
        (UserWarning, "__main__", "deprecated", True),
    ],
)
def test_warnings_for_the_authors_of_libraries_are_hidden_in_commands_only(
    monkeypatch: pytest.MonkeyPatch, category: type[Warning], module: str, message: str, shown: bool
) -> None:
    def is_shown() -> bool:
        with warnings.catch_warnings(record=True) as recorded:
            warnings.warn_explicit(message, category, "x.py", 1, module, registry={})
        return bool(recorded)

    with warnings.catch_warnings():
        warnings.resetwarnings()
        fixes.ignore_warnings_about_libraries()
        assert is_shown()
        monkeypatch.setattr(fixes, "_is_fairseq_command", lambda: True)
        fixes.ignore_warnings_about_libraries()
        assert is_shown() is shown
        warnings.simplefilter("always")  # as by -W
        fixes.ignore_warnings_about_libraries()
        assert is_shown()


def test_only_parameters_that_are_shared_are_reported_as_shared() -> None:
    catalog = fairseq.trainer._catalog_shared_params
    model = torch.nn.Sequential(*(torch.nn.Linear(2, 2, bias=False) for _ in range(3)))
    assert ORIGINALS[fairseq.trainer, "_catalog_shared_params"](model) == [["0.bias", "1.bias", "2.bias"]]
    assert catalog(model) == []
    model[2].weight = model[0].weight
    assert catalog(model) == [["0.weight", "2.weight"]]


# Symbols and blank lines


def words_of(*words: str) -> fairseq.data.Dictionary:
    dictionary = fairseq.data.Dictionary()
    for word in words:
        dictionary.add_symbol(word)
    return dictionary


def test_symbols_in_a_line_are_unknown_words() -> None:
    dictionary = words_of("a", "b")
    line = "a <pad> </s> b <s> <unk> c"
    unknown, a, b = dictionary.unk(), dictionary.index("a"), dictionary.index("b")
    assert ORIGINALS[type(dictionary), "encode_line"](dictionary, line, add_if_not_exist=False).tolist()[1:3] == [1, 2]
    expected = [a, unknown, unknown, b, unknown, unknown, unknown]
    assert dictionary.encode_line(line, add_if_not_exist=False).tolist() == [*expected, 2]
    assert dictionary.encode_line(line, add_if_not_exist=False, reverse_order=True).tolist() == [*expected[::-1], 2]
    told: list[tuple[str, int]] = []
    dictionary.encode_line("a </s>", add_if_not_exist=False, consumer=lambda *word: told.append(word))
    assert told == [("a", a), ("<unk>", unknown)]
    # Models with other inputs write their symbols themselves, and no end-of-sentence is appended.
    assert dictionary.encode_line("<s> a </s>", add_if_not_exist=False, append_eos=False).tolist() == [0, a, 2]


def test_a_word_with_the_letters_of_a_symbol_stays_a_word() -> None:
    dictionary = words_of("a")
    dictionary.add_symbol("</s>", overwrite=True)
    assert dictionary.encode_line("a </s>", add_if_not_exist=False).tolist() == [4, 5, 2]


def test_symbols_in_text_are_unknown_words_in_raw_and_binarized_data(corpus: Path, preprocess: Any) -> None:
    (corpus / "test.de").write_text("w1 </s> <pad> w1\n" * 5)
    patches.apply()
    preprocess.main(preprocessing_args(corpus))
    dictionary = fairseq.data.Dictionary.load(str(corpus / "bin" / "dict.de.txt"))
    w1, unknown = dictionary.index("w1"), dictionary.unk()
    raw = fairseq.data.indexed_dataset.IndexedRawTextDataset(str(corpus / "test.de"), dictionary)
    binarized = fairseq.data.data_utils.load_indexed_dataset(str(corpus / "bin" / "test.de-en.de"), dictionary)
    for some in (raw, binarized):
        assert some[0].tolist() == [w1, unknown, unknown, w1, 2]


def test_blank_sentences_are_translated_by_nothing(data: Path) -> None:
    task = fairseq.tasks.setup_task(training_config(data).task)

    class Generator:
        def generate(self, models: Any, sample: dict[str, Any], **kwargs: Any) -> list[list[dict[str, Any]]]:
            return [[{"tokens": torch.tensor([5, 2])}, {"tokens": torch.tensor([2])}] for _ in range(3)]

    sample = {"net_input": {"src_tokens": torch.tensor([[1, 1, 2], [4, 5, 2], [2, 1, 1]])}}
    first, second, third = task.inference_step(Generator(), [], sample)
    assert len(second) == 2
    for (best,) in (first, third):
        assert best["tokens"].tolist() == [2]
        assert best["positional_scores"].tolist() == [0]
    prefixed = task.inference_step(Generator(), [], sample, prefix_tokens=torch.tensor([[5]] * 3))
    assert [len(found) for found in prefixed] == [2, 2, 2]
    without = ORIGINALS[fairseq.tasks.translation.TranslationTask, "inference_step"]
    assert [len(found) for found in without(task, Generator(), [], sample)] == [2, 2, 2]
