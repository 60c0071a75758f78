"""Pickles as Python 2 writes them."""

import struct
from typing import Any

SETTINGS = {
    b"dim": 1000,
    b"large": 70000,
    b"long": -(2**31),
    b"maxout_part": 2.0,
    b"search": True,
    b"reload": False,
    b"oov": b"UNK",
    b"layer": "RecurrentLayer",  # unicode
    b"source": [b"a.h5", None],
}


def python2(value: Any, protocol: int) -> bytes:
    """The pickle that Python 2 makes of ``value``, whose ``bytes`` are Python 2's ``str``."""
    return (b"\x80\x02" if protocol == 2 else b"") + opcodes(value, protocol) + b"."


def opcodes(value: Any, protocol: int) -> bytes:
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return (b"\x88" if value else b"\x89") if protocol == 2 else (b"I01\n" if value else b"I00\n")
    if isinstance(value, dict):
        items = [opcodes(part, protocol) for item in value.items() for part in item]
        if protocol:
            return b"}(" + b"".join(items) + b"u"
        return b"(d" + b"".join(items[i] + items[i + 1] + b"s" for i in range(0, len(items), 2))
    if isinstance(value, list):
        items = [opcodes(part, protocol) for part in value]
        return b"](" + b"".join(items) + b"e" if protocol else b"(l" + b"".join(item + b"a" for item in items)
    if protocol == 0:
        text = {
            bytes: lambda: b"S" + repr(value)[1:].encode(),
            str: lambda: b"V" + value.encode("raw-unicode-escape"),
            int: lambda: b"I%d" % value,
            float: lambda: b"F" + repr(value).encode(),
        }
        return text[type(value)]() + b"\n"
    binary = {
        bytes: lambda: b"U" + bytes([len(value)]) + value,
        str: lambda: b"X" + struct.pack("<I", len(value.encode())) + value.encode(),
        int: lambda: b"M" + struct.pack("<H", value) if 0 <= value < 65536 else b"J" + struct.pack("<i", value),
        float: lambda: b"G" + struct.pack(">d", value),
    }
    return binary[type(value)]()


def numpy_scalar(code: bytes, order: bytes, content: bytes, protocol: int) -> bytes:
    """``{'x': value}``."""
    if protocol == 0:
        raw = repr(content)[1:].encode()
        scalar = b"cnumpy.core.multiarray\nscalar\np1\n(cnumpy\ndtype\np2\n(S'%b'\np3\nI0\nI1\ntp4\nRp5\n" % code
        scalar += b"(I3\nS'%b'\np6\nNNNI-1\nI-1\nI0\ntp7\nbS%b\np8\ntp9\nRp10\n" % (order, raw)
        return b"(dp0\nS'x'\np11\n" + scalar + b"s."
    start, pair = (b"\x80\x02", b"\x86") if protocol == 2 else (b"", b"t")
    mark = b"" if protocol == 2 else b"("
    scalar = b"cnumpy.core.multiarray\nscalar\nq\x01" + mark
    scalar += b"cnumpy\ndtype\nq\x02(U" + bytes([len(code)]) + code + b"q\x03K\x00K\x01tq\x04Rq\x05"
    scalar += b"(K\x03U\x01" + order + b"q\x06NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x07b"
    scalar += b"U" + bytes([len(content)]) + content + b"q\x08" + pair + b"q\tRq\n"
    return start + b"}q\x00U\x01xq\x0b" + scalar + b"s."
