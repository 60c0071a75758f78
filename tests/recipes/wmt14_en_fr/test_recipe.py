"""The recipe of the paper's own data: its README's commands, on a few sentences in place of the corpora."""

import gzip
import shutil
import tarfile
from pathlib import Path

import pytest

from tests.commands import run_block

OUT = "runs/wmt14_en_fr"
ARCHIVES = {
    "training-parallel-europarl-v7.tgz": "training/europarl-v7.fr-en",
    "training-parallel-nc-v9.tgz": "training/news-commentary-v9.fr-en",
    "training-parallel-commoncrawl.tgz": "commoncrawl.fr-en",
    "training-parallel-un.tgz": "un/undoc.2000.fr-en",
    "training-giga-fren.tar": "giga-fren.release2.fixed",
    "dev.tgz": "dev/newstest201",
}
CURL = 'while [ $# -gt 2 ]; do shift; done; cp "web/${2##*/}" "$1"'  # the last words are the output and the address
SACREBLEU = """echo 'The &quot;R&amp;D&quot;.'"""
# In place of the language models: the first pairs are the best.
PYTHON = """case "$*" in
    *selection*) for side in en fr; do head -n 3 "$3.$side" > "$5.$side"; done ;;
    *) exec {python} "$@" ;;
esac"""


def write_archives(folder: Path) -> None:
    """The archives as they are on the web: each name of a corpus with both languages, a line for each file."""
    folder.mkdir()
    for archive, corpus in ARCHIVES.items():
        with tarfile.open(folder / archive, "w:gz" if archive.endswith("tgz") else "w") as file:
            for year in ("2", "3") if corpus.startswith("dev") else ("",):
                for language, text in (("en", "A cat\rsleeps.\n"), ("fr", "Un chat dort.\n")):
                    packed = ".gz" if corpus.startswith("giga") else ""
                    path = folder / "file"
                    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
                    file.add(path, f"{corpus}{year}.{language}{packed}")


@pytest.mark.slow
def test_the_data_commands_make_what_fairseq_trains_on(tmp_path: Path) -> None:
    write_archives(tmp_path / "web")
    run_block("wmt14_en_fr", "curl", tmp_path, curl=CURL, sacrebleu=SACREBLEU)
    assert (tmp_path / OUT / "raw/test.en").read_text() == 'The "R&D".\n'
    run_block("wmt14_en_fr", "rnnsearch prepare", tmp_path, python=PYTHON.format(python=shutil.which("python")))
    assert (tmp_path / OUT / "raw/train.en").read_text() == "A cat sleeps.\n" * 5
    assert (tmp_path / OUT / "text/train.en").read_text() == "A cat sleeps .\n" * 3
    assert (tmp_path / OUT / "text/valid.en").read_text() == "A cat sleeps .\n" * 2
    assert (tmp_path / OUT / "text/preparation.json").is_file()
    words = (tmp_path / OUT / "text/bin/dict.fr.txt").read_text().split()[::2]
    assert set(words) == {"Un", "chat", "dort", "."}
