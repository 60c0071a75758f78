"""The attention that README.md adds, as printed there: it is trained, searched, scored and exported."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import rnnsearch_fairseq
from rnnsearch_fairseq.inference.export import export
from rnnsearch_fairseq.modules import attention, decoder
from tests.trained import train

README = Path(attention.__file__).with_name("README.md").read_text(encoding="utf-8")
PAIRS = {"The black dog eats.": "le chien noir mange.", "The cat sleeps.": "le chat dort."}


def test_the_example_is_trained_searched_scored_and_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    the_class, the_line = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, Any] = vars(attention).copy()
    exec(the_class, names)
    chosen = re.compile(r"\w+\(n, annotation_size.*?\)")  # the call that makes the attention
    present = [line for line in inspect.getsource(decoder.Decoder.__init__).splitlines() if "AlignmentModel(" in line]
    assert [chosen.sub("", line) for line in present] == [chosen.sub("", the_line.rstrip())]
    make = chosen.search(the_line).group()
    monkeypatch.setattr(decoder, "AlignmentModel", lambda n, annotation_size, _: eval(make, names, locals()))

    # No other test has this size, so that none is given this model.
    folder = train(tmp_path / "run", alignment_size=33)
    export(str(folder), tmp_path / "exported")
    models = [rnnsearch_fairseq.load(path) for path in (folder, tmp_path / "exported")]
    for model in models:
        assert type(model.networks[0].decoder.attention) is names["DotAttention"]
        for source, target in PAIRS.items():
            ((best,),) = model.translations([source], nbest=1, beam=3)
            (scored,) = model.align([source], [best.text])
            assert best.text == target
            torch.testing.assert_close(best.logprobs, scored.logprobs, rtol=0, atol=1e-5)
            torch.testing.assert_close(best.weights, scored.weights, rtol=0, atol=1e-5)
