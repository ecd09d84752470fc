"""The version, where every layer may read it (caches and artefacts are stamped with it)."""

__version__ = "0.1.0"
