"""The version of this package, which its distribution and its server name."""

__version__ = "0.3.0"
