"""A test set of all lengths, from a text of which most sentences are short."""

from pathlib import Path

from recipes.docs_en_fr.lengths import main
from tests.recipes.reproduce.builders import printed_by, write


def test_every_bin_gets_as_many_pairs_as_it_may(tmp_path: Path) -> None:
    lengths = [1] * 20 + [10, 15, 21, 99] + [35] * 4
    source = [f"{number}@@ " + " ".join("s" * length) for number, length in enumerate(lengths)]
    write(tmp_path / "text.en", source)
    write(tmp_path / "text.fr", [line.replace("s", "t") for line in source])
    words = [tmp_path / "text", tmp_path / "out", "-s", "en", "-t", "fr", "--most", 3, "--longest", 20]
    assert printed_by(main, *words) == f"7 of 28 pairs -> {tmp_path / 'out'}\n"
    chosen = (tmp_path / "out.en").read_text().splitlines()
    assert [lengths[source.index(line)] for line in chosen[3:4]] == [15]
    assert set(chosen) < set(source) and len(set(chosen)) == 7
    assert all(source.index(line) < 21 for line in chosen[:3]) and all(source.index(line) > 21 for line in chosen[4:])
    assert (tmp_path / "out.fr").read_text().splitlines() == [line.replace("s", "t") for line in chosen]
