"""Beam searches of this package, wrappers around fairseq's, and the generation options that choose them.

May import errors, modules, files, data, models, tasks, criterions, optim and config.
"""
