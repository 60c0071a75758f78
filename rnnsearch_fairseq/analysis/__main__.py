"""Tables, figures and alignments from the files that fairseq writes: ``python -m rnnsearch_fairseq.analysis``."""

import argparse
import importlib
import sys

PROGRAM = "python -m rnnsearch_fairseq.analysis"
COMMANDS = {
    "report": "everything below of a folder of runs, as one Markdown file and one HTML page",
    "tables": "Tables 1 to 3 of Bahdanau et al. (2015), and whether systems differ significantly",
    "by-length": "their Figure 2: BLEU by source length",
    "alignment-plot": "their Figure 3: the alignment of a sentence",
    "alignment-error": "alignment error rate against gold alignments",
    "token-scores": "BLEU and RIBES on tokens",
    "tree-tables": "Tables 3 to 5 of Eriguchi et al. (2016)",
    "constituent-plot": "their Figures 4 and 5: the words and phrases attended to",
}
MODULES = {"tables": "paper_tables"}  # the others are called as their commands


def main() -> int | None:
    """Run the command that is named; what follows its name is its own."""
    width = max(map(len, COMMANDS))
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=f"{__doc__}\n\n" + "\n".join(f"  {name:{width}}  {does}" for name, does in COMMANDS.items()),
        epilog=f"Each tells more: {PROGRAM} COMMAND --help",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=f"{PROGRAM} COMMAND ...",
    )
    parser.add_argument("command", metavar="COMMAND", choices=COMMANDS, help="one of those above")
    command = parser.parse_args(sys.argv[1:2] or ["--help"]).command
    sys.argv[:2] = [f"{PROGRAM} {command}"]
    module = importlib.import_module(f"rnnsearch_fairseq.analysis.{MODULES.get(command, command.replace('-', '_'))}")
    return module.main()


if __name__ == "__main__":
    sys.exit(main())
