"""An attack on what the documentation promises: trials with seeds, of which each either holds or is broken.

`python -m attack` runs it (`make attack`); a module here is a kind of attack, `trials` what they share.
"""
