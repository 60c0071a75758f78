"""Binary parse trees of source sentences, their lines of transitions, and a reader of trees in Penn brackets.

A tree covers the first n words of a sentence. Later words, such as the full stop, do not belong to the tree, which has
n - 1 unlabelled phrases. In a file, a tree is a line of shift-reduce transitions: ``S`` shifts the next word, and ``R``
joins the two topmost phrases. ``((a b) c)`` is ``S S R S R``, a tree of one word is ``S``, and ``-`` stands for a
sentence without a parse. No function here is recursive, because a tree can be as deep as its sentence is long.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import zip_longest
from typing import NamedTuple

from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.modules.forest import Tree

SHIFT, REDUCE, NO_PARSE = "S", "R", "-"


def parse_transitions(line: str, where: str = "transitions") -> Tree | None:
    """Read a line of transitions; the tree is None for a sentence without a parse.

    Raises:
        InputError: the line does not form a tree; the message calls it ``where``.
    """
    if line.strip() == NO_PARSE:
        return None
    message = f"{where}: the transitions do not form one tree; write them with python -m recipes.trees.transitions"
    stack: list[int] = []  # the first words of the phrases that are not yet joined
    splits: list[list[int]] = []  # the splits of the phrases that start at each word, shortest phrase first
    for transition in line.split():
        if transition == SHIFT:
            stack.append(len(splits))
            splits.append([])
        elif transition == REDUCE and len(stack) > 1:
            split = stack.pop()
            splits[stack[-1]].append(split)
        else:
            raise InputError(message)
    if len(stack) != 1:
        raise InputError(message)
    # Pre-order sorts phrases by first word, and phrases with the same first word from the longest to the shortest.
    return Tree(tuple(split for same_start in splits for split in reversed(same_start)))


class NoParse(Enum):
    """Why a sentence has no tree."""

    EMPTY = "empty"
    STATUS = "status other than success"  # Enju's
    UNUSABLE = "unusable"
    MISMATCH = "leaves are not the source's words"


class Parse(NamedTuple):
    """A parser's result for a sentence: the leaves as the parser wrote them, and the line of transitions."""

    words: list[str]
    transitions: str

    @property
    def tree(self) -> Tree:
        """The tree of the transitions."""
        return parse_transitions(self.transitions)


def make_binary(nodes: Iterable[bool | str]) -> Parse | NoParse:
    """Make a labelled tree binary: True opens a node, False closes a node, and a string is a word.

    Nodes without words or with one child are dropped; a node with the children a, b, c, d becomes (a (b (c d))).
    """
    words: list[str] = []
    transitions: list[str] = []
    children: list[int] = []  # the number of children with words of each open node, so far
    for number, node in enumerate(nodes):
        if not children and (number > 0 or node is not True):
            return NoParse.UNUSABLE  # a second tree, or a word outside the tree
        if node is True:
            children.append(0)
        elif node is False:
            closed = children.pop()
            transitions += [REDUCE] * (closed - 1)
            if children and closed:
                children[-1] += 1
        else:
            words.append(node)
            transitions.append(SHIFT)
            children[-1] += 1
    if children:
        return NoParse.UNUSABLE  # cut short
    return Parse(words, " ".join(transitions)) if words else NoParse.EMPTY


_PENN_TOKEN = re.compile(r"[()]|[^\s()]+")


def read_penn(text: str) -> Parse | NoParse:
    """Read a tree in Penn brackets: ``(S (NP (PRP he)) (VP (VBD slept)) (. .))``.

    Without leaves, as in ``(())``, a tree is EMPTY; a text that is not exactly one tree is UNUSABLE.
    """
    return make_binary(_penn_nodes(text)) if text.strip() else NoParse.EMPTY


def _penn_nodes(text: str) -> Iterator[bool | str]:
    before_label = False
    for token in _PENN_TOKEN.findall(text):
        if token in ("(", ")"):
            yield token == "("
        elif not before_label:
            yield token
        before_label = token == "("


def read_parse(text: str, words: Sequence[str], where: str, lowercase: bool) -> Tree | None:
    """Read the parse of a sentence: Penn brackets, or transitions; the tree is None for an empty parse.

    Raises:
        InputError: the parse is damaged, or has other words than ``words``; the message calls the sentence ``where``.
    """
    if not text.strip().startswith("("):
        tree = parse_transitions(text, f"the parse of {where}")
        if tree is not None and tree.leaves > len(words):
            raise InputError(f"{where}: its parse has {tree.leaves} leaves, but it has {len(words)} words")
        return tree
    parse = read_penn(text)
    if parse is NoParse.EMPTY:
        return None
    if isinstance(parse, NoParse):
        raise InputError(f"the parse of {where} is not one tree in brackets; give one like (S (NP he) (VP slept))")
    if difference := first_difference(parse.words, words, lowercase):
        raise InputError(f"{where}: {difference}; parse the words that the model reads: {quote(repr(' '.join(words)))}")
    return parse.tree


# Escapes of parsers and of the Moses tokenizer, and the text that they stand for.
_ESCAPES = {
    **{"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"},
    **{"``": '"', "''": '"', "“": '"', "”": '"', "`": "'", "‘": "'", "’": "'"},
    **{"\\/": "/", "\\*": "*"},
    **{"&quot;": '"', "&apos;": "'", "&#91;": "[", "&#93;": "]", "&#124;": "|", "&lt;": "<", "&gt;": ">", "&amp;": "&"},
}
# re.ASCII: without it, IGNORECASE would match the long s (ſ) as an s.
_ESCAPE = re.compile("|".join(map(re.escape, _ESCAPES)), re.IGNORECASE | re.ASCII)


def first_difference(leaves: Sequence[str], words: Sequence[str], lowercase: bool = False) -> str | None:
    """Describe the first place where ``leaves`` and ``words`` differ; None if they agree.

    With ``lowercase``, the leaves are lowercased first. Escapes equal their characters (`unescape`). Words after the
    last leaf must be punctuation.
    """
    for number, (leaf, word) in enumerate(zip_longest(leaves, words), 1):
        if leaf is None:
            differs = any(map(str.isalnum, unescape(word)))
        else:
            plain = leaf.lower() if lowercase else leaf
            differs = plain != word and (word is None or unescape(plain) != unescape(word))
        if differs:
            leaf, word = ("missing" if text is None else quote(repr(text)) for text in (leaf, word))
            return f"leaf {number} of the parse is {leaf}, but word {number} is {word}"
    return None


def unescape(word: str) -> str:
    """``word`` with characters in place of their escapes, and straight quotes."""
    return _ESCAPE.sub(lambda match: _ESCAPES[match.group().lower()], word)
