"""Passes on the graph dialect, one in each file; ``rules_*`` and ``fusion_groups`` hold what they are made of."""
