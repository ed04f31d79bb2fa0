"""First passes over all frames, for transforms that must know these before they change one.

`base` runs them, `kept` keeps their results in the user's cache folder, `kinds` says what each sums up.
"""
