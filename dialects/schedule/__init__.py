"""Schedules as straight-line programs of steps on the loops of a kernel."""

SYNTAX = f"{__name__}.syntax:FRAGMENT"
