"""Write files that appear under their names only when they are complete."""

import contextlib
import gzip
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from rnnsearch_fairseq.errors import InputError, quote

outputs_begun: set[Path] = set()  # the files and folders that this process has begun to write


def check_not_input(outputs: Path | Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuse outputs that would replace an input or each other, or lie in a folder that is read; None is no path."""
    taken = {Path(os.path.realpath(path)) for path in inputs if path is not None}
    for path in filter(None, [outputs] if isinstance(outputs, Path) else outputs):
        place = Path(os.path.realpath(path))
        if not taken.isdisjoint([place, *place.parents]):
            reason = "would replace an input or another output" if place in taken else "lies inside an input"
            raise InputError(f"{path}: it {reason}; give another name")
        taken.add(place)


def check_standard_streams() -> None:
    """End the program if a standard stream is closed. Otherwise the next file that is opened would get the stream's
    number, and receive the text written to the stream."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        sys.exit("error: a standard stream is closed; give /dev/null in its place")
    sys.stdout.reconfigure(errors="surrogateescape")  # names of files may be any bytes


def stop_printing() -> None:
    """Discard further standard output, which has failed. At exit, Python would try again to print the rest."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def open_output(path: Path, packs: bool = True) -> Iterator[BinaryIO]:
    """Open a command's output file, packed if its name ends in .gz, unless ``packs`` is false.

    When the file is complete and on the disk, it gets the name ``path`` and the permissions of the file that it
    replaces. Until then it has a random name, and an exception removes it.
    """
    packed = packs and path.name.lower().endswith(".gz")
    # /dev/stdout may lead to a file to which other programs write, too. os.replace would take the file from them.
    folder = os.path.realpath(path.absolute().parent)
    is_descriptor = folder == "/dev" or folder.startswith("/proc/")
    if os.path.exists(path) and (is_descriptor or not (os.path.isfile(path) and os.access(path, os.W_OK))):
        raise InputError(f"{path}: not a file that can be written; give another name")
    path = Path(os.path.realpath(path))
    partial = path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}.tmp")
    outputs_begun.add(path)
    try:
        with partial.open("xb") as file:
            if os.path.isfile(path):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) if packed else contextlib.nullcontext(file) as opened:
                yield opened
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BrokenPipeError:  # of standard output, to which a command may print meanwhile
        raise
    except OSError as error:
        cure = "free some disk space, or give another name"
        raise InputError(f"{path}: cannot be written ({error.strerror}); {cure}") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


@contextlib.contextmanager
def write_folder(out: Path) -> Iterator[Path]:
    """Yield a new folder, whose files move to ``out`` at the end. After an error, ``out`` is as before.

    ``out`` is missing or empty. The new folder is ``out/.new``, so that a second command for ``out`` is refused. A
    command that is killed leaves it there.
    """
    new, was_there = out / ".new", os.path.exists(out)
    outputs_begun.add(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        if inside := sorted(os.listdir(out)):
            cure = f"wait for the command that writes it; if that was killed, remove {new}"
            cure = cure if inside == [".new"] else "give a new folder"
            raise InputError(f"{out}: is not empty ({quote(', '.join(inside))}); {cure}")
        new.mkdir()
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror}); give another folder") from error
    try:
        yield new
        for path in new.iterdir():
            os.replace(path, out / path.name)
    finally:
        shutil.rmtree(new)
        if not was_there:
            with contextlib.suppress(OSError):
                out.rmdir()  # if nothing is in it
