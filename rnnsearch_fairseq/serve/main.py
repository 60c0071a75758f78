"""Serve a translation page, a JSON API and LibreTranslate's API.

The page shows a translation while it is found, its alignment, and the other translations in the beam. Only this machine
can reach the server, unless --host says otherwise; as it has no log-in, let other machines in only through a proxy that
has one. The README of rnnsearch_fairseq/serve says more.

  rnnsearch serve --model checkpoints
"""

import contextlib
import ipaddress
import shutil
import socket

from rnnsearch_fairseq.command_line import make_parser
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.options import add_model_options, add_search_options, load_with_replacements
from rnnsearch_fairseq.serve.link_grammar import PROGRAM, LinkParser
from rnnsearch_fairseq.serve.server import LOOPBACK, make_app, make_server
from rnnsearch_fairseq.serve.worker import Worker

SECONDS_TO_PARSE = 1.0  # a sentence


def open_socket(host: str, port: int) -> socket.socket:
    """Open a socket that listens for connections."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise InputError(f"--host {host} --port {port}: cannot listen there ({error}); give others") from error


def main() -> None:
    parser = make_parser(__doc__)
    add_model_options(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0: all (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="0: any free port (default: 8000)")
    cors = "sites whose pages may use the server, such as https://example.org, or '*': all; other sites are refused"
    parser.add_argument("--cors", nargs="+", default=[], metavar="ORIGIN", help=cors)
    add_search_options(parser)
    args = parser.parse_args()
    translator = load_with_replacements(args)
    parses = translator.reads_trees and translator.languages[0] == "en" and shutil.which(PROGRAM)
    worker = Worker(translator, LinkParser(SECONDS_TO_PARSE) if parses else None)
    with open_socket(args.host, args.port) as listening, contextlib.suppress(KeyboardInterrupt):
        address, port = listening.getsockname()[:2]
        name = f"[{address}]" if ":" in address else address
        hosts = (*LOOPBACK, name) if ipaddress.ip_address(address).is_loopback else ("*",)
        server = make_server(make_app(worker, hosts, args.cors))
        print(f"http://{name}:{port}/  (Ctrl-C ends)", flush=True)
        server.run(sockets=[listening])
