"""Ways to damage the content of a file."""

import contextlib
import io
import json
import pickle
import pickletools
import re
import zipfile
from argparse import Namespace
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import torch

Mutation = Callable[[bytes, Random], bytes]

# Pieces that readers do not expect, or that have a meaning to some of them.
PIECES = [
    *[b"\0", b"\r", b"\n", b"\n\n", b" ", b"\t", b"\x1b[2J", b"\x7f", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5"],
    *["\u202e", "\u2028", "\x85", "\xa0", "\ufeff", "é", "א", "𝔸"],
    *[
        b"-1",
        b"0",
        b"00",
        b"9" * 20,
        b"9" * 400,
        b"9" * 5000,
        b"1e400",
        b"-1e400",
        b"nan",
        b"-inf",
        b"1.5",
        b"0x1",
        b"1_0",
    ],
    *[b"18446744073709551616", b"9223372036854775807", b"2147483648", b"\xff\xff\xff\x7f", b"\xff" * 8, b"\0" * 8],
    *[b"../../canary", b"/dev/zero", b"${oc.env:HOME}", b"%s%n", b"<unk>", b"<pad>", b"</s>", b"@@", "▁", b"#"],
    *[
        b'"',
        b"'",
        b"\\",
        b"[",
        b"]",
        b"{",
        b"}",
        b"(",
        b")",
        b"<",
        b">",
        b"<!DOCTYPE",
        b"&",
        b";",
        b":",
        b",",
        b"|",
        b"-",
    ],
]
LARGEST = 1_000_000  # bytes inserted at one place
DEEP = (b"[", b"(", b"{", b'{"a":', b"<cons>", b"<a>", b"((", b"-")
VALUES: list[Any] = [
    *[
        None,
        True,
        False,
        0,
        -1,
        1,
        2**31,
        2**63,
        10**30,
        10**400,
        10**5000,
        1.5,
        -0.0,
        1e308,
        float("nan"),
        float("inf"),
    ],
    *["", "x", "-1", "../../canary", "${oc.env:HOME}", "/dev/zero", "\ud800", "\0", "a" * 1000],
    *[[], {}, [[]], [None], {"": None}, {"a": {"a": []}}, [1, "a", None]],
]


def damage(content: bytes, generator: Random, pieces: Sequence[bytes] = ()) -> bytes:
    """``content`` with one to eight places changed."""
    for _ in range(generator.choice([1, 1, 1, 2, 3, 8])):
        content = generator.choice(CHANGES)(content, generator, pieces)
    return content


def _span(content: bytes, generator: Random) -> tuple[int, int]:
    begin = generator.randrange(len(content) + 1)
    return begin, min(len(content), begin + generator.choice([0, 1, 1, 2, 5, 20, 200, 5000]))


def _flip(content: bytes, generator: Random, _: Sequence[bytes]) -> bytes:
    changed = bytearray(content)
    for _ in range(generator.choice([1, 1, 4]) if changed else 0):
        changed[generator.randrange(len(changed))] ^= 1 << generator.randrange(8)
    return bytes(changed)


def _cut(content: bytes, generator: Random, _: Sequence[bytes]) -> bytes:
    return content[: generator.randrange(len(content) + 1)]


def _delete(content: bytes, generator: Random, _: Sequence[bytes]) -> bytes:
    begin, end = _span(content, generator)
    return content[:begin] + content[end:]


def _repeat(content: bytes, generator: Random, _: Sequence[bytes]) -> bytes:
    begin, end = _span(content, generator)
    return content[:end] + content[begin:end] * generator.randrange(1, 5) + content[end:]


def _insert(content: bytes, generator: Random, pieces: Sequence[bytes]) -> bytes:
    begin, end = _span(content, generator)
    piece = generator.choice([*pieces, *pieces, *PIECES])
    piece = piece.encode() if isinstance(piece, str) else piece
    return content[:begin] + piece + content[generator.choice([begin, end]) :]


def _noise(content: bytes, generator: Random, _: Sequence[bytes]) -> bytes:
    begin, end = _span(content, generator)
    return content[:begin] + generator.randbytes(generator.choice([1, 4, 8, 100])) + content[end:]


def _number(content: bytes, generator: Random, _: Sequence[bytes]) -> bytes:
    numbers = list(re.finditer(rb"\d+", content[:100_000]))
    if not numbers:
        return content
    found = generator.choice(numbers)
    new = generator.choice(
        [b"", b"0", b"-1", b"1.5", b"nan", b"1e999", b"9" * 19, b"9" * 5000, b"%d" % generator.getrandbits(40)]
    )
    return content[: found.start()] + new + content[found.end() :]


def _lines(content: bytes, generator: Random, _: Sequence[bytes]) -> bytes:
    lines = content.split(b"\n")
    first, second = generator.randrange(len(lines)), generator.randrange(len(lines))
    change = generator.randrange(4)
    if change == 0:
        lines[first], lines[second] = lines[second], lines[first]
    elif change == 1:
        del lines[first]
    else:
        lines.insert(first, lines[second] if change == 2 else b"")
    return b"\n".join(lines)


def _huge(content: bytes, generator: Random, pieces: Sequence[bytes]) -> bytes:
    """Insert, in one case of five, a very deep or very long piece."""
    if generator.random() < 0.8:
        return _insert(content, generator, pieces)
    begin, _ = _span(content, generator)
    piece = generator.choice([*DEEP, b"a", b" ", b"1", b"\0", *pieces])
    times = min(generator.choice([1100, 20_000, 100_000]), LARGEST // len(piece))
    return content[:begin] + piece * times + content[begin:]


CHANGES = [_flip, _cut, _delete, _repeat, _insert, _insert, _noise, _number, _lines, _huge]


def retyped(value: Any, generator: Random, values: Sequence[Any] = VALUES) -> Any:
    """Copy nested lists and dictionaries, with one value changed or one entry removed."""
    if isinstance(value, dict) and value and generator.random() < 0.9:
        key = generator.choice(list(value))
        if generator.random() < 0.1:
            return {name: inside for name, inside in value.items() if name != key}
        return {**value, key: retyped(value[key], generator, values)}
    if isinstance(value, list) and value and generator.random() < 0.8:
        place = generator.randrange(len(value))
        if generator.random() < 0.1:
            return value[:place] + value[place + 1 :]
        return [*value[:place], retyped(value[place], generator, values), *value[place + 1 :]]
    return generator.choice(values)


def damage_json_lines(content: bytes, generator: Random) -> bytes:
    """Change a value in a line of JSON."""
    lines = content.split(b"\n")
    place = generator.randrange(len(lines))
    before, brace, after = lines[place].partition(b"{")
    try:
        changed = retyped(json.loads(brace + after), generator)
        text = json.dumps(changed, ensure_ascii=generator.random() < 0.5)
        lines[place] = before + text.encode("utf-8", "surrogatepass")
    except ValueError:
        return damage(content, generator)
    return b"\n".join(lines)


# Pickles

CALLS = [
    *[
        b"cos\nmkdir\n(X\x06\x00\x00\x00canarytR",
        b"cposix\nsystem\n(X\x06\x00\x00\x00canarytR",
        b"c__builtin__\neval\n(X\x01\x00\x00\x001tR",
    ],
    *[
        b"ctorch\nFloatTensor\n\x8a\x05\x00\x00\x00\x00\x7f\x85R",
        b"c__builtin__\nbytearray\n\x8a\x06\x00\x00\x00\x00\x00\x7f\x85R",
    ],
    *[
        b"cnumpy\nndarray\n\x8a\x06\x00\x00\x00\x00\x00\x7f\x85\x85R",
        b"cnumpy\nndarray\nK\x04\x85\x81",
        b"cnumpy\ndtype\nX\x02\x00\x00\x00O8\x85R",
    ],
    *[
        b"cnumpy\ndtype\nX\x02\x00\x00\x00f8\x85\x81",
        b"cargparse\nNamespace\n)\x81",
        b"ccollections\nOrderedDict\n)R",
        b"ccollections\nCounter\n)R",
    ],
    *[
        b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x03\x00\x00\x00hextR",
        b"ctorch\nload\n",
        b"ctorch._utils\n_rebuild_tensor_v2\n",
        b"ctorch.jit\nload\n",
    ],
]
OPERATIONS = [
    *[
        b"(",
        b")",
        b"]",
        b"}",
        b"0",
        b"2",
        b"N",
        b"a",
        b"b",
        b"d",
        b"e",
        b"l",
        b"s",
        b"t",
        b"u",
        b"R",
        b"Q",
        b"o",
        b".",
        b"1",
    ],
    *[
        b"\x81",
        b"\x85",
        b"\x86",
        b"\x87",
        b"\x88",
        b"\x89",
        b"\x8f",
        b"\x90",
        b"\x91",
        b"\x93",
        b"\x94",
        b"\x97",
        b"q\0",
        b"h\0",
        b"h\1",
        b"h\5",
    ],
    *[
        b"r\xff\xff\xff\x7f",
        b"j\xff\xff\xff\x7f",
        b"q\xff",
        b"p99999999\n",
        b"K\xff",
        b"M\xff\xff",
        b"J\xff\xff\xff\xff",
        b"G\x7f\xf0\0\0\0\0\0\0",
    ],
    *[
        b"\x8a\x08" + b"\xff" * 7 + b"\x7f",
        b"\x8a\xff" + b"\x01" * 255,
        b"\x8b\xff\xff\xff\x7f",
        b"X\xff\xff\xff\x7f",
        b"X\1\0\0\0a",
    ],
    *[
        b"\x96" + b"\xff" * 7 + b"\x7f",
        b"\x8e" + b"\0\0\0\0\x10\0\0\0",
        b"\x95" + b"\xff" * 8,
        b"2" * 60 + b"t" * 3,
        b"(2222t" * 40,
    ],
]


# Repeated very often, in rare cases, these would take much time or memory to read.
MANY = [b"N0", b"]0", b"N\x940", b"]\x94", b"K\x01\x85", b"(t0", b"h\x010", b"}\x94N0"]


def damage_pickle(content: bytes, generator: Random) -> bytes:
    """Remove, repeat, exchange or insert instructions of a pickle."""
    try:
        places = [place for _, _, place in pickletools.genops(content)]
    except ValueError:
        return damage(content, generator, CALLS + OPERATIONS)
    for _ in range(generator.choice([1, 1, 2, 4])):
        place = generator.randrange(len(places))
        begin, end = places[place], places[min(place + generator.choice([0, 1, 1, 2, 10]), len(places) - 1)]
        other = places[generator.randrange(len(places))]
        new = [b"", content[begin:end] * 2, content[other : other + end - begin], generator.choice(OPERATIONS)]
        new = generator.choice([*new, generator.choice(OPERATIONS), generator.choice(CALLS)])
        if generator.random() < 0.01:
            new = generator.choice(MANY) * generator.choice([10_000, 300_000, 1_200_000])
        content = content[:begin] + new + content[end:]
        places = [place for place in places if place <= begin]
    return content


# Archives


def write_zip(records: list[tuple[str, bytes]], generator: Random) -> bytes:
    """Write a zip file, sometimes compressed, with a repeated name or a name outside the folder."""
    out = io.BytesIO()
    unusual = generator.random() < 0.1
    kind = generator.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED]) if unusual else zipfile.ZIP_STORED
    with zipfile.ZipFile(out, "w", kind) as archive:
        for name, content in records:
            info = zipfile.ZipInfo(f"../../canary/{name}" if unusual and generator.random() < 0.1 else name)
            info.compress_type = kind
            if unusual and generator.random() < 0.05:
                content = b"\0" * 50_000_000 if kind == zipfile.ZIP_DEFLATED else content * 2
            archive.writestr(info, content)
            if unusual and generator.random() < 0.1:
                archive.writestr(zipfile.ZipInfo(name), content[::-1])
    return out.getvalue()


