"""Print what a model is: architecture, parameters, training, languages, vocabularies, preparation and search.

rnnsearch info checkpoints
"""

from rnnsearch_fairseq.errors import make_parser, option
from rnnsearch_fairseq.inference.loading import load_members


def describe(path: str) -> str:
    """What the model, or the ensemble, in ``path`` is, line by line; see `load_members`."""
    members = load_members(path)
    text, usage = members[0].text, members[0].usage
    lines = [f"translates: {' to '.join(text.languages)}"]
    for member in members:
        number = sum(parameter.numel() for parameter in member.network.parameters())
        lines.append(f"{member.kind}: {number:,} parameters; training: {member.training or 'not recorded'}")
        lines += [f"  {option(name)} {value}" for name, value in member.config.values().items()]
    for language, vocabulary in zip(text.languages, text.vocabularies):
        lines.append(f"vocabulary of {language}: {len(vocabulary):,} symbols")
    for language, preparation in zip(text.languages, text.preparations or ()):
        settings = (f"{name} {value}" for name, value in preparation.options().items() if value)
        lines.append(f"preparation of {language}: {', '.join(settings) or 'words with blanks between'}")
    search = (f"{option(name)} {value}" for name, value in usage.search.items())
    lines.append(f"search: {' '.join(search) or 'the default options'}")
    return "\n".join([*lines, usage.description]).rstrip()


def main() -> None:
    """The command line of this module."""
    parser = make_parser(__doc__)
    parser.add_argument("model", metavar="MODEL", help="checkpoint or folder, or several with colons between")
    print(describe(parser.parse_args().model))
