"""Serve a translation page and a JSON API.

``rnnsearch serve --path MODEL.pt[:MODEL2.pt] [--data DIR]``

The page shows a translation while it is being found, its alignment, unknown words, the other translations in the beam
and, for models that read trees, the tree. English sentences are parsed for such models by link-parser, where it is
installed. /openapi.json describes the API. By default only this machine can reach them; --host changes that. There is
no login, so other machines should be let in only through a proxy that has one.

Input is plain text. It is prepared like the training text (Moses tokens, subwords, lower case), by the record beside
the checkpoint or the dictionaries; without a record, the preparation is guessed from the dictionaries. --tokenizer and
--bpe override this. A sentence may have at most --max-words words, and when too many requests wait, further ones are
answered by "busy". Needs pip install 'rnnsearch-fairseq[serve]'.
"""

import argparse
import ipaddress
import logging
import socket
import sys
from collections.abc import Sequence
from dataclasses import fields, make_dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.registry import REGISTRIES

from rnnsearch_fairseq.errors import Count, InputError
from rnnsearch_fairseq.inference.hub import TranslationHub, load
from rnnsearch_fairseq.inference.loading import add_data_options
from rnnsearch_fairseq.serve.examples import choose_examples
from rnnsearch_fairseq.serve.translator import Limits
from rnnsearch_fairseq.text.link_grammar import LinkParser, check_installed

GENERATION = ("beam", "max_len_a", "max_len_b", "lenpen", "unkpen", "unnormalized")
NONE = "none"
MOST_THREADS = 2
SECONDS_TO_PARSE = 2.0  # a sentence


def parse_arguments(words: list[str]) -> tuple[argparse.Namespace, dict[str, Any]]:
    """Read the command line.

    Returns:
        The arguments, and the options of text and search that differ from their defaults.

    Raises:
        InputError: a number is out of range.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", required=True, help="checkpoint, or several with colons between: an ensemble")
    add_data_options(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0: all (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="0: any free port (default: 8000)")
    parser.add_argument(
        "--max-words", action=Count, default=Limits.words, help=f"longest sentence (default: {Limits.words})"
    )
    parser.add_argument(
        "--example",
        action="append",
        metavar="SENTENCE",
        help="sentence that the page offers to try; may be repeated (default: three whose words the model knows)",
    )
    parser.add_argument("--cpu", action="store_true", help="do not use CUDA")
    defaults: dict[str, Any] = _add_options(parser, GenerationConfig, GENERATION)
    for kind, section in _chosen_sections(words).items():
        choices = [*REGISTRIES[kind]["registry"], NONE]
        parser.add_argument(f"--{kind}", choices=choices, help="default: as for the training text")
        defaults[kind] = None
        if section is not None:
            names = [f.name for f in fields(section) if not (f.name.startswith("_") or f.name.endswith("_lang"))]
            defaults |= _add_options(parser, section, names)
    args = parser.parse_args(words)
    given = {name: getattr(args, name) for name, default in defaults.items() if getattr(args, name) != default}
    return args, {name: None if value == NONE else value for name, value in given.items()}


def _chosen_sections(words: list[str]) -> dict[str, type | None]:
    """The fairseq dataclasses of the tokenizer and the bpe that the command line names."""
    parser = argparse.ArgumentParser(add_help=False)
    for kind in ("tokenizer", "bpe"):
        parser.add_argument(f"--{kind}")
    chosen, _ = parser.parse_known_args(words)
    return {kind: REGISTRIES[kind]["dataclass_registry"].get(name) for kind, name in vars(chosen).items()}


def _add_options(parser: argparse.ArgumentParser, section: type, names: Sequence[str]) -> dict[str, Any]:
    """Add these options of one of fairseq's dataclasses, and return their defaults."""
    chosen = [(field.name, field.type, field) for field in fields(section) if field.name in names]
    part = make_dataclass("Part", chosen, bases=(FairseqDataclass,))
    gen_parser_from_dataclass(parser, part())
    return {name: parser.get_default(name) for name, *_ in chosen}


def load_model(args: argparse.Namespace, options: dict[str, Any]) -> TranslationHub:
    """Load the command line's models, onto CUDA if there is a device.

    Raises:
        InputError: they cannot be loaded.
    """
    paths = [Path(path).resolve() for path in args.path.split(":")]
    data = None if args.data is None else Path(args.data).resolve()
    hub = load(paths[0].parent, ":".join(map(str, paths)), data, args.source_lang, args.target_lang, **options)
    return hub.cuda() if torch.cuda.is_available() and not args.cpu else hub


def start_parser(hub: TranslationHub) -> LinkParser | None:
    """Start link-parser, if the model reads trees of English sentences and the program works."""
    if not hub.reads_trees or hub.task.cfg.source_lang != "en":
        return None
    parser = LinkParser(SECONDS_TO_PARSE)
    try:
        check_installed()
        parser.parse(["hello"])  # the program starts at the first sentence
    except InputError as error:
        print(f"sentences are not parsed: {error}", file=sys.stderr)
        return None
    return parser


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that listens for connections.

    Raises:
        InputError: this machine does not have the address, or the port is in use.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise InputError(f"--host {host} --port {port}: cannot listen there ({error}); give others") from error


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach ``address``, an IP address from ``getsockname``."""
    number = ipaddress.ip_address(address)
    return (getattr(number, "ipv4_mapped", None) or number).is_loopback


def main() -> int:
    """The command line of this module; returns its exit status."""
    args, options = parse_arguments(sys.argv[1:])
    try:
        import uvicorn

        from rnnsearch_fairseq.serve.connections import RateLimit, make_config
        from rnnsearch_fairseq.serve.server import LOOPBACK, make_app
    except ImportError as error:
        raise InputError(f"{error}; pip install 'rnnsearch-fairseq[serve]'") from error
    torch.set_num_threads(min(MOST_THREADS, torch.get_num_threads()))
    hub = load_model(args, options)
    server = listen(args.host, args.port)
    address, port = server.getsockname()[:2]
    name = f"[{address}]" if ":" in address else address
    hosts = (*LOOPBACK, name) if is_loopback(address) else ("*",)
    examples = args.example or choose_examples(hub)
    app = make_app(hub, Limits(words=args.max_words), hosts, examples, start_parser(hub))
    logging.getLogger("asyncio").addFilter(RateLimit())
    print(f"http://{name}:{port}/  (Ctrl-C ends)", flush=True)
    try:
        uvicorn.Server(make_config(app)).run(sockets=[server])
    except KeyboardInterrupt:
        print()
    return 0
