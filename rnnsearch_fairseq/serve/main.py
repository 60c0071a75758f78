"""Serve a translation page and a JSON API.

The page shows a translation while it is being found, its alignment, unknown words, the other translations in the beam
and, for models that read trees, the tree, for which link-parser parses English sentences where it is installed. /docs
describes the API. Text is prepared as the training text was. By default only this machine can reach the server; --host
changes that. There is no login, so other machines should be let in only through a proxy that has one. When too many
requests wait, further ones are answered by "busy". Needs pip install 'rnnsearch-fairseq[serve]'.

  rnnsearch serve --model checkpoints
"""

import argparse
import ipaddress
import json
import socket
import sys
from pathlib import Path

import torch

from rnnsearch_fairseq.corpus.link_grammar import LinkParser, check_installed
from rnnsearch_fairseq.documents.translate import load_with_replacements
from rnnsearch_fairseq.errors import Count, InputError, make_parser
from rnnsearch_fairseq.inference.options import add_model_options, add_search_options
from rnnsearch_fairseq.inference.translator import Translator
from rnnsearch_fairseq.modules.symbols import UNK

MOST_THREADS = 2
MOST_EXAMPLES = 3
SECONDS_TO_PARSE = 2.0  # a sentence


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    add_model_options(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0: all (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="0: any free port (default: 8000)")
    parser.add_argument("--max-words", action=Count, default=100, help="longest sentence (default: 100)")
    parser.add_argument(
        "--example",
        action="append",
        metavar="SENTENCE",
        help="sentence that the page offers to try; may be repeated (default: three whose words the model knows)",
    )
    add_search_options(parser)
    return parser.parse_args()


def choose_examples(translator: Translator) -> list[str]:
    """Up to ``MOST_EXAMPLES`` sentences of page/examples.json that hold no unknown word; frequent words come first."""
    sentences = json.loads((Path(__file__).parent / "page" / "examples.json").read_text(encoding="utf-8"))
    ids = {each: translator.read_source(each).ids.tolist() for each in sentences.get(translator.languages[0], [])}
    known = [sentence for sentence in ids if UNK not in ids[sentence]]
    # The vocabulary begins with the most frequent words.
    return sorted(known, key=lambda sentence: max(ids[sentence]))[:MOST_EXAMPLES]


def start_parser(translator: Translator) -> LinkParser | None:
    """Start link-parser, if the model reads trees of English sentences and the program works."""
    if not translator.reads_trees or translator.languages[0] != "en":
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


def main() -> None:
    """The command line of this module."""
    args = parse_arguments()
    try:
        from rnnsearch_fairseq.serve.connections import Server
        from rnnsearch_fairseq.serve.messages import Limits
        from rnnsearch_fairseq.serve.server import LOOPBACK, make_app, stop
        from rnnsearch_fairseq.serve.worker import Worker
    except ImportError as error:
        raise InputError(f"{error}; pip install 'rnnsearch-fairseq[serve]'") from error
    torch.set_num_threads(min(MOST_THREADS, torch.get_num_threads()))
    translator, dictionary = load_with_replacements(args)
    listening = listen(args.host, args.port)
    address, port = listening.getsockname()[:2]
    name = f"[{address}]" if ":" in address else address
    hosts = (*LOOPBACK, name) if is_loopback(address) else ("*",)
    worker = Worker(translator, Limits(words=args.max_words), start_parser(translator), dictionary)
    app = make_app(worker, hosts, args.example or choose_examples(translator))
    print(f"http://{name}:{port}/  (Ctrl-C ends)", flush=True)
    try:
        Server(app, lambda: stop(app)).run(sockets=[listening])
    except KeyboardInterrupt:
        print()
