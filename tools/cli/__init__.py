"""The command ``tilewright``: compile models, run artefacts, look into them."""
