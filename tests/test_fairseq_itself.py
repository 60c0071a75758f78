"""What fairseq does without the plugin, it does with it: its own models, and its own tests."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationConfig, TranslationTask

import rnnsearch_fairseq  # noqa: F401  (the plugin is loaded)
from tests.builders import EOS, make_dictionary, make_sample, parse_training

# Hydra and fairseq warn of each other's age.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

ROOT = Path(__file__).resolve().parents[1]
FAIRSEQ_TESTS = ROOT.parent / "shared" / "peer" / "fairseq-tests"
# Of these, those that take long or that only the data format needs are left out.
SOME = ("checkpoint_utils", "iterators", "label_smoothing", "sequence_generator", "sequence_scorer", "train")
TRANSFORMER = "--arch transformer --encoder-embed-dim 8 --decoder-embed-dim 8 --encoder-layers 1 --decoder-layers 1"
TRANSFORMER += " --encoder-attention-heads 2 --decoder-attention-heads 2 --optimizer adam"


def translation_task() -> TranslationTask:
    dictionary = make_dictionary(20)
    return TranslationTask(TranslationConfig(), dictionary, dictionary)


def test_models_of_fairseq_can_be_scripted() -> None:
    task = translation_task()
    model = task.build_model(parse_training(*TRANSFORMER.split()).model).eval()
    generator = SequenceGenerator([model], task.target_dictionary, beam_size=2, max_len_b=6)
    scripted = torch.jit.script(generator)
    sample = {"net_input": make_sample([[4, 5, EOS], [6, 7, 8, EOS]], [[EOS], [EOS]], left=True)["net_input"]}
    for found, expected in zip(scripted(sample), generator(sample)):
        assert [hypothesis["tokens"].tolist() for hypothesis in found] == [
            hypothesis["tokens"].tolist() for hypothesis in expected
        ]


def run_fairseq_tests(*words: str) -> dict[str, str]:
    """The outcome of each test: PASSED, FAILED, ..."""
    command = ["python", "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=FAIRSEQ_TESTS, env=environment, check=False, capture_output=True, text=True, timeout=500
    )
    return {test: outcome for outcome, test in re.findall(r"^(PASSED|FAILED|ERROR) (tests/\S+)", done.stdout, re.M)}


@pytest.mark.slow
@pytest.mark.skipif(not FAIRSEQ_TESTS.is_dir(), reason=f"fairseq's own tests are not in {FAIRSEQ_TESTS}")
def test_what_fails_with_the_plugin_fails_without_it() -> None:
    pytest.importorskip("parameterized")
    files = [f"tests/test_{name}.py" for name in SOME]
    loaded = run_fairseq_tests("-p", "fairseq", "-p", "rnnsearch_fairseq", *files)
    failed = [test for test, outcome in loaded.items() if outcome != "PASSED"]
    assert len(loaded) - len(failed) > 30
    assert not failed or "PASSED" not in run_fairseq_tests(*failed).values(), failed
