"""One file per schedule step: what it does, when it is legal, and nothing else. ``schedule.Schedule`` is the door."""
