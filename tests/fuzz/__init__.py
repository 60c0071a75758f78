"""Fuzzing: damaged, senseless and hostile inputs for every reader of files, and noise for the commands."""
