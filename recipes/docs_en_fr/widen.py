"""Copy units of an RNNsearch, which computes the same as before and can learn more.

``python -m recipes.docs_en_fr.widen CHECKPOINT SIZE OUT``

The decoder, both directions of the encoder and the alignment model get SIZE units each. The new units are copies of
units that are drawn by chance (Chen, Goodfellow and Shlens, 2016, *Net2Net: Accelerating Learning via Knowledge
Transfer*). A weight out of a copied unit is divided between the unit and its copy, in parts that are drawn by chance:
with equal parts, the two units would have equal gradients and stay equal.
"""

import re
import sys
from pathlib import Path

import torch
from torch import Tensor

from rnnsearch_fairseq.command_line import program
from rnnsearch_fairseq.inference.loading import STATE, count_updates, read_checkpoint, write_checkpoint

# The layers that the rows and the columns of a parameter stand for, by its name: F and B are the encoder's forward and
# backward unit, D is the decoder, A the alignment model.
ROWS = {"forward_unit": "F", "backward_unit": "B", r"network\.unit|summary": "D", r"attention\.from": "A"}
COLUMNS = {r"forward_unit\.from.*state": "F", r"backward_unit\.from.*state|summary": "B", "energy": "A"}
COLUMNS |= {"from.*state": "D", "from_(context|annotation)": "FB"}


def find_layers(name: str, patterns: dict[str, str]) -> str:
    """The layers of the first pattern that a parameter's name contains; none: its rows or columns stay."""
    return next((layers for pattern, layers in patterns.items() if re.search(pattern, name)), "")


def widen_columns(parameter: Tensor, layers: str, units: dict[str, Tensor]) -> Tensor:
    """The columns of all ``units`` of these layers; those of a unit and of its copy have the unit's column as sum."""
    blocks = []
    for layer, block in zip(layers, parameter.chunk(len(layers), dim=1)):
        size, copied = block.size(1), units[layer][block.size(1) :]
        parts = torch.empty(len(block), len(copied)).uniform_(0.3, 0.7)
        wide = block[:, units[layer]]
        wide[:, copied] *= 1 - parts
        wide[:, size:] *= parts
        blocks.append(wide)
    return torch.cat(blocks, dim=1)


@program
def main() -> None:
    path, size, out = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    torch.manual_seed(1)
    state = read_checkpoint(path)
    sizes, parameters = state["cfg"]["model"], state["model"]
    old = sizes["hidden_size"]
    units = {layer: torch.cat([torch.arange(old), torch.randperm(old)[: size - old]]) for layer in "FBDA"}
    for name in sorted(parameters.keys() - {STATE}):
        if layer := find_layers(name, ROWS):
            parameters[name] = torch.cat([block[units[layer]] for block in parameters[name].split(old)])
        if (layers := find_layers(name, COLUMNS)) and parameters[name].dim() == 2:
            parameters[name] = widen_columns(parameters[name], layers, units)
    sizes |= {"hidden_size": size, "alignment_size": size}
    write_checkpoint(out, state["cfg"], parameters, count_updates(state))
