"""Text files, read and checked line by line."""

from itertools import pairwise
from pathlib import Path

import pytest

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.lines import read_lines, read_rows


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "x: cannot be read"),
        (b"", "x: the file is empty; give"),
        (b"good\nbad \xff here\n", "x, line 2: not UTF-8 .* byte 0xff .* iconv"),
        (b"good\nba\rd\n", "x, line 2: stray carriage return"),
        (b"good\rbad\r\n", "x, line 1: stray carriage return"),
    ],
)
def test_bad_text_is_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "x").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_rows(tmp_path / "x")


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes("\ufeffa\n\ufeffb".encode())
    assert [*read_lines(tmp_path / "x")] == ["a\n", "\ufeffb"]


@pytest.mark.parametrize(
    "text", ["a\nb\n", "a\nb", "a\r\nb\r\n", "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n\n", "ä\ufeff\n\nb"]
)
@pytest.mark.parametrize("workers", [1, 3])
def test_lines_are_counted_as_fairseq_reads_them(tmp_path: Path, text: str, workers: int) -> None:
    from fairseq.file_chunker_utils import Chunker, find_offsets

    path = tmp_path / "x"
    path.write_bytes(text.encode())
    offsets = find_offsets(str(path), workers)
    read = 0
    for start, end in pairwise(offsets):
        with Chunker(str(path), start, end) as lines:
            read += sum(1 for _ in lines)
    assert len(read_rows(path, path)) == read
