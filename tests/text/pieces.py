"""Pieces of which hostile parses are made, and a check of the trees that are read from them."""

from rnnsearch_fairseq.text.trees import READERS, NoParse, first_difference, format_transitions, parse_transitions

PIECES = {
    "penn": [
        "(",
        ")",
        "((",
        "))",
        " ",
        "\n",
        "S",
        "(NP ",
        "(-NONE- ",
        "-LRB-",
        "w",
        "\0",
        "\xa0",
        "é",
        "(S (A a) (B b))",
    ],
    "enju": [
        *[
            "<",
            ">",
            "</",
            "/>",
            "&",
            ";",
            "&lt;",
            "&#0;",
            "&#x110000;",
            '"',
            "=",
            "<!",
            "<?",
            "?>",
            "]]>",
            "w",
            "\0",
            "é",
        ],
        *["<cons>", "</cons>", "<tok>", "</tok>", "<sentence>", "</sentence>", '<sentence parse_status="success">'],
        *["<cons><tok>w</tok></cons>", "<![CDATA[", "<!--", "<!DOCTYPE a [", '<!ENTITY e "w">', "&e;", "\ud800"],
    ],
}


def check_tree(form: str, text: str) -> bool:
    """Whether the text has a tree; if so, that it is one."""
    parse = READERS[form](text)
    if isinstance(parse, NoParse):
        return False
    assert all(word and not any(map(str.isspace, word)) for word in parse.words)
    assert parse.tree.leaves == len(parse.words) > 0
    assert parse_transitions(format_transitions(parse.tree)) == parse.tree
    first_difference(parse.words, parse.words[::-1], lowercase=True)
    return True
