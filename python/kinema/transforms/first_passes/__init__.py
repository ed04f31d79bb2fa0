"""First passes over all frames, for transforms that must see all frames before they change one.

`base` has their common code and `kinds` the sums of each; `making` runs them; `kept` stores their results in the user's
cache folder.
"""
