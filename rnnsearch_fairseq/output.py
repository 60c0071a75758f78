"""Write files that appear under their names only when they are complete."""

import contextlib
import errno
import fcntl
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

MAX_LINKS = 40  # of a path, as in Linux
outputs_begun: set[Path] = set()  # the files and folders that this process has begun to write


def check_not_input(outputs: Path | Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuse outputs that would replace an input or each other, or lie in a folder that is read; None is no path."""
    taken = {Path(os.path.realpath(path)) for path in inputs if path is not None}
    for path in [outputs] if isinstance(outputs, Path) else outputs:
        if path is None:
            continue
        place = Path(os.path.realpath(path))
        if not taken.isdisjoint([place, *place.parents]):
            reason = "would replace an input or another output" if place in taken else "lies inside an input"
            raise InputError(f"{path}: it {reason}; give another name")
        taken.add(place)


def open_standard_streams() -> None:
    """Reopen a closed standard stream on /dev/null, so that the next file does not get its number.

    Reading or writing there then fails, as in other programs.
    """
    for name, flags, mode in (("stdin", os.O_WRONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, flags), mode, encoding="utf-8"))
    sys.stdout.reconfigure(errors="surrogateescape")  # names of files may be any bytes


def stop_printing() -> None:
    """Discard further standard output, after a ``BrokenPipeError`` (the reader, such as head, has closed the pipe)."""
    # At exit, Python would try again to print the rest.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def find_cure(error: OSError, otherwise: str) -> str:
    """What the user can do: free some disk space if it is full, or what ``otherwise`` says."""
    return "free some disk space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else otherwise


@contextlib.contextmanager
def open_output(path: Path, packs: bool = True) -> Iterator[BinaryIO]:
    """Open a command's output file, packed if its name ends in .gz, unless ``packs`` is false.

    It gets the name ``path``, and the permissions of the file that it replaces, when it is complete and on the disk.
    Until then it has a random name, and an exception removes it.
    """
    packed = packs and path.name.lower().endswith(".gz")
    # A descriptor, such as /dev/stdout, may be a file, to which other programs write, too.
    names = [path]
    while os.path.islink(names[-1]) and len(names) < MAX_LINKS:
        names.append(names[-1].parent / names[-1].readlink())
    is_descriptor = any(os.path.realpath(name.absolute().parent).startswith("/proc/") for name in names)
    if is_descriptor or (os.path.exists(path) and not (os.path.isfile(path) and os.access(path, os.W_OK))):
        raise InputError(f"{path}: not a file that can be written; give another name")
    path = Path(os.path.realpath(path))
    partial = path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}.tmp")
    outputs_begun.add(path)
    try:
        with partial.open("xb") as file:
            if os.path.isfile(path):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            if packed:
                with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packing:
                    yield packing
            else:
                yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BrokenPipeError:  # of standard output, to which a command may print meanwhile
        raise
    except OSError as error:
        cure = find_cure(error, "give another name")
        raise InputError(f"{path}: cannot be written ({error.strerror}); {cure}") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


@contextlib.contextmanager
def write_folder(out: Path, inputs: Iterable[Path] = ()) -> Iterator[Path]:
    """Give a new folder, whose files go to the folder ``out`` at the end; after an error, ``out`` is as it was.

    ``out`` is new, or holds nothing but inputs. The process locks ``out``. A killed command leaves the new folder,
    ``out/.new``, and the next command empties it.
    """
    holding = {place for path in map(Path.resolve, inputs) for place in (path, *path.parents)}
    inside = sorted(out.resolve().iterdir()) if out.is_dir() else []
    if others := [path.name for path in inside if path.name != ".new" and path not in holding]:
        raise InputError(f"{out}: is not empty ({quote(', '.join(others))}); give a new folder")
    outputs_begun.add(out)
    new, was_there = out / ".new", os.path.exists(out)
    try:
        new.mkdir(parents=True, exist_ok=True)
        lock = os.open(out, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            cure = "wait for its end, or give another folder"
            raise InputError(f"{out}: another command writes to it; {cure}") from None
        except OSError:  # the file system has no locks
            pass
        shutil.rmtree(new)
        new.mkdir()
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror}); give another folder") from error
    try:
        yield new
        places = {path: out / path.relative_to(new) for path in sorted(new.rglob("*")) if path.is_file()}
        for place in places.values():
            place.parent.mkdir(exist_ok=True)
            if os.path.isdir(place):
                raise InputError(f"{place}: a folder, where a file is to be written; remove it")
        for path, place in places.items():
            os.replace(path, place)
    finally:
        shutil.rmtree(new)
        os.close(lock)
        if not was_there:
            with contextlib.suppress(OSError):
                out.rmdir()  # if nothing is in it
