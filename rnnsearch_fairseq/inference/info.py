"""Print what a model is: architecture, parameters, training, languages, vocabularies, preparation and search.

rnnsearch info checkpoints
"""

from collections.abc import Sequence
from dataclasses import asdict

from rnnsearch_fairseq.command_line import command_options, make_parser, option
from rnnsearch_fairseq.errors import escaped
from rnnsearch_fairseq.inference.loading import Member, load_members


def describe(members: Sequence[Member]) -> str:
    """Describe a model or an ensemble in several lines."""
    text, usage = members[0].text, members[0].usage
    lines = [f"translates: {' to '.join(text.languages)}"]
    for member in members:
        number = sum(parameter.numel() for parameter in member.network.parameters())
        lines.append(f"{member.kind}: {number:,} parameters; training: {member.training or 'not recorded'}")
        lines += [f"  {option(name)} {value}" for name, value in asdict(member.config).items()]
    for language, vocabulary in zip(text.languages, text.vocabularies):
        lines.append(f"vocabulary of {language}: {len(vocabulary):,} symbols")
    for language, preparation in zip(text.languages, text.preparations or ()):
        settings = [value if name == "tokenizer" else name for name, value in vars(preparation).items() if value]
        lines.append(f"preparation of {language}: {', '.join(settings) or 'words with blanks between'}")
    lines.append(f"search: {' '.join(command_options(usage.search)) or 'the default options'}")
    return "\n".join(lines)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("model", metavar="MODEL", help="checkpoint or folder, or several with colons between")
    members = load_members(parser.parse_args().model)
    print(escaped(f"{describe(members)}\n{members[0].usage.description}".rstrip()))