def read_zip(content: bytes) -> list[tuple[str, bytes]]:
    """Read the names and contents of an undamaged zip file."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def damage_record(content: bytes, generator: Random, change: Mutation, wanted: str) -> bytes:
    """Damage a record of a zip file, usually one whose name contains ``wanted``."""
    records = read_zip(content)
    likely = [place for place, (name, _) in enumerate(records) if wanted in name]
    place = generator.choice(likely) if generator.random() < 0.9 else generator.randrange(len(records))
    name, inside = records[place]
    records[place] = (name, change(inside, generator))
    return write_zip(records, generator)


def damage_npz(content: bytes, generator: Random) -> bytes:
    """Change an array, a header or some bytes of an ``.npz``."""
    way = generator.randrange(3)
    if way == 0:
        return damage_record(content, generator, damage, ".npy")
    with np.load(io.BytesIO(content)) as npz:
        arrays = dict(npz)
    name = generator.choice(list(arrays))
    if way == 1:
        arrays[name] = other_array(arrays[name], generator)
        out = io.BytesIO()
        (np.savez_compressed if generator.random() < 0.3 else np.savez)(out, **arrays)
        return out.getvalue()
    header = generator.choice(
        [
            *[
                "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }",
                "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
            ],
            *[
                "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
                "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 99999999999), }",
            ],
            *[
                "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (), }",
                "[" * 9000,
                "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2**62), }",
            ],
            *[
                "__import__('os').mkdir('canary')",
                "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), 'x': 1}",
                "{'descr': '<M8[s]', 'fortran_order': False, 'shape': (1,), }",
            ],
        ]
    ).encode()
    version = generator.choice([b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"])
    length = len(header).to_bytes(2 if version[0] == 1 else 4, "little")
    array = b"\x93NUMPY" + version + length + header + generator.randbytes(16)
    return damage_record(content, generator, lambda *_: array, f"{name}.npy")


def other_array(array: np.ndarray, generator: Random) -> np.ndarray:
    """Return an array of another size, another type or other values."""
    changes: list[Callable[[], np.ndarray]] = [
        *[
            lambda: array[:-1],
            lambda: array[..., None],
            lambda: array.T,
            lambda: np.asfortranarray(array),
            lambda: array.ravel(),
        ],
        *[
            lambda: array * np.nan,
            lambda: array * np.inf,
            lambda: array * 1e300,
            lambda: np.zeros((0, 5), "f4"),
            lambda: array[:0],
        ],
        lambda: array.astype(generator.choice(["f2", "f8", "i4", "c8", "U3", "S3", "?", "longdouble", ">f4"])),
        *[lambda: np.array([{}, None], dtype=object), lambda: np.zeros(3, "M8[s]"), lambda: np.zeros(2, [("a", "f4")])],
        *[lambda: np.zeros((3000, 3000), "f4"), lambda: np.float32(1)],
    ]
    with np.errstate(all="ignore"):
        return generator.choice(changes)()


# Checkpoints

SETTINGS: list[Any] = [
    *VALUES,
    *[
        "${oc.env:HOME}",
        "${oc.decode:'1'}",
        "${task.data}",
        "__import__('os').mkdir('canary')",
        "[0]*10**9",
        "1+1",
        "a b",
    ],
    *[
        "transformer",
        "fconv",
        "lstm",
        "translation",
        "translation_lev",
        "masked_lm",
        "bahdanau_gru",
        "rnnencdec",
        "../x",
    ],
    *[10**6, 10**9, 4096, -5, 0.5, ["a"] * 3, torch.zeros(2), torch.tensor(float("nan"))],
]
TENSORS: list[Callable[[torch.Tensor], Any]] = [
    *[lambda x: x[:-1], lambda x: x[..., None], lambda x: x * float("nan"), lambda x: x.double(), lambda x: x.half()],
    *[lambda x: x.long(), lambda x: torch.zeros(1).expand(10**12), lambda x: x.to_sparse(), lambda x: x.to("meta")],
    *[lambda x: x + 0j, lambda x: torch.nn.Parameter(x), lambda x: x[:0], lambda x: None, lambda x: 1.5, lambda x: [x]],
    *[
        lambda x: torch.zeros(300, 300),
        lambda x: x.numpy(),
        lambda x: x.to(torch.bfloat16),
        lambda x: x.T.contiguous().T,
    ],
]


SECTIONS = ("task", "model", "model", "common", "generation", "criterion")
# Options that the seeds' checkpoints lack: they name files, or ask for memory.
OPTIONS: dict[str, list[Any]] = {
    name: ["canary", "/dev/zero"]
    for name in (
        *("encoder_embed_path", "decoder_embed_path", "embed_path", "w2v_path", "pretrained_checkpoint"),
        *(
            "load_pretrained_decoder_from",
            "pretrained_mlm_checkpoint",
            "save_predictions",
            "encoder_xformers_att_config",
        ),
    )
}
OPTIONS |= {name: [20_000_000, 10**12] for name in ("max_source_positions", "max_target_positions", "base_layers")}
OPTIONS |= {name: [10**5, 10**9] for name in ("encoder_layers", "decoder_layers", "required_seq_len_multiple")}
OPTIONS |= {"_name": ["roberta_enc_dec", "wav2vec_seq2seq", "sentence_ranking", "transformer", "lstm", "fconv"]}
OPTIONS |= {
    "eval_bleu": [True],
    "eval_bleu_args": ['{"length_statistics": "canary"}', '{"beam": 1e9}'],
    "beam": [10**9],
}
OPTIONS |= {"encoder": [{"embed_path": "canary"}, {"layers": 10**9}], "adaptive_softmax_cutoff": ["[1]*10**9", "1,2"]}
RECORDS = ["constants.pkl", "CONSTANTS.PKL", "code/__torch__.py", "data/x", "DATA.PKL", ".format_version", "byteorder"]


def add_record(content: bytes, generator: Random) -> bytes:
    """Add a record to an archive that torch may interpret."""
    records = read_zip(content)
    folder = generator.choice([records[0][0].partition("/")[0], "archive", "other"])
    code = b"\x80\x02" + generator.choice(CALLS) + b"."
    records.insert(generator.randrange(len(records) + 1), (f"{folder}/{generator.choice(RECORDS)}", code))
    return write_zip(records, generator)


def damage_checkpoint(content: bytes, generator: Random) -> bytes:
    """Change the pickle, the settings or the tensors of a checkpoint."""
    if generator.random() < 0.4:
        return damage_record(content, generator, damage_pickle, "data.pkl")
    if generator.random() < 0.2:
        return damage_record(content, generator, damage, "")
    if generator.random() < 0.1:
        return add_record(content, generator)
    state = torch.load(io.BytesIO(content), weights_only=True)
    for _ in range(generator.choice([1, 1, 2, 3])):
        if generator.random() < 0.3:
            name = generator.choice(list(state["model"]))
            if isinstance(tensor := state["model"][name], torch.Tensor) and tensor.numel() < 10**6:
                with contextlib.suppress(RuntimeError, TypeError, NotImplementedError):
                    tensor = generator.choice(TENSORS)(tensor)
            state["model"] = {**state["model"], name: tensor}
        elif generator.random() < 0.7 and (sections := [name for name in SECTIONS if name in state["cfg"]]):
            section = generator.choice(sections)
            settings = state["cfg"][section]
            if generator.random() < 0.5:
                settings = retyped(settings, generator, SETTINGS)
            elif isinstance(settings, (dict, Namespace)):
                option = generator.choice(list(OPTIONS))
                values = vars(settings) if isinstance(settings, Namespace) else settings
                settings = type(settings)(**{**values, option: generator.choice(OPTIONS[option])})
            state["cfg"] = {**state["cfg"], section: settings}
        else:
            state = retyped(state, generator, SETTINGS)
        if not isinstance(state, dict) or not all(
            isinstance(state.get(name), dict) and state[name] for name in ("cfg", "model")
        ):
            break
    out = io.BytesIO()
    torch.save(state, out, _use_new_zipfile_serialization=generator.random() < 0.95)
    return out.getvalue()


def damage_pickle_record(content: bytes, generator: Random) -> bytes:
    """Damage the pickle of a checkpoint."""
    change = generator.choice([damage_pickle, damage])
    return damage_record(content, generator, change, "data.pkl")


def damage_state(content: bytes, generator: Random) -> bytes:
    """Change a value in a pickle or JSON of a dictionary."""
    try:
        state = json.loads(content) if content[:1] == b"{" else pickle.loads(content, encoding="bytes")
        changed = retyped(state, generator)
        return json.dumps(changed).encode() if content[:1] == b"{" else pickle.dumps(changed, generator.randrange(6))
    except (ValueError, pickle.UnpicklingError):
        return damage(content, generator)
