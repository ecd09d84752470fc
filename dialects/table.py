"""The table of dialects: ``"name": "module:object"``, loaded at first use. A new dialect is one line here."""

DIALECTS: dict[str, str] = {
    "tw": "tilewright.core.attributes:TW",
    "te": "tilewright.dialects.te.ops:TE",
    "loop": "tilewright.dialects.loop.ops:LOOP",
    "schedule": "tilewright.dialects.schedule.ops:SCHEDULE",
}
