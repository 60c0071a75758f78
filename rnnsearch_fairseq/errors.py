"""The error by which this package refuses bad input."""


class InputError(ValueError):
    """Bad input; the message is one sentence that names the file, line or option and the cure.

    At the end of a command it is printed without a traceback (`rnnsearch_fairseq.compat`).
    """
