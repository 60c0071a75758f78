"""The blocks of README.md, and those on trees in recipes/README.md, typed in order on a small text."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from recipes import grammar
from rnnsearch_fairseq.inference.loading import load_members
from tests.commands import ROOT, type_in
from tests.corpus.builders import LANGUAGES, number_pairs

TINY = " ".join(f"--{name}-size 8" for name in ("embedding", "hidden"))
# What a test cannot wait for is shorter here; all else is typed as it stands.
CHANGES = {
    "recipes/setup.sh && source .venv/bin/activate": "true",
    "rnnsearch serve --model": "rnnsearch info",
    "bash runs/text/train.sh": "sed -i 's/-update [0-9]*/-update 2/g' runs/text/train.sh; bash runs/text/train.sh",
    "bash runs/own/train.sh": "bash -n runs/own/train.sh",  # a test of prepare runs it
    "--arch bahdanau_gru ": f"--arch bahdanau_gru {TINY} --alignment-size 8 --maxout-size 8 ",
    "--max-update 288000": "--max-update 2",
    "--arch tree2seq_small": "--arch tree2seq_small --embedding-size 32 --hidden-size 32",
    "--blackout-samples 500 --sentence-avg --batch-size 128": "--blackout-samples 5 --sentence-avg --batch-size 8",
    # Flat trees in place of Link Grammar's.
    "python -m recipes.trees.parse": "sed 's/[^ ]*/(X &)/g; s/.*/(S &)/'",
    "$part.en --output": "$part.en >",
}
GENERATE = """echo fairseq:
fairseq-generate runs/trees/bin --user-dir rnnsearch_fairseq -s en -t fr --task rnnsearch --tree-lang tree \\
    --batch-size 7 --search tree2seq --length-statistics runs/trees/lengths --beam 20 --max-len-b 100 \\
    --path runs/trees/checkpoints/checkpoint_best.pt | grep ^H- | sort -V | cut -f 3
"""


def blocks(path: Path, language: str) -> str:
    """The text of a README's blocks in a language, one after the other."""
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), flags=re.DOTALL | re.MULTILINE))


def shorten(script: str) -> str:
    for typed, shorter in CHANGES.items():
        script = script.replace(typed, shorter)
    return script


def after_the_quick_start(script: str, folder: Path, pairs: Iterable[tuple[str, str]]) -> str:
    """What commands print where the quick start has written these pairs."""
    text = folder / "runs/quickstart/text"
    text.mkdir(parents=True)
    for language, side in zip(LANGUAGES, zip(*pairs)):
        (text / f"train.{language}").write_text("".join(f"{sentence} .\n" for sentence in side))
    return type_in(script, folder)


@pytest.mark.slow
@pytest.mark.train
def test_the_blocks_can_be_typed_in_order(tmp_path: Path) -> None:
    python = f"python - <<'END'\n{blocks(ROOT / 'README.md', 'python')}\nprint('aligned', target)\nEND"
    commands, runs = blocks(ROOT / "README.md", "sh").partition("recipes/setup.sh"), tmp_path / "runs"
    printed = after_the_quick_start(f"{shorten(commands[1] + commands[2])}\n{python}", tmp_path, number_pairs(200))
    for words in ("Renvoie une copie de la liste.", "aligned ['Renvoie', 'une'"):
        assert words in printed
    before, after = printed.split("\nafter:\n")
    assert "BLEU|" in before.partition("before, by the given model:")[2] and "BLEU|" in after
    assert len((runs / "text/test.before.fr").read_text().splitlines()) == 16
    adapted, given = load_members(runs / "text/model")[0], load_members(ROOT / "recipes/docs_en_fr/model")[0]
    assert adapted.usage.search == given.usage.search and adapted.text.vocabularies == given.text.vocabularies
    assert "Ouvrez la page" in (runs / "guide.fr.md").read_text()
    for folder in ("filled", "refilled"):
        assert 'msgstr "Supprimer l\'image"' in (runs / folder / "messages.po").read_text()
    for made in ("text/model/config.json", "paper/checkpoints/checkpoint_best.pt"):
        assert (runs / made).exists()


@pytest.mark.slow
@pytest.mark.train
def test_the_blocks_on_trees_can_be_typed_in_order(tmp_path: Path) -> None:
    """fairseq finds the same translations in binarised trees."""
    pairs = [(" ".join(p.source[:-1]), " ".join(p.target[:-1])) for p in grammar.generate(200, seed=1, longest=8)]
    printed = after_the_quick_start(shorten(blocks(ROOT / "recipes/README.md", "sh")) + GENERATE, tmp_path, pairs)
    translations, by_fairseq = (part.splitlines()[-10:] for part in printed.split("fairseq:\n"))
    assert translations == by_fairseq and len(set(translations)) > 3
    assert "10 sentences, 10 parsed -> runs/trees/test.tree" in printed
