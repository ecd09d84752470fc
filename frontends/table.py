"""The table of frontends: file suffix or framework name to ``"module:object"``, loaded at first use."""

FRONTENDS: dict[str, str] = {}
