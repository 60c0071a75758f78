"""Run the command of this folder."""

from recipes.groundhog.convert import main
from rnnsearch_fairseq.command_line import print_without_traceback

if __name__ == "__main__":
    print_without_traceback()
    main()
